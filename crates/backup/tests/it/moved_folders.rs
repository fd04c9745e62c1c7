//! Folders that were moved: their files are taken over unread, as far as rule W3 holds.

use std::fs;
use std::path::Path;

use cutpoint_backup::save::{BackupOptions, Parent, ReadReason};

use crate::manual_clock::SECOND_NS;
use crate::unchanged_files::{DAY_NS, Place};

/// Creates a place with some folders that a snapshot has, long after they were made.
fn place() -> Place {
    let place = Place::new();
    for name in ["a/x", "a/deep/y", "a/deep/z", "b/x", "c/w"] {
        place.write(name, name.as_bytes());
    }
    place.advance(DAY_NS);
    assert_eq!(place.reasons(&place.options()).len(), 5, "all are new");
    place.advance(DAY_NS);
    place
}

fn rename(place: &Place, from: &str, to: &str) {
    let to = place.path(to);
    fs::create_dir_all(to.parent().expect("a folder")).expect("made");
    fs::rename(place.path(from), to).expect("renamed");
}

/// Returns the files that a backup reads.
fn read(place: &Place) -> Vec<(String, ReadReason)> {
    place.reasons(&place.options())
}

fn new(name: &str) -> (String, ReadReason) {
    (name.to_owned(), ReadReason::New)
}

#[test]
fn files_in_moved_folders_are_not_read() {
    let place = place();
    rename(&place, "a", "new/moved");
    rename(&place, "new/moved/deep", "0");
    assert_eq!(read(&place), [], "both folders are found");
    let target = tempfile::tempdir().expect("a target");
    let (back, _) = place.restore(target.path(), &());
    for (name, content) in [("new/moved/x", "a/x"), ("0/y", "a/deep/y"), ("b/x", "b/x")] {
        assert_eq!(fs::read_to_string(back.join(name)).expect(name), content, "{name}");
    }
    assert_eq!(read(&place), [], "nothing has changed since");
}

#[test]
fn folders_that_exchange_their_names_are_found() {
    let place = place();
    rename(&place, "a", "t");
    rename(&place, "b", "a");
    rename(&place, "t", "b");
    assert_eq!(read(&place), [], "each is compared with itself");
    let entry = place.entry(&place.path("b/x"));
    assert_eq!(entry.size, 3, "of the right file");
}

#[test]
fn changed_and_renamed_files_in_a_moved_folder_are_read() {
    let place = place();
    rename(&place, "a", "z");
    fs::write(place.path("z/deep/y"), "other bytes").expect("written");
    rename(&place, "z/deep/z", "z/deep/renamed");
    fs::write(place.path("z/added"), "added").expect("written");
    let expected = [new("added"), new("renamed"), ("y".to_owned(), ReadReason::Size)];
    assert_eq!(read(&place), expected);
}

#[test]
fn copied_folder_is_read() {
    let place = place();
    fs::create_dir(place.path("copy")).expect("made");
    fs::copy(place.path("a/x"), place.path("copy/x")).expect("copied");
    assert_eq!(read(&place), [new("x")]);
}

#[test]
fn moved_folder_whose_files_are_not_settled_is_read() {
    let place = Place::new();
    place.write("a/x", b"bytes");
    place.advance(30 * SECOND_NS);
    place.reasons(&place.options());
    rename(&place, "a", "b");
    assert_eq!(read(&place), [("x".to_owned(), ReadReason::TooFresh)]);
}

#[test]
fn moved_folder_on_another_file_system_is_read() {
    let mut place = place();
    rename(&place, "a", "z");
    place.file_system.identity = "ext4 2".to_owned();
    let read = read(&place);
    let of_moved = read.iter().filter(|(_, reason)| *reason == ReadReason::New).count();
    assert_eq!((read.len(), of_moved), (5, 3), "{read:?}");
}

/// The source itself has another name, so that no snapshot of the same paths exists.
#[test]
fn moved_source_is_not_read() {
    let place = Place::new();
    for name in ["photos/1", "photos/old/2"] {
        place.write(name, name.as_bytes());
    }
    place.advance(DAY_NS);
    let of = |source: &Path, options: &BackupOptions| {
        let count = place.reasons_of(source, options).len();
        place.advance(SECOND_NS);
        count
    };
    assert_eq!(of(&place.path("photos"), &place.options()), 2, "new");
    rename(&place, "photos", "archive/pictures");
    let without = BackupOptions { parent: Parent::None, ..place.options() };
    assert_eq!(of(&place.path("archive/pictures"), &without), 2, "compared with nothing");
    assert_eq!(of(&place.path("archive"), &place.options()), 0, "moved, and a source below it");
}
