//! An ordered map from keys to values that is larger than the memory: the tables of a volume.
//!
//! Changes go to a map in memory. A checkpoint freezes that map and writes it as a [`Run`], a sorted
//! file that never changes. Four runs of one level are merged to one of the next. A lookup asks the
//! maps in memory, then the runs from the newest to the oldest; a filter of each part of a run answers for
//! most keys that are not in it.

mod compaction;
mod fences;
mod filter;
mod key;
mod memory;
mod merge;
mod page;
mod pages;
mod part;
mod run;
mod writer;

use std::sync::Arc;

pub(crate) use self::compaction::{MergeStep, RunMerge, are_consistent};
pub(crate) use self::key::Key;
pub(crate) use self::memory::MemoryMap;
use self::merge::Source;
pub(crate) use self::merge::{Entry, Merge};
pub(crate) use self::run::Run;
use self::writer::PartWriter;
use crate::core::Core;
use crate::error::Result;
use crate::rules;

/// An ordered map whose newest changes are in memory and whose others are in runs.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    core: Arc<Core>,
    active: MemoryMap,
    /// The changes that a checkpoint is writing. They are older than the active ones.
    frozen: Option<Arc<MemoryMap>>,
    /// The runs, from the newest to the oldest.
    runs: Vec<Arc<Run>>,
}

impl Tree {
    /// Creates a map with the given runs, from the newest to the oldest.
    pub(crate) fn new(core: Arc<Core>, runs: Vec<Arc<Run>>) -> Tree {
        Tree { core, active: MemoryMap::default(), frozen: None, runs }
    }

    /// Returns what `decode` makes of the value of a key.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be read or is damaged.
    pub(crate) fn get<T>(&self, key: &Key, decode: impl Fn(&[u8]) -> T) -> Result<Option<T>> {
        for map in std::iter::once(&self.active).chain(self.frozen.as_deref()) {
            if let Some(change) = map.get(key) {
                return Ok(change.map(decode));
            }
        }
        let filter_hash = key.filter_hash();
        let mut found = None;
        for run in &self.runs {
            if let Some(change) = run.get(&self.core, key, filter_hash, &decode)? {
                found = Some(change);
                if rules::newest_counts() {
                    break;
                }
            }
        }
        Ok(found.flatten())
    }

    /// Returns what `decode` makes of the values of `count` keys, which are at least `from` and less than
    /// `to`. `place` returns the index of a key in the result, or `None` for a key that is not wanted.
    ///
    /// Keys that are close together are found faster than by [`get`](Tree::get), but a page of each run
    /// is read, whatever its filter says.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be read or is damaged, though it may have none of the keys.
    pub(crate) fn get_range<T>(
        &self,
        [from, to]: [Key; 2],
        count: usize,
        place: impl Fn(&Key) -> Option<usize>,
        decode: impl Fn(&[u8]) -> T,
    ) -> Result<Vec<Option<T>>> {
        let mut found: Vec<Option<Option<T>>> = Vec::new();
        found.resize_with(count, || None);
        let mut take = |key: &Key, change: Option<&[u8]>| {
            if let Some(found) = place(key).and_then(|place| found.get_mut(place))
                && (found.is_none() || !rules::newest_counts())
            {
                *found = Some(change.map(&decode));
            }
        };
        for map in std::iter::once(&self.active).chain(self.frozen.as_deref()) {
            map.range(from, to).for_each(|(key, change)| take(&key, change));
        }
        for run in &self.runs {
            run.for_each_in(&self.core, [&from, &to], &mut take)?;
        }
        Ok(found.into_iter().map(Option::flatten).collect())
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, key: Key, value: &[u8]) {
        self.active.set(key, Some(value));
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, key: Key) {
        if self.frozen.is_none() && self.runs.is_empty() {
            self.active.forget(key);
        } else {
            self.active.set(key, None);
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) {
        self.active.begin();
    }

    /// Keeps the changes of the transaction.
    pub(crate) fn commit(&mut self) {
        self.active.commit();
    }

    /// Takes the changes of the transaction back.
    pub(crate) fn roll_back(&mut self) {
        self.active.roll_back();
    }

    /// Returns the keys from `from` up to, not including, `to`, in order, with their values.
    pub(crate) fn range(&self, from: Key, to: Key) -> Merge<'_> {
        let mut sources = vec![Source::memory(&self.active, from, to)];
        sources.extend(self.frozen.as_ref().map(|map| Source::memory(map, from, to)));
        sources.extend(self.runs.iter().map(|run| Source::run(&self.core, run, from, to)));
        Merge::new(sources, false)
    }

    /// Returns the number of bytes that the changes in memory take, those of a checkpoint not counted.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.active.bytes()
    }

    /// Returns the number of bytes of memory that fences and filters of the runs take.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.index_bytes()).sum()
    }

    /// Sets the changes in memory aside for a checkpoint, and returns them. Those of an earlier
    /// checkpoint that has failed are among them.
    pub(crate) fn freeze(&mut self) -> Arc<MemoryMap> {
        let newer = std::mem::take(&mut self.active);
        let frozen = match self.frozen.take() {
            None => newer,
            Some(_) if !rules::must_keep_frozen() => newer,
            Some(older) => {
                let mut older = Arc::unwrap_or_clone(older);
                older.append(&newer);
                older
            }
        };
        let frozen = Arc::new(frozen);
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Puts a run in the place of the changes that were set aside. `None` if there were none.
    pub(crate) fn thaw(&mut self, run: Option<Arc<Run>>) {
        self.frozen = None;
        self.runs.splice(0..0, run);
    }

    /// Returns the runs, from the newest to the oldest.
    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Takes the result of a step of a merge.
    pub(crate) fn apply(&mut self, merge: &RunMerge, step: &MergeStep) {
        self.runs = merge.applied(&self.runs, step);
    }
}

/// Writes changes in memory as a run of level 0 with the part `number`, and syncs it, without its name.
/// `is_oldest` is set if there is no run. Returns `None` if nothing is left.
///
/// # Errors
///
/// Fails if the part cannot be written. Its file is then removed.
pub(crate) fn write_run(
    core: &Core,
    number: u64,
    is_oldest: bool,
    changes: &MemoryMap,
) -> Result<Option<Arc<Run>>> {
    let mut writer = PartWriter::create(core, number, !is_oldest)?;
    for (key, value) in changes.in_order() {
        if is_oldest && value.is_none() {
            continue;
        }
        if let Err(error) = writer.push(key, value) {
            return Err(writer.abandon(error));
        }
    }
    let part = writer.finish()?;
    Ok(part.map(|part| Arc::new(Run::new(0, !is_oldest, Arc::new(part)))))
}

#[cfg(test)]
mod tests;
