//! The stored bytes are a format: a repository made with fixed randomness equals, byte for byte,
//! the one that commit 7558e2f made.
//!
//! A binary of its own, so that a change of the code can be checked with this test alone.

#[path = "it/backup_options.rs"]
#[allow(dead_code, reason = "this test saves a stream")]
mod backup_options;
#[path = "it/seeded_repository.rs"]
#[allow(dead_code, reason = "this test has settings of its own")]
mod seeded_repository;

use std::sync::Arc;

use backup_options::options;
use cutpoint_backup::save::{Source, backup};
use cutpoint_repository::gc::prune::{OptimizeOptions, PruneOptions, optimize, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::{CipherSuite, InitOptions, Repository, TicketId};
use cutpoint_storage::{Environment, Error, Memory, Storage};
use cutpoint_testing::SplitMix64;
use seeded_repository::{Seeded, contents, unlock};

/// The digests after init, after each of four backups, after a prune, and after an optimization, as
/// made by commit 7558e2f.
const DIGESTS: [&str; 7] = [
    "220222d73395c4084296a2bc43556c3b",
    "d3fa761b4e18d66dc927ef2ffce07b60",
    "df47945e7979d88f598d31caf6ab67a7",
    "464fc6741ac291e971795635027ce3c9",
    "892acb0a6303a8ce262a688cbe9a9756",
    "e423078982dcd0d60ef681929b443b65",
    "0de59b6b19312b14d1e0bf52c0e0a595",
];

fn text(random: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < len {
        let word = random.below(3000);
        text.extend_from_slice(format!("word {word} of {} ", word % 7).as_bytes());
    }
    text
}

fn digest(storage: &dyn Storage) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in contents(storage) {
        hasher.update(name.as_bytes()).update(&bytes.len().to_le_bytes()).update(&bytes);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[test]
fn repository_with_fixed_randomness_is_equal_byte_for_byte() {
    let environment = Seeded::new(7);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let settings = InitOptions {
        suite: CipherSuite::ChaCha20Poly1305,
        cut: "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0".to_owned(),
        region_size: 64 * 1024,
        container_size: 4 * 1024 * 1024,
        compression_level: 3,
        delta_chunks: true,
        parity_percent: 10,
    };
    let shared: Arc<dyn Environment> = environment.clone();
    let repository = Repository::init(storage.clone(), shared, &unlock(), &settings).expect("init");
    let repository = Arc::new(repository);
    let mut digests = vec![digest(&*storage)];
    let mut random = SplitMix64::new(3);
    let mut bytes = text(&mut random, 9_000_000);
    bytes.extend(random.take(1_000_000));
    let mut ids: Vec<TicketId> = Vec::new();
    for _ in 0..4 {
        for _ in 0..60 {
            let at = random.below(bytes.len());
            let piece = random.take(30);
            bytes.splice(at..at, piece);
        }
        let source = Source::Stream {
            name: b"dump".to_vec(),
            reader: Box::new(std::io::Cursor::new(bytes.clone())),
        };
        let report = backup(&repository, source, &options(2), &()).expect("backup");
        ids.extend(report.snapshot);
        digests.push(digest(&*storage));
    }
    forget::<Error>(&repository, |_| Ok(ids[..2].to_vec())).expect("forget");
    let options = PruneOptions { unused_max: 0.0, is_alone: true, ..PruneOptions::default() };
    prune(&repository, &options, &(), |_| true).expect("prune");
    sweep(&repository);
    digests.push(digest(&*storage));
    let options = OptimizeOptions { is_alone: true, ..OptimizeOptions::default() };
    optimize(&repository, &options, &(), |_| true).expect("optimize");
    sweep(&repository);
    digests.push(digest(&*storage));
    assert_eq!(digests, DIGESTS);
}

fn sweep(repository: &Arc<Repository>) {
    let options = SweepOptions { settle_ns: 0, commit_ns: i64::MAX, end_others: true };
    let mut sweeper = Sweeper::new(repository.clone(), options);
    while let Sweep::Done(_) = sweeper.step(&()).expect("sweep") {}
}
