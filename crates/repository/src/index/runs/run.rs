//! One sorted run: a filter, a table of containers, and hints in memory or in a file.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use cutpoint_storage::system;

use super::block::{BLOCK_HINTS, BLOCK_LEN, blocks_len, decode, identity, partition, verify};
use super::filter::Filter;
use crate::format::names::PartName;
use crate::format::segment::{ContainerRecord, HINT_LEN, Segment};

/// Number of blocks that a lookup reads at once. Hints are uniform, so that in runs of a million
/// hints, the wanted one is mostly within one block of the position that its value predicts.
pub(super) const WINDOW_BLOCKS: u64 = 3;

/// The storage of a run's hints.
#[derive(Debug)]
pub(super) enum RunHints {
    Memory(Vec<u8>),
    /// A file with its path, unless it has no name.
    File {
        file: File,
        path: Option<PathBuf>,
        offset: u64,
    },
}

/// The hints of one or more segments in rising order, and the containers to which they lead.
#[derive(Debug)]
pub(in crate::index) struct Run {
    pub(super) covers: Vec<PartName>,
    /// The value to which the blocks of the file are bound.
    pub(super) identity: u64,
    pub(super) containers: Vec<ContainerRecord>,
    pub(super) hint_count: u64,
    pub(super) filter: Filter,
    pub(super) hints: RunHints,
    /// Set if the run was found in the cache, or merged from runs that were.
    pub(super) is_found: bool,
}

/// A verified range of a run's hints.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The number of the first hint.
    start: u64,
    records: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + (self.records.len() / HINT_LEN) as u64
    }

    fn get(&self, at: u64) -> Option<(u64, u32)> {
        let index = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let record = self.records.get(index.checked_mul(HINT_LEN)?..)?;
        (record.len() >= HINT_LEN).then(|| decode(record))
    }
}

impl Run {
    /// Creates a run of `segment` in memory.
    pub(in crate::index) fn in_memory(covers: Vec<PartName>, segment: &Segment) -> Run {
        let mut filter = Filter::with_room_for(segment.hints.len() as u64);
        let mut bytes = Vec::with_capacity(segment.hints.len() * HINT_LEN);
        for (hint, container) in &segment.hints {
            filter.insert(*hint);
            bytes.extend_from_slice(&hint.to_be_bytes());
            bytes.extend_from_slice(&container.to_le_bytes());
        }
        Run {
            identity: identity(&covers),
            covers,
            containers: segment.containers.clone(),
            hint_count: segment.hints.len() as u64,
            filter,
            hints: RunHints::Memory(bytes),
            is_found: false,
        }
    }

    pub(in crate::index) fn covers(&self) -> &[PartName] {
        &self.covers
    }

    pub(in crate::index) fn containers(&self) -> &[ContainerRecord] {
        &self.containers
    }

    pub(in crate::index) fn hint_count(&self) -> u64 {
        self.hint_count
    }

    pub(in crate::index) fn is_found(&self) -> bool {
        self.is_found
    }

    pub(in crate::index) fn memory_bytes(&self) -> u64 {
        let hints = match &self.hints {
            RunHints::Memory(bytes) => bytes.len() as u64,
            RunHints::File { .. } => 0,
        };
        self.filter.bytes() + hints
    }

    /// Removes the run's file. Processes that have it open can still read it.
    pub(in crate::index) fn remove_file(&self) {
        if let RunHints::File { path: Some(path), .. } = &self.hints {
            // A file that stays would only be read and dropped the next time.
            std::fs::remove_file(path).ok();
        }
    }

    /// Reads `count` blocks from block `first` on; fewer at the end.
    fn read(&self, first: u64, count: u64, window: &mut Window) -> io::Result<()> {
        let start = first * BLOCK_HINTS;
        let end = (start + count * BLOCK_HINTS).min(self.hint_count);
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX) * HINT_LEN;
        window.start = start;
        window.records.clear();
        match &self.hints {
            RunHints::Memory(bytes) => {
                window.records.extend_from_slice(&bytes[index(start)..index(end)]);
                Ok(())
            }
            RunHints::File { file, offset, .. } => {
                let len = usize::try_from(blocks_len(end - start)).unwrap_or(usize::MAX);
                window.records.resize(len, 0);
                let offset = offset + first * BLOCK_LEN as u64;
                system::read_exact_at(file, &mut window.records, offset)?;
                verify(&mut window.records, self.identity, first)
            }
        }
    }

    /// Returns the hint with number `at`, and its container's number. Reads `count` blocks if the
    /// hint is not in `window`.
    pub(super) fn record(
        &self,
        at: u64,
        count: u64,
        window: &mut Window,
    ) -> io::Result<(u64, u32)> {
        if window.get(at).is_none() {
            self.read(at / BLOCK_HINTS, count, window)?;
        }
        window.get(at).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Adds the containers to which `hint` leads to `found`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is damaged.
    pub(in crate::index) fn find(
        &self,
        hint: u64,
        found: &mut Vec<ContainerRecord>,
    ) -> io::Result<()> {
        if self.hint_count == 0 || !self.filter.may_hold(hint) {
            return Ok(());
        }
        // The first position whose hint is not below `hint` lies in low..=high.
        let (mut low, mut high) = (0, self.hint_count);
        let mut guess = u64::try_from((u128::from(hint) * u128::from(self.hint_count)) >> 64);
        let mut window = Window::default();
        while low < high {
            let middle = guess.unwrap_or(low + (high - low) / 2).clamp(low, high - 1);
            let first = (middle / BLOCK_HINTS).saturating_sub(1).max(low / BLOCK_HINTS);
            self.read(first, WINDOW_BLOCKS, &mut window)?;
            let place = window.start + partition(&window.records, hint);
            if place == window.start {
                high = place;
            } else if place == window.end() {
                low = place;
            } else {
                (low, high) = (place, place);
            }
            guess = Ok(low + (high - low) / 2);
        }
        for at in low..self.hint_count {
            let (each, container) = self.record(at, 1, &mut window)?;
            if each != hint {
                break;
            }
            found.extend(self.containers.get(container as usize));
        }
        Ok(())
    }
}
