//! A short storm of processes that are killed and suspended, and have wrong clocks. `cargo xtask
//! torture` runs longer ones.

use std::path::PathBuf;
use std::time::Duration;

use cutpoint_torture::{Options, Storage};

fn storm(storage: Storage, duration: Duration) {
    let options = Options {
        program: PathBuf::from(env!("CARGO_BIN_EXE_cutpoint")),
        seed: 0x7e,
        duration,
        storage,
        build_folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
    };
    match cutpoint_torture::run(&options) {
        Ok(Some(tally)) => println!("{tally}"),
        Ok(None) => {}
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn processes_that_are_killed_suspended_and_misdated_lose_nothing() {
    storm(Storage::Folder, Duration::from_secs(10));
}

#[test]
fn processes_over_a_lying_s3_server_lose_nothing() {
    storm(Storage::S3, Duration::from_secs(10));
}
