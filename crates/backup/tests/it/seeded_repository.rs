//! Repositories in memory whose stored bytes repeat from run to run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use cutpoint_repository::{CipherSuite, InitOptions, Repository, Secret, Unlock};
use cutpoint_storage::{Environment, Process, Result, Storage};
use cutpoint_testing::SplitMix64;

/// A clock that advances a second per reading, and randomness from a seed.
#[derive(Debug)]
pub(crate) struct SeededEnvironment {
    pub(crate) random: AtomicU64,
    /// The number of readings of the clock.
    pub(crate) asked: AtomicI64,
    pub(crate) process_id: u32,
    pub(crate) dead: AtomicBool,
}

impl SeededEnvironment {
    pub(crate) fn new(seed: u64) -> Arc<SeededEnvironment> {
        Arc::new(SeededEnvironment {
            random: AtomicU64::new(seed),
            asked: AtomicI64::new(0),
            process_id: 1,
            dead: AtomicBool::new(false),
        })
    }
}

/// The first reading of the clock, in nanoseconds since 1970.
pub(crate) const NOW_NS: i64 = 2_000_000_000_000_000_000;

impl Environment for SeededEnvironment {
    fn now_ns(&self) -> i64 {
        NOW_NS + self.asked.fetch_add(1, Ordering::SeqCst) * 1_000_000_000
    }

    fn elapsed_ns(&self) -> u64 {
        0
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        let seed = self.random.fetch_add(1, Ordering::SeqCst);
        bytes.copy_from_slice(&SplitMix64::new(seed).take(bytes.len()));
        Ok(())
    }

    fn process(&self) -> Process {
        Process {
            host: "test".to_owned(),
            boot_id: "boot".to_owned(),
            namespace: String::new(),
            process_id: self.process_id,
            started: 1,
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        Some([1; 16])
    }

    fn may_be_alive(&self, _: &Process) -> bool {
        !self.dead.load(Ordering::SeqCst)
    }
}

/// Returns the key of the repositories.
pub(crate) fn unlock() -> Unlock {
    Unlock::KeyFile(Secret([7; 32]))
}

/// Creates a repository with delta chunks.
pub(crate) fn init(
    storage: &Arc<dyn Storage>,
    environment: &Arc<SeededEnvironment>,
) -> Arc<Repository> {
    init_with(storage, environment, true)
}

/// Creates a repository without delta chunks.
pub(crate) fn init_exact(
    storage: &Arc<dyn Storage>,
    environment: &Arc<SeededEnvironment>,
) -> Arc<Repository> {
    init_with(storage, environment, false)
}

fn init_with(
    storage: &Arc<dyn Storage>,
    environment: &Arc<SeededEnvironment>,
    delta_chunks: bool,
) -> Arc<Repository> {
    let options = InitOptions {
        suite: CipherSuite::ChaCha20Poly1305,
        cut: "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0".to_owned(),
        region_size: 64 * 1024,
        container_size: 4 * 1024 * 1024,
        compression_level: 3,
        delta_chunks,
        parity_percent: 0,
        ..InitOptions::default()
    };
    let environment: Arc<dyn Environment> = environment.clone();
    Arc::new(Repository::init(storage.clone(), environment, &unlock(), &options).expect("init"))
}

/// Returns all objects of `storage`.
pub(crate) fn contents(storage: &dyn Storage) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for kind in cutpoint_storage::ObjectKind::ALL {
        for (name, _) in storage.list(kind.folder()).expect("list") {
            let bytes = storage.get(&name).expect("get").to_vec();
            all.insert(name, bytes);
        }
    }
    all
}
