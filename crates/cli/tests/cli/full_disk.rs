//! Commands that free space, on a disk that has none left.

use std::fs;
use std::io::Write;
use std::path::Path;

use cutpoint_testing::SplitMix64;

use crate::failures::SmallDisk;
use crate::sandbox::{Sandbox, run};

/// Takes every byte that a file system has left.
fn take_all_space(folder: &Path) {
    for (name, len) in [("many", 65_536), ("few", 4096), ("last", 1)] {
        let mut file = fs::File::create(folder.join(name)).expect("created");
        while file.write_all(&vec![1; len]).is_ok() {}
    }
}

/// What frees space needs none, except for the reserve of the repository.
#[test]
fn forget_and_prune_work_with_no_free_byte() {
    for forgets_first in [true, false] {
        let sandbox = Sandbox::new();
        let Some(disk) = SmallDisk::mount(&sandbox, "disk", "30m") else { return };
        let program = |arguments: &[&str]| {
            let mut command = sandbox.command(arguments);
            run(command.env("CUTPOINT_REPO", sandbox.path("disk/repo")))
        };
        program(&["init", "--encryption", "none"]).well();
        fs::create_dir(sandbox.path("source")).expect("made");
        for seed in 1..4 {
            let file = SplitMix64::bytes(seed, 5_000_000);
            fs::write(sandbox.path("source/file"), &file).expect("written");
            program(&["backup", "source"]).well();
        }
        if forgets_first {
            program(&["forget", "--keep-last", "1"]).well();
        }
        take_all_space(&disk.0);
        fs::write(disk.0.join("more"), "x").expect_err("the disk is full");
        if !forgets_first {
            program(&["forget", "--keep-last", "1"]).well();
        }
        program(&["prune"]).well();
        program(&["prune", "--exclusive", "--yes"]).well();
        let free = rustix::fs::statvfs(&disk.0).expect("counted");
        let free = free.f_bavail * free.f_frsize;
        assert!(free > 9_000_000, "{free} bytes are free");
        program(&["check", "--read-data"]).ended(0, &["No problems found"]);
        program(&["backup", "source"]).well();
        let reserve = sandbox.path("disk/repo/tmp/reserve").metadata().expect("there again");
        assert_eq!(reserve.len(), 65_536, "the reserve");
    }
}
