//! An ordered map from keys to values that is larger than the memory: the tables of a volume.
//!
//! Changes go to a map in memory. A checkpoint freezes that map and writes it as a [`Run`], a sorted
//! file that never changes. Four runs of one level are merged to one of the next. A lookup asks the
//! maps in memory, then the runs from the newest to the oldest; a filter of each run answers for most
//! keys that are not in it.

mod fences;
mod filter;
mod key;
mod memory;
mod merge;
mod page;
mod pages;
mod run;
mod writer;

use std::sync::Arc;

pub(crate) use self::key::Key;
pub(crate) use self::memory::MemoryMap;
use self::merge::Source;
pub(crate) use self::merge::{Entry, Merge};
pub(crate) use self::run::Run;
use self::run::is_hashed;
use self::writer::RunWriter;
use crate::core::Core;
use crate::error::Result;
use crate::rules;

/// The number of runs of one level that are merged to one of the next level.
const FANOUT: usize = 4;

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

    /// Puts the result of a merge in the place of its inputs.
    pub(crate) fn replace(&mut self, merge: &RunMerge, merged: Option<Arc<Run>>) {
        replace(&mut self.runs, merge, merged);
    }
}

/// Puts the result of a merge in the place of its inputs.
fn replace(runs: &mut Vec<Arc<Run>>, merge: &RunMerge, merged: Option<Arc<Run>>) {
    let first = runs.iter().position(|run| run.number() == merge.inputs[0].number());
    let first = first.expect("runs leave the list by merges only, of which there is one at a time");
    runs.splice(first..first + merge.inputs.len(), merged);
}

/// Runs that are to be merged: neighbours, from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct RunMerge {
    inputs: Vec<Arc<Run>>,
    level: u8,
    /// Set if no older run is left, so that deletions need not be kept.
    is_oldest: bool,
}

impl RunMerge {
    /// Returns the next merge that is due among `runs`, which go from the newest to the oldest, and of
    /// whose entries `live_count` are live.
    pub(crate) fn due(runs: &[Arc<Run>], live_count: u64) -> Option<RunMerge> {
        let entry_count: u64 = runs.iter().map(|run| run.entry_count()).sum();
        if runs.len() > 1 && entry_count * 2 > live_count.saturating_mul(3) {
            let level = runs.iter().map(|run| run.level()).max().unwrap_or_default();
            return Some(RunMerge { inputs: runs.to_vec(), level, is_oldest: true });
        }
        // Levels rise with age, so that runs of one level are neighbours.
        let level = runs
            .iter()
            .map(|run| run.level())
            .find(|level| runs.iter().filter(|run| run.level() == *level).count() >= FANOUT)?;
        let first = runs.iter().position(|run| run.level() == level)?;
        let inputs: Vec<_> =
            runs[first..].iter().take_while(|run| run.level() == level).cloned().collect();
        let is_oldest = first + inputs.len() == runs.len();
        Some(RunMerge { inputs, level: level.saturating_add(1), is_oldest })
    }

    /// Returns the list of runs with the result in the place of the inputs.
    pub(crate) fn applied(&self, runs: &[Arc<Run>], merged: Option<&Arc<Run>>) -> Vec<Arc<Run>> {
        let mut runs = runs.to_vec();
        replace(&mut runs, self, merged.cloned());
        runs
    }

    /// Writes the result as run `number` and syncs it, without its name. Returns `None` if nothing
    /// is left. Returns early with `None` in the outer result if `is_asked_to_stop` returns `true`.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be read or written. The file of the result is then removed.
    pub(crate) fn run(
        &self,
        core: &Core,
        number: u64,
        is_asked_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<Option<Arc<Run>>>> {
        let counts = self.inputs.iter().map(|run| run.filtered_count(self.is_oldest));
        let mut writer = RunWriter::create(core, number, self.level, self.is_oldest, counts.sum())?;
        let inputs = self.inputs.iter().map(|run| Source::whole_run(core, run)).collect();
        for (count, entry) in Merge::new(inputs, !self.is_oldest).enumerate() {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => return Err(writer.abandon(error)),
            };
            if let Err(error) = writer.push(key, value.as_deref()) {
                return Err(writer.abandon(error));
            }
            if count % 4096 == 0 && is_asked_to_stop() {
                writer.discard();
                return Ok(None);
            }
        }
        writer.finish().map(|run| Some(run.map(Arc::new)))
    }
}

/// Writes changes in memory as run `number` of level 0 and syncs it, without its name. `is_oldest` is
/// set if there is no run. Returns `None` if nothing is left.
///
/// # Errors
///
/// Fails if the run cannot be written. Its file is then removed.
pub(crate) fn write_run(
    core: &Core,
    number: u64,
    is_oldest: bool,
    changes: &MemoryMap,
) -> Result<Option<Arc<Run>>> {
    let mut written = changes.in_order();
    written.retain(|(_, value)| value.is_some() || !is_oldest);
    let filtered = written.iter().filter(|(key, _)| !is_oldest || is_hashed(key));
    let mut writer = RunWriter::create(core, number, 0, is_oldest, filtered.count() as u64)?;
    for (key, value) in written {
        if let Err(error) = writer.push(key, value) {
            return Err(writer.abandon(error));
        }
    }
    writer.finish().map(|run| run.map(Arc::new))
}

#[cfg(test)]
mod tests;
