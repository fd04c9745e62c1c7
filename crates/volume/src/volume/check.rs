//! Reads everything, and names what is damaged.

use std::collections::BTreeMap;

use super::Volume;
use super::open::{read_checkpoint, read_superblock_file};
use super::read::DamagedBlock;
use crate::error::Result;
use crate::format::names;
use crate::format::record::Seq;
use crate::tables::LOST;

/// The maximum number of blocks that a finding lists.
const LISTED_MAX: usize = 16;

/// A damaged part of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file with the damage and the place in it, or the block.
    pub object: String,
    /// The problem.
    pub problem: String,
    /// The number of blocks of the disk that cannot be read.
    pub block_count: u64,
    /// The first of these blocks.
    pub blocks: Vec<u64>,
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
        let state = self.read_state();
        let tables = &state.tables;
        let mut users: BTreeMap<Seq, (u64, Vec<u64>)> = BTreeMap::new();
        for (block, seq) in tables.map.iter() {
            let (count, blocks) = users.entry(seq).or_default();
            *count += 1;
            if blocks.len() < LISTED_MAX {
                blocks.push(block);
            }
        }
        if let Some((block_count, blocks)) = users.remove(&LOST) {
            let problem = "the record of the last change is damaged".to_owned();
            tell(&mut summary, Finding { object: "log".to_owned(), problem, block_count, blocks });
        }
        let mut order: Vec<_> = tables.stored.iter().map(|(seq, it)| (it.place, *seq)).collect();
        order.sort_unstable();
        let mut buffer = vec![0; self.block_size()];
        for (_, seq) in order {
            if is_asked_to_stop() {
                break;
            }
            summary.stored_count += 1;
            summary.read_bytes +=
                tables.stored.get(&seq).map_or(0, |it| it.payload_len(tables.block_size) as u64);
            let Err(DamagedBlock { error, .. }) = self.read_stored(tables, seq, &mut buffer) else {
                continue;
            };
            let (block_count, blocks) = users.remove(&seq).unwrap_or_default();
            let (object, problem) = (error.object().to_owned(), error.problem().to_owned());
            tell(&mut summary, Finding { object, problem, block_count, blocks });
        }
        Ok(summary)
    }

    /// Returns the damaged ones of the two superblocks and of the copies of checkpoints.
    fn check_copies(&self) -> Result<Vec<Finding>> {
        let whole = |object: String, problem: String| Finding {
            object,
            problem,
            block_count: 0,
            blocks: Vec::new(),
        };
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
