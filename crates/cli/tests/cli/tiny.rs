//! Backups of few changed bytes: the number and the size of their objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cutpoint_testing::SplitMix64;

use crate::sandbox::{Sandbox, describe};

/// The maximum number of bytes that a backup of a tiny change puts.
const TINY_BYTES_MAX: u64 = 70_000;

/// Returns the objects below a folder with their lengths.
fn objects(folder: &Path) -> BTreeMap<String, u64> {
    let mut objects = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("it lists")) {
            let metadata = entry.metadata().expect("it is there");
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                let path = entry.path();
                let name = path.strip_prefix(folder).expect("it is below").display().to_string();
                objects.insert(name, metadata.len());
            }
        }
    }
    objects
}

/// A repository of a folder with a file of 4 MB that does not compress, and small files.
struct Tiny {
    sandbox: Sandbox,
    key: Vec<&'static str>,
}

impl Tiny {
    fn new(key: &[&'static str]) -> Tiny {
        let tiny = Tiny { sandbox: Sandbox::new(), key: key.to_vec() };
        fs::create_dir(tiny.sandbox.path("source")).expect("a folder");
        let mut bytes = SplitMix64::bytes(1, 4_000_000);
        // Bytes that are easy to change.
        bytes[2_000_000..2_000_002].copy_from_slice(b"00");
        tiny.write("large", &bytes);
        for number in 0..20 {
            let text = cutpoint_testing::input::text(2000 + number);
            tiny.write(&format!("small {number:02}"), &text[number..]);
        }
        tiny
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.sandbox.path("source").join(name), bytes).expect("written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.sandbox.path("source").join(name)).expect("it is there")
    }

    fn run(&self, arguments: &[&str]) {
        self.sandbox.run(arguments.iter().chain(&self.key)).well();
    }

    /// Backs up. Returns the new objects with their lengths.
    fn back_up(&self, arguments: &[&str]) -> BTreeMap<String, u64> {
        let repository = self.sandbox.path("repo");
        let before = if repository.exists() { objects(&repository) } else { BTreeMap::new() };
        self.run(&[&["backup", "source"], arguments].concat());
        let mut new = objects(&repository);
        new.retain(|name, _| !before.contains_key(name));
        new
    }

    /// Checks that a backup of what has changed puts a ticket, two containers and a commit, and
    /// few bytes.
    #[track_caller]
    fn back_up_tiny(&self) {
        let new = self.back_up(&[]);
        let folders: Vec<&str> = new.keys().filter_map(|name| name.split('/').next()).collect();
        assert_eq!(folders, ["commits", "data", "meta", "tickets"], "{new:?}");
        let bytes: u64 = new.values().sum();
        assert!(bytes <= TINY_BYTES_MAX, "{bytes} bytes: {new:?}");
    }

    /// Checks all data, and that the newest snapshot is restored as the source is.
    #[track_caller]
    fn expect_sound(&self, target: &str) {
        self.run(&["check", "--read-data"]);
        self.run(&["restore", "latest:", "--to", target]);
        let source = self.sandbox.path("source");
        let back = source.strip_prefix("/").expect("an absolute path");
        let back = self.sandbox.path(target).join(back);
        assert_eq!(describe(&back), describe(&source), "what came back");
    }
}

/// Makes tiny backups of all kinds, and removes some of them in two steps.
fn tiny_backups_are_few_objects(key: &[&'static str], init: &[&str]) {
    let tiny = Tiny::new(key);
    tiny.back_up(&[&["--init"], init].concat());
    let mut large = tiny.read("large");
    large[2_000_000..2_000_002].copy_from_slice(b"11");
    tiny.write("large", &large);
    tiny.back_up_tiny();
    tiny.expect_sound("changed");
    for number in 0..3 {
        let mut small = tiny.read("small 07");
        small.extend_from_slice(format!("line {number}\n").as_bytes());
        tiny.write("small 07", &small);
        tiny.back_up_tiny();
    }
    tiny.expect_sound("appended");
    // The second snapshot has what later ones need, and the next ones have not.
    for (keep, target) in [("4", "one"), ("2", "two"), ("1", "three")] {
        tiny.run(&["forget", "--keep-last", keep]);
        tiny.run(&["prune", "--settle", "0"]);
        tiny.expect_sound(target);
        tiny.run(&["prune", "--settle", "0"]);
        tiny.run(&["check", "--read-data"]);
    }
}

#[test]
fn tiny_backups_are_four_objects() {
    tiny_backups_are_few_objects(&[], &["--encryption", "none"]);
}

#[test]
fn encrypted_tiny_backups_are_four_objects() {
    tiny_backups_are_few_objects(&["--key-file", "key"], &[]);
}
