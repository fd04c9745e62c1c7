//! Rewrites: snapshots without some entries.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cutpoint_backup::copy::{CopyMonitor, plan_rewrites, rewrite};
use cutpoint_backup::save::{BackupMonitor, backup};
use cutpoint_repository::verify::repair::repaired_as;
use cutpoint_repository::{EntryKind, TicketId};
use cutpoint_storage::{Kind, Storage};

use crate::backup_options::{files, options};
use crate::copies::{assert_sound, entries, kept, reader, source};
use crate::manual_clock::{Clock, HOUR_NS, make};

/// Lets 11 hours pass in each of some steps, and waits then until the ticket is renewed, which a rewrite
/// does while it puts nothing.
struct Steps {
    clock: Arc<Clock>,
    storage: Arc<dyn Storage>,
    left: AtomicU64,
    asked: AtomicU64,
}

impl Steps {
    fn renewal_count(&self) -> usize {
        let tickets = self.storage.list("tickets").expect("memory lists");
        tickets.iter().filter(|(name, _)| name.contains('.')).count()
    }
}

impl BackupMonitor for Steps {
    fn cancelled(&self) -> bool {
        let step = |left: u64| left.checked_sub(1);
        if self.asked.fetch_add(1, Ordering::SeqCst) > 10
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).is_ok()
        {
            let before = self.renewal_count();
            self.clock.advance(11 * HOUR_NS);
            let began = Instant::now();
            while self.renewal_count() == before && began.elapsed() < Duration::from_secs(40) {
                sleep(Duration::from_millis(5));
            }
            // The thread that renews the ticket notices then that it is old.
            sleep(Duration::from_millis(250));
        }
        false
    }
}

impl CopyMonitor for Steps {}

/// A rewrite has no checkpoints, so that one that takes longer than the life of its ticket commits
/// nothing.
#[test]
fn rewrite_of_more_than_twenty_hours_is_refused() {
    for (steps, is_refused) in [(1, false), (2, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..300 {
            fs::write(folder.path().join(format!("{number:03}")), [0; 9]).expect("a file");
        }
        let (clock, storage, repository) = make();
        backup(&repository, files(folder.path()), &options(2), &()).expect("a backup");
        let before = reader(&repository);
        let old = before.view().snapshots()[0].0;
        let plan = plan_rewrites(&before, &[old], &["000".to_owned()], &()).expect("a plan");
        let monitor =
            Steps { clock, storage, left: AtomicU64::new(steps), asked: AtomicU64::new(0) };
        let rewritten = rewrite(&repository, &plan, &options(2), &monitor);
        let count = reader(&repository).view().snapshots().len();
        if is_refused {
            let error = rewritten.expect_err("it takes 22 hours");
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(error.to_string().contains("20 hours"), "{error}");
            assert_eq!(count, 1, "no snapshot is made of a part");
        } else {
            assert_eq!(rewritten.expect("it takes 11 hours").saved.len(), 1);
            assert_eq!(count, 2, "the old one and the new one");
        }
    }
}

#[test]
fn rewritten_snapshots_lack_the_path_and_keep_the_rest() {
    let folder = tempfile::tempdir().expect("folder");
    let repository = source(folder.path());
    let reader_before = reader(&repository);
    let view = reader_before.view();
    let all: Vec<TicketId> = view.snapshots().iter().map(|(id, _)| *id).collect();
    let exclude = ["folder 1/".to_owned(), "large".to_owned(), "absent".to_owned()];
    let plan = plan_rewrites(&reader_before, &all, &exclude, &()).expect("a plan");
    assert_eq!(plan.rewrites.len(), 2, "both snapshots have it");
    assert_eq!(plan.unmatched.iter().collect::<Vec<_>>(), ["absent"], "a pattern without effect");
    let report = rewrite(&repository, &plan, &options(2), &()).expect("it rewrites");
    assert_eq!((report.read_bytes, report.new_bytes), (0, 0), "no file is read: {report:?}");
    assert_sound(&repository);
    let reader_after = reader(&repository);
    let view = reader_after.view();
    for (old, new) in &report.saved {
        let of = |id: &TicketId| view.commits[id].snapshot().expect("a snapshot").clone();
        let old_id = old.ticket().expect("of this program");
        let (old, new) = (of(&old_id), of(new));
        let is_kept = |path: &str| !path.contains("/folder 1") && !path.ends_with("/large");
        let mut expected = entries(&reader_after, &old.root, "");
        expected.retain(|(path, ..)| is_kept(path));
        let found = entries(&reader_after, &new.root, "");
        assert_eq!(found.len(), expected.len(), "the number of entries");
        assert!(found == expected, "the entries");
        let count = found.iter().filter(|it| it.1.kind == EntryKind::File).count() as u64;
        assert_eq!(new.statistics.file_count, count, "the number of files");
        let (mut old, mut new) = (kept(&old), kept(&new));
        (old.statistics, new.statistics) = Default::default();
        assert!(new.started_ns > old.started_ns, "the new one follows in every list");
        assert_eq!(new.started_ns / 1000, old.started_ns / 1000, "at the same time");
        // A repair of the old one would start in the next two nanoseconds.
        assert_eq!(repaired_as(&view, old_id), None);
        assert_eq!(new.read_since_ns, Some(old.started_ns), "not the new time");
        (new.started_ns, new.read_since_ns) = (old.started_ns, old.read_since_ns);
        assert_eq!(old, new, "times, host and tags");
    }
    let again = plan_rewrites(&reader_after, &[report.saved[0].1], &exclude, &()).expect("a plan");
    assert_eq!((again.rewrites.len(), again.unchanged_count), (0, 1), "nothing is left to remove");
}
