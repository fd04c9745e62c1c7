//! Faults at every put, at every send and at every read of a previous version, with 1 to 8 threads:
//! the run ends and reports the failure.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use cutpoint_backup::save::faults::{self, FaultPlan};
use cutpoint_backup::save::{Source, backup};
use cutpoint_repository::Repository;
use cutpoint_storage::{Error, Kind, Layer, Memory, Put, Result, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::options;
use crate::seeded_repository::{SeededEnvironment, contents, init, init_exact, unlock};

/// The time limit of a run, far beyond the time that one takes. It ends a run that waits endlessly.
const LIMIT: Duration = Duration::from_secs(30);
const MEBIBYTE: usize = 1 << 20;

/// Returns a stream of more batches than circulate. Each mebibyte has new data, which a worker must
/// encode, and zeros.
fn stream(threads: usize) -> Source {
    let mut bytes = Vec::new();
    for batch in 0..threads + 5 {
        let new = SplitMix64::new(batch as u64).take(20_000);
        bytes.extend(new.iter().flat_map(|byte| [byte & 15; 3]));
        bytes.resize((batch + 1) * MEBIBYTE, 0);
    }
    let reader = Box::new(std::io::Cursor::new(bytes)) as Box<dyn Read + Send>;
    Source::Stream { name: b"stream".to_vec(), reader }
}

/// The calls of which one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Put,
    /// A read of a range of file chunks.
    DataRead,
}

/// A storage that refuses the call with the index `at`, from 0 on, of all those of one kind.
#[derive(Debug)]
struct FaultAt {
    memory: Arc<dyn Storage>,
    call: Call,
    at: u64,
    calls: AtomicU64,
}

const REFUSED: &str = "this call is refused";

impl FaultAt {
    fn new(memory: Arc<dyn Storage>, call: Call, at: u64) -> Arc<FaultAt> {
        Arc::new(FaultAt { memory, call, at, calls: AtomicU64::new(0) })
    }

    fn call_count(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn count(&self, call: Call, name: &str) -> Result<()> {
        if call == self.call && self.calls.fetch_add(1, Ordering::SeqCst) == self.at {
            return Err(Error::new(Kind::Storage, name, REFUSED));
        }
        Ok(())
    }
}

impl Layer for FaultAt {
    fn below(&self) -> &dyn Storage {
        &*self.memory
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.count(Call::Put, name)?;
        self.memory.put_new(name, bytes)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        if name.starts_with("data/") {
            self.count(Call::DataRead, name)?;
        }
        self.memory.get_range(name, offset, len)
    }
}

/// Runs with a fault at the put `put`. Returns the result, and the numbers of puts and sends.
fn run(threads: usize, put: u64, plan: FaultPlan) -> (Result<()>, u64, u64) {
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    let environment = SeededEnvironment::new(1);
    init_exact(&memory, &environment);
    let storage = FaultAt::new(memory, Call::Put, put);
    let repository = Repository::open(storage.clone(), environment, &unlock()).expect("it opens");
    faults::plan(plan);
    let result = backup(&Arc::new(repository), stream(threads), &options(threads), &());
    (result.map(drop), storage.call_count(), faults::sends())
}

/// Runs `act` in a thread of its own, and panics if it does not end within the limit.
fn within<T: Send + 'static>(case: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(act()).ok());
    ended.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{case}: waits endlessly: {error}"))
}

/// Calls [`run`] within the limit.
fn run_within(threads: usize, put: u64, plan: FaultPlan) -> (Result<()>, u64, u64) {
    let case = format!("{threads} threads, put {put}, {plan:?}");
    within(&case, move || run(threads, put, plan))
}

/// Creates a repository with a previous version of [`changed_stream`].
fn with_previous_version(threads: usize) -> Arc<dyn Storage> {
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&memory, &SeededEnvironment::new(1));
    backup(&repository, stream(threads), &options(threads), &()).expect("nothing fails");
    memory
}

/// Returns the stream of [`stream`] with other bytes in the first chunks. The dedup stage
/// compares these with the previous version, while more batches are to come than circulate.
fn changed_stream(threads: usize) -> Source {
    let Source::Stream { name, mut reader } = stream(threads) else {
        unreachable!("it is a stream")
    };
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("it is in memory");
    for at in [1_000, 20_000, 50_000] {
        bytes[at] ^= 1;
    }
    Source::Stream { name, reader: Box::new(std::io::Cursor::new(bytes)) }
}

/// Saves the changed stream, with the read `read` refused. Returns the result, and the number of
/// reads.
fn compare(
    previous: &Arc<dyn Storage>,
    threads: usize,
    read: u64,
    plan: FaultPlan,
) -> (Result<()>, u64) {
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    for (name, bytes) in contents(&**previous) {
        memory.put_new(&name, bytes.into()).expect("there is room");
    }
    let storage = FaultAt::new(memory, Call::DataRead, read);
    let repository =
        Repository::open(storage.clone(), SeededEnvironment::new(2), &unlock()).expect("it opens");
    faults::plan(plan);
    let result = backup(&Arc::new(repository), changed_stream(threads), &options(threads), &());
    (result.map(drop), storage.call_count())
}

/// Checks that the result is the fault, and not a consequence or an interruption.
fn require_cause(result: Result<()>, kind: Kind, message: &str, case: &str) {
    let error = result.expect_err(case);
    assert_eq!(error.kind(), kind, "{case}: {error}");
    assert!(error.to_string().contains(message), "{case}: {error}");
}

#[test]
fn failing_put_ends_every_stage() {
    for threads in 1..=8 {
        let (result, puts, _) = run_within(threads, u64::MAX, FaultPlan::default());
        result.expect("nothing fails");
        assert!(puts >= 4, "a ticket, a container, a segment and a commit, but {puts} puts");
        // The last put is that of the commit, which is retried.
        for put in 0..puts - 1 {
            // With slow sends, stages end while others have much work before them.
            for pause in [Duration::ZERO, Duration::from_micros(200)] {
                let plan = FaultPlan { pause, ..FaultPlan::default() };
                let (result, ..) = run_within(threads, put, plan);
                // A put of the reserve may fail.
                if result.is_err() {
                    let case = format!("{threads} threads, put {put}");
                    require_cause(result, Kind::Storage, REFUSED, &case);
                }
            }
        }
    }
}

#[test]
fn failing_send_ends_every_stage() {
    for threads in [1, 2, 3, 8] {
        let (result, _, sends) = run_within(threads, u64::MAX, FaultPlan::default());
        result.expect("nothing fails");
        assert!(sends > 40, "{sends} sends are too few to mean anything");
        for send in 0..sends {
            let plan = FaultPlan { fails_at: Some(send), ..FaultPlan::default() };
            let (result, ..) = run_within(threads, u64::MAX, plan);
            let case = format!("{threads} threads, send {send}");
            require_cause(result, Kind::Storage, faults::FAILURE, &case);
        }
    }
}

/// Only the dedup stage reads file chunks. While it fails, earlier stages send to it and later
/// ones wait for it.
#[test]
fn failing_read_in_dedup_stage_is_the_error_of_the_run() {
    for threads in [1, 2, 4, 8] {
        let previous = with_previous_version(threads);
        let (result, reads) = compare(&previous, threads, u64::MAX, FaultPlan::default());
        result.expect("nothing fails");
        let mut failures = 0;
        for read in 0..reads {
            for pause in [Duration::ZERO, Duration::from_micros(200)] {
                let plan = FaultPlan { pause, ..FaultPlan::default() };
                let (case, previous) =
                    (format!("{threads} threads, read {read}"), previous.clone());
                let (result, _) = within(&case, move || compare(&previous, threads, read, plan));
                // If a table of contents cannot be read, its chunks are stored again.
                if result.is_err() {
                    require_cause(result, Kind::Storage, REFUSED, &case);
                    failures += 1;
                }
            }
        }
        assert!(failures >= 2, "{threads} threads: no read of a chunk was refused, of {reads}");
    }
}
