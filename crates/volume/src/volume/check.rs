//! Reads everything, and names what is damaged.

use std::collections::BTreeMap;

use super::Volume;
use super::open::{read_checkpoint, read_superblock_file};
use super::read::DamagedBlock;
use crate::error::Result;
use crate::format::names;
use crate::format::position::Seq;
use crate::tables::{LOST, Tables};

/// The maximum number of blocks that a finding lists.
const LISTED_MAX: usize = 16;

/// The maximum number of stored blocks that are read without letting writes go on.
const CHECKED_AT_ONCE: usize = 256;

/// A damaged part of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file with the damage and the place in it, or the block.
    pub object: String,
    /// The problem.
    pub problem: String,
    /// The number of blocks of disks and snapshots that cannot be read.
    pub block_count: u64,
    /// The first of these blocks.
    pub blocks: Vec<NamedBlock>,
}

/// A block of a disk or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBlock {
    /// The number of the block.
    pub block: u64,
    /// The disk, or DISK@SNAPSHOT, to which the block was written before the next snapshot. Later
    /// snapshots and clones may have the block as well.
    pub owner: String,
}

impl std::fmt::Display for NamedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.block, self.owner)
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// The number of stored blocks that were read.
    pub stored_count: u64,
    /// The number of bytes that were read.
    pub read_bytes: u64,
    /// The number of findings.
    pub finding_count: u64,
    /// The number of blocks of the disk that cannot be read.
    pub damaged_block_count: u64,
}

impl Volume {
    /// Reads the superblock, the checkpoint, their copies and every stored block, and passes what is
    /// damaged to `report`. Returns early if `is_asked_to_stop` returns `true`.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be listed.
    pub fn check(
        &self,
        mut report: impl FnMut(&Finding),
        is_asked_to_stop: impl Fn() -> bool,
    ) -> Result<CheckSummary> {
        let mut summary = CheckSummary::default();
        let mut tell = |summary: &mut CheckSummary, finding: Finding| {
            summary.finding_count += 1;
            summary.damaged_block_count += finding.block_count;
            report(&finding);
        };
        for finding in self.check_copies()? {
            tell(&mut summary, finding);
        }
        for finding in self.check_runs(&is_asked_to_stop) {
            tell(&mut summary, finding);
        }
        let mut damaged: BTreeMap<Seq, Finding> = BTreeMap::new();
        if self.read_state().tables.totals.lost_count > 0 {
            let problem = "the record of the last change is damaged".to_owned();
            damaged.insert(LOST, whole("log".to_owned(), problem));
        }
        let mut next = Some(0);
        while let Some(from) = next.filter(|_| !is_asked_to_stop()) {
            next = self.check_stored(from, &mut summary, &mut damaged)?;
        }
        if !damaged.is_empty() {
            name_blocks(&self.read_state().tables, &mut damaged)?;
        }
        damaged.into_values().for_each(|finding| tell(&mut summary, finding));
        Ok(summary)
    }

    /// Reads some stored blocks from a number on, and returns the number of the next one. Writes wait no
    /// longer than that takes.
    fn check_stored(
        &self,
        from: Seq,
        summary: &mut CheckSummary,
        damaged: &mut BTreeMap<Seq, Finding>,
    ) -> Result<Option<Seq>> {
        let state = self.read_state();
        let mut buffer = vec![0; self.block_size()];
        for (count, entry) in state.tables.stored_from(from).enumerate() {
            let (seq, stored) = entry?;
            if count >= CHECKED_AT_ONCE {
                return Ok(Some(seq));
            }
            summary.stored_count += 1;
            summary.read_bytes += u64::from(stored.payload_len);
            let read = self.read_stored(&state.tables, seq, &mut buffer);
            let verified =
                read.and_then(|()| Ok(self.core.verify_fingerprint(&stored, &buffer)?));
            if let Err(DamagedBlock { error, .. }) = verified {
                let (object, problem) = (error.object().to_owned(), error.problem().to_owned());
                damaged.insert(seq, whole(object, problem));
            }
        }
        Ok(None)
    }

    /// Returns the damaged pages of the tables.
    fn check_runs(&self, is_asked_to_stop: &impl Fn() -> bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let runs = self.read_state().tables.tree.runs().to_vec();
        for part in runs.iter().flat_map(|run| run.parts()) {
            let pages = part.pages();
            for group in 0..pages.group_count() {
                if is_asked_to_stop() {
                    return findings;
                }
                for (page, can_be_restored) in pages.check_group(&self.core, group) {
                    let page =
                        page.map_or("a parity page".to_owned(), |page| format!("page {page}"));
                    let object = format!("{}, {page}", names::part(part.number()));
                    let problem = if can_be_restored {
                        "the checksum does not match, and the other pages of its group restore it"
                    } else {
                        "the checksum does not match, and another page of its group is damaged"
                    };
                    findings.push(whole(object, problem.to_owned()));
                }
            }
        }
        findings
    }

    /// Returns the damaged ones of the two superblocks and of the copies of checkpoints.
    fn check_copies(&self) -> Result<Vec<Finding>> {
        let folder = &self.core.folder;
        let listed = self.core.names()?;
        let mut findings = Vec::new();
        for name in names::SUPERBLOCKS {
            if let Err(error) = read_superblock_file(&**folder, name) {
                findings.push(whole(name.to_owned(), error.problem().to_owned()));
            }
        }
        let numbers = listed.iter().filter_map(|name| names::parse_checkpoint(name));
        let last = numbers.max().unwrap_or_default();
        for name in names::checkpoint(last) {
            if !listed.contains(&name) {
                findings.push(whole(name, "does not exist".to_owned()));
            } else if read_checkpoint(&self.core, &name, last)?.is_none() {
                findings.push(whole(name, "the checksum does not match".to_owned()));
            }
        }
        Ok(findings)
    }
}

/// Returns a finding that concerns no block, as far as is known.
fn whole(object: String, problem: String) -> Finding {
    Finding { object, problem, block_count: 0, blocks: Vec::new() }
}

/// Names the blocks of disks and snapshots that have damaged stored blocks.
fn name_blocks(tables: &Tables, damaged: &mut BTreeMap<Seq, Finding>) -> Result<()> {
    for layer in tables.catalog.layers.keys() {
        let owner = tables.catalog.owner(*layer);
        for entry in tables.own_blocks(*layer, 0..u64::MAX) {
            let (block, seq) = entry?;
            let Some(finding) = damaged.get_mut(&seq) else { continue };
            finding.block_count += 1;
            if finding.blocks.len() < LISTED_MAX {
                finding.blocks.push(NamedBlock { block, owner: owner.clone() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::folder::{Access, FaultyFolder, Folder};
    use crate::format::span::BlockId;
    use crate::volume::{CreateOptions, DISK_NAME_DEFAULT, Disk, OpenOptions};

    #[test]
    fn block_whose_hash_is_wrong_is_named() {
        let folder: Arc<dyn Folder> = Arc::new(FaultyFolder::default());
        let options = CreateOptions::new(16 * 4096, 4096, "exact".parse().expect("a mode"));
        Volume::create(&folder, &options).expect("created");
        let volume = Volume::open(folder, &OpenOptions::new(Access::Write)).expect("opened");
        let disk = Disk::open(&Arc::new(volume), DISK_NAME_DEFAULT).expect("a disk");
        let volume = disk.volume();
        let block = [7; 4096];
        let mut prepared = volume.prepare_block(&block);
        prepared.fingerprint.as_mut().expect("no zeros")[0] ^= 1;
        {
            let mut state = volume.write_state().expect("writable");
            let id = BlockId { layer: disk.view(&state).expect("a disk").layer, block: 3 };
            volume.write_block(&mut state, id, &block, &prepared).expect("written");
        }
        let mut found = [0; 4096];
        disk.read(3 * 4096, &mut found).expect("the checksum is right");
        assert_eq!(found, block);
        let mut findings = Vec::new();
        volume.check(|finding| findings.push(finding.clone()), || false).expect("checked");
        let [finding] = findings.as_slice() else { panic!("one block: {findings:?}") };
        assert_eq!(finding.problem, "the fingerprint of the block does not match");
    }
}
