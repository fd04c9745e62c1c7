//! The runs of a repository on this machine: a folder of run files, merged by size.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::file::{MergeFailure, merge, open};
use super::run::Run;
use super::store::RunStore;
use crate::format::names::PartName;

/// Number of runs of similar size that are merged into one.
const TIER_RUNS: usize = 10;
/// The age after which a partly written file is removed.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Merges runs until there are no ten of similar size. A run that cannot be read is removed from
/// `runs` and returned.
pub(in crate::index) fn merge_tiers(
    store: &RunStore,
    runs: &mut Vec<Arc<Run>>,
) -> Option<Arc<Run>> {
    if *store == RunStore::Memory {
        return None;
    }
    loop {
        let mut tiers: HashMap<u32, usize> = HashMap::new();
        for run in runs.iter() {
            *tiers.entry(tier(run)).or_default() += 1;
        }
        let (&full, _) = tiers.iter().find(|(_, count)| **count >= TIER_RUNS)?;
        let (mut parts, rest): (Vec<_>, Vec<_>) = runs.drain(..).partition(|run| tier(run) == full);
        *runs = rest;
        match merge(store, &parts.iter().map(|run| &**run).collect::<Vec<_>>()) {
            Ok(merged) => {
                parts.iter().for_each(|part| part.remove_file());
                runs.push(Arc::new(merged));
            }
            Err(MergeFailure::Damaged(number)) => {
                let damaged = parts.remove(number);
                runs.extend(parts);
                return Some(damaged);
            }
            Err(MergeFailure::Unwritten) => {
                // The disk is full, so the runs stay as they are.
                runs.extend(parts);
                return None;
            }
        }
    }
}

fn tier(run: &Run) -> u32 {
    run.hint_count.max(1).ilog10()
}

/// Opens the runs in `folder` that `is_usable` admits by the segments that they cover, with each
/// segment at most once. Removes the other runs, and partly written files that are a day older than
/// `now_ns`.
pub(in crate::index) fn open_all(
    folder: &Path,
    is_usable: impl Fn(&[PartName]) -> bool,
    now_ns: i64,
) -> Vec<Arc<Run>> {
    let mut runs: Vec<Arc<Run>> = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return runs };
    for path in entries.flatten().map(|entry| entry.path()) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_useless = match extension {
            Some("run") => match open(&path) {
                Some(run) if is_usable(&run.covers) => {
                    runs.push(Arc::new(run));
                    false
                }
                _ => true,
            },
            Some("tmp") => is_stale(&path, now_ns),
            _ => false,
        };
        if is_useless {
            std::fs::remove_file(&path).ok();
        }
    }
    // After a crash between merge and removal both are present, and the larger one contains all
    // hints.
    runs.sort_by_key(|run| Reverse(run.covers.len()));
    let mut covered = HashSet::new();
    runs.retain(|run| {
        let fresh = run.covers.iter().all(|segment| !covered.contains(segment));
        if fresh {
            covered.extend(run.covers.iter().copied());
        } else {
            run.remove_file();
        }
        fresh
    });
    runs
}

/// Returns `true` if the file is so old that no process can still be writing to it.
fn is_stale(path: &Path, now_ns: i64) -> bool {
    let now = UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).unwrap_or(0));
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > STAGED_AGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::super::block::{BLOCK_LEN, blocks_len};
    use super::super::run::RunHints;
    use super::*;
    use crate::format::fingerprint::Class;
    use crate::format::names::TicketId;
    use crate::format::segment::{ContainerRecord, Segment};

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    /// Returns a segment of one container with `count` hints, of which every third occurs twice.
    fn segment(number: u32, count: u64) -> Segment {
        let name = part(number);
        let container = ContainerRecord {
            name,
            class: Class::Data,
            has_delta_chunks: number.is_multiple_of(2),
            stored_len: 1,
            toc_offset: 2,
            toc_len: 3,
        };
        let hint = |n: u64| (n + (u64::from(number) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hints = (0..count).flat_map(|n| vec![(hint(n), 0); if n % 3 == 0 { 2 } else { 1 }]);
        let mut hints: Vec<_> = hints.collect();
        hints.sort_unstable();
        Segment { containers: vec![container], hints, ..Segment::default() }
    }

    /// Creates a run of one segment.
    fn create(store: &RunStore, name: PartName, segment: &Segment) -> Run {
        let run = Run::in_memory(vec![name], segment);
        if *store == RunStore::Memory { run } else { merge(store, &[&run]).expect("written") }
    }

    fn cache(folder: &tempfile::TempDir) -> RunStore {
        RunStore::Folder(folder.path().to_owned())
    }

    /// Returns the path of a run in the cache, and the offset of its hints.
    fn file(run: &Run) -> (&Path, u64) {
        match &run.hints {
            RunHints::File { path: Some(path), offset, .. } => (path, *offset),
            _ => panic!("it is in a file"),
        }
    }

    fn expect_found(run: &Run, segment: &Segment) {
        for at in segment.hints.chunk_by(|one, other| one.0 == other.0) {
            let mut found = Vec::new();
            run.find(at[0].0, &mut found).expect("nothing is damaged");
            assert_eq!(found, vec![segment.containers[0]; at.len()], "hint {:x}", at[0].0);
            run.find(at[0].0 ^ 1, &mut found).expect("nothing is damaged");
            assert_eq!(found.len(), at.len(), "{:x} was not inserted", at[0].0 ^ 1);
        }
    }

    #[test]
    fn runs_find_hints_of_their_segments() {
        let folder = tempfile::tempdir().expect("made");
        for count in [0, 1, 255, 256, 257, 1000, 5000] {
            let segment = segment(0, count);
            expect_found(&create(&RunStore::Memory, part(0), &segment), &segment);
            let written = create(&cache(&folder), part(0), &segment);
            expect_found(&written, &segment);
            expect_found(&open(file(&written).0).expect("it is what was written"), &segment);
        }
        let unnamed = tempfile::tempdir().expect("made");
        let temporary = RunStore::Temporary(unnamed.path().to_owned());
        for (store, file_count) in [(cache(&folder), 1), (temporary, 0)] {
            let (RunStore::Folder(path) | RunStore::Temporary(path)) = &store else { continue };
            let segments: Vec<_> = (0..10).map(|number| segment(number, 2000)).collect();
            let create = |(number, segment)| Arc::new(create(&store, part(number), segment));
            let mut runs: Vec<_> = (0..).zip(&segments).map(create).collect();
            assert!(merge_tiers(&store, &mut runs).is_none(), "nothing is damaged");
            let [merged] = &runs[..] else { panic!("they become one, not {}", runs.len()) };
            segments.iter().for_each(|segment| expect_found(merged, segment));
            let filter = merged.filter.bytes();
            assert_eq!(merged.memory_bytes(), filter, "no hints in memory");
            assert_eq!(std::fs::read_dir(path).expect("it lists").count(), file_count, "files");
        }
    }

    /// Clustered hints are far from the position that is tried first.
    #[test]
    fn clustered_hints_are_found() {
        let folder = tempfile::tempdir().expect("made");
        for move_to in [|hint: u64| hint >> 20, |hint: u64| hint >> 20 | u64::MAX << 44] {
            let mut segment = segment(0, 5000);
            segment.hints.iter_mut().for_each(|(hint, _)| *hint = move_to(*hint));
            expect_found(&create(&RunStore::Memory, part(0), &segment), &segment);
            expect_found(&create(&cache(&folder), part(0), &segment), &segment);
        }
    }

    /// For every flipped bit of a file, either the file or the block is refused, or the bit is
    /// never used.
    #[test]
    fn flipped_bits_and_moved_blocks_are_detected() {
        let folder = tempfile::tempdir().expect("made");
        let segment = segment(0, 600);
        let run = create(&cache(&folder), part(0), &segment);
        let (path, _) = file(&run);
        let intact = std::fs::read(path).expect("it is there");
        let all = |run: &Run| {
            segment.hints.iter().all(|(hint, _)| run.find(*hint, &mut Vec::new()).is_ok())
        };
        assert!(all(&open(path).expect("intact")), "intact");
        for place in (0..intact.len()).step_by(7) {
            let mut bytes = intact.clone();
            bytes[place] ^= 1 << (place % 8);
            std::fs::write(path, &bytes).expect("written");
            assert!(!open(path).is_some_and(|run| all(&run)), "byte {place} was flipped");
        }
        // A block in the place of another one, and the block of another run in the same place.
        let hints_len = usize::try_from(blocks_len(run.hint_count)).expect("it is small");
        let block = intact.len() - hints_len;
        let mut bytes = intact.clone();
        bytes.copy_within(block..block + BLOCK_LEN, block + BLOCK_LEN);
        std::fs::write(path, &bytes).expect("written");
        assert!(!open(path).is_some_and(|run| all(&run)), "the first block twice");
        let other = create(&cache(&folder), part(1), &segment);
        let (other, _) = file(&other);
        let mut bytes = std::fs::read(other).expect("it is there");
        bytes[block..].copy_from_slice(&intact[block..]);
        std::fs::write(other, &bytes).expect("written");
        assert!(!open(other).is_some_and(|run| all(&run)), "blocks of another run");
        let other = create(&cache(&folder), part(2), &segment);
        let (other, _) = file(&other);
        let mut bytes = std::fs::read(other).expect("it is there");
        bytes[block..block + BLOCK_LEN].copy_from_slice(&intact[block..block + BLOCK_LEN]);
        std::fs::write(other, &bytes).expect("written");
        assert!(!open(other).is_some_and(|run| all(&run)), "first block of another run");
    }

    #[test]
    fn damaged_run_is_not_merged() {
        let folder = tempfile::tempdir().expect("made");
        let store = cache(&folder);
        let create = |number| Arc::new(create(&store, part(number), &segment(number, 2000)));
        for place in [0, 20_000] {
            let mut runs: Vec<_> = (0..10).map(create).collect();
            let (path, offset) = file(&runs[7]);
            let mut bytes = std::fs::read(path).expect("it is there");
            bytes[usize::try_from(offset).expect("it is small") + place] ^= 1;
            std::fs::write(path, bytes).expect("written");
            let damaged = merge_tiers(&store, &mut runs).expect("it is found");
            assert_eq!(damaged.covers(), [part(7)], "the damaged one");
            assert_eq!(runs.len(), 9, "the others are as they were");
            assert!(merge_tiers(&store, &mut runs).is_none(), "they are intact");
            let staged = std::fs::read_dir(folder.path()).expect("it lists").flatten();
            let staged =
                staged.filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp"));
            assert_eq!(staged.count(), 0, "nothing half written is left");
        }
    }
}
