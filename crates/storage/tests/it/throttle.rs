//! Limits of rates: over folders, memory, and S3, whose requests take as long as the limit demands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{
    Environment, Interruptible, Kind, Limited, Local, Memory, ObjectRange, Process, Put,
    RateLimits, Result, S3, S3Settings, Storage, System, Throttle,
};
use cutpoint_testing::SplitMix64;

use crate::contract::{keeps_the_contract, s3_server};

const MIB: u64 = 1 << 20;

/// A clock that only advances while a thread sleeps.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Environment for Clock {
    fn now_ns(&self) -> i64 {
        0
    }

    fn elapsed_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn block(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).expect("it is short");
        self.0.fetch_add(ns, Ordering::SeqCst);
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        System.random(bytes)
    }

    fn process(&self) -> Process {
        Process::default()
    }

    fn may_be_alive(&self, _: &Process) -> bool {
        true
    }
}

pub(crate) fn limits(upload: u64, download: u64) -> RateLimits {
    RateLimits { upload: Some(upload), download: Some(download) }
}

/// Asserts that `bytes` in `seconds` are `rate` within a tenth.
fn assert_rate(bytes: u64, seconds: f64, rate: u64, what: &str) {
    let measured = bytes as f64 / seconds;
    let share = measured / rate as f64;
    assert!((0.9..=1.1).contains(&share), "{what}: {measured:.0} B/s instead of {rate} B/s");
}

/// Moves objects of many sizes for a minute of simulated time in each direction.
fn keeps_rates_for_a_minute(below: Arc<dyn Storage>) {
    let clock = Arc::new(Clock::default());
    let (up, down) = (5 * MIB, 3 * MIB);
    let storage = Limited::wrap(below, &Throttle::new(limits(up, down), clock.clone()));
    storage.prepare().expect("it prepares");
    let lens = [1, 700, 128 << 10, 1 << 20, 16 << 20, 40 << 20];
    let seconds = |since: u64| (clock.elapsed_ns() - since) as f64 / 1e9;
    let (mut names, mut bytes) = (Vec::new(), 0);
    while seconds(0) < 60.0 {
        let number = names.len();
        let object = Bytes::from(SplitMix64::bytes(number as u64, lens[number % lens.len()]));
        let name = format!("data/00/{number:032x}");
        bytes += object.len() as u64;
        match storage.stage(&name).expect("it begins").filter(|_| number % 2 == 0) {
            Some(mut staged) => {
                object.chunks(3 << 20).for_each(|part| staged.write(part).expect("it is written"));
                assert_eq!(staged.finish().expect("it ends"), Put::Created, "a staged object");
            }
            None => {
                let put = storage.put_new(&name, object.clone()).expect("it is put");
                assert_eq!(put, Put::Created, "an object");
            }
        }
        names.push((name, object));
    }
    assert_rate(bytes, seconds(0), up, "upload");
    let since = clock.elapsed_ns();
    let mut bytes = 0;
    for (number, (name, object)) in names.iter().cycle().enumerate() {
        if seconds(since) >= 60.0 {
            break;
        }
        let len = object.len();
        let read = match number % 4 {
            0 => storage.get(name).expect("it is read"),
            1 => storage.get_range(name, 0, len).expect("it is read"),
            2 => {
                let range = ObjectRange { name: name.clone(), offset: 0, len };
                storage.get_ranges(&[range]).remove(0).expect("it is read")
            }
            _ => storage.get_many(&[(name.clone(), len as u64)]).remove(0).expect("it is read"),
        };
        assert!(read == *object, "{name} is unchanged");
        bytes += read.len() as u64;
    }
    assert_rate(bytes, seconds(since), down, "download");
}

#[test]
fn folder_keeps_rates_for_a_minute() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    keeps_rates_for_a_minute(Arc::new(Local::open(folder.path()).expect("it is there")));
}

#[test]
fn memory_keeps_rates_for_a_minute() {
    keeps_rates_for_a_minute(Arc::new(Memory::new()));
}

#[test]
fn limited_storages_keep_the_contract() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let local: Arc<dyn Storage> = Arc::new(Local::open(folder.path()).expect("it is there"));
    // The smallest pieces, and no time.
    let throttle = Throttle::new(limits(1000, 1000), Arc::new(Clock::default()));
    keeps_the_contract(&*Limited::wrap(local, &throttle)).expect("a folder");
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    keeps_the_contract(&*Limited::wrap(memory, &throttle)).expect("memory");
}

#[test]
fn request_to_stop_ends_a_wait_for_the_rate() {
    let stop = Stop::default();
    let environment = Arc::new(Interruptible::new(System, stop.clone()));
    let throttle = Throttle::new(limits(16 << 10, 16 << 10), environment);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let local: Arc<dyn Storage> = Arc::new(Local::open(folder.path()).expect("it is there"));
    let bytes = Bytes::from(vec![1; 1 << 20]);
    local.put_new("tmp/a", bytes.clone()).expect("it is put");
    let storage = Limited::wrap(local.clone(), &throttle);
    let calls: [&(dyn Fn() -> Result<()> + Sync); 3] = [
        &|| storage.put_new("tmp/b", bytes.clone()).map(drop),
        &|| storage.get("tmp/a").map(drop),
        &|| storage.replace("tmp/a", bytes.clone()),
    ];
    std::thread::scope(|scope| {
        let calls = calls.map(|call| scope.spawn(call));
        std::thread::sleep(Duration::from_millis(200));
        let asked = Instant::now();
        stop.ask(System.elapsed_ns());
        for call in calls {
            let error = call.join().expect("no panic").expect_err("a minute is not over");
            assert_eq!(error.kind(), Kind::Interrupted, "{error}");
        }
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    });
    assert_eq!(local.list("tmp").expect("it lists").len(), 1, "nothing half is left");
}

/// Starts a server that takes one request, and sends the time since its first byte and the number of
/// bytes for each piece of the body that arrives.
fn watch_one_put() -> (String, mpsc::Receiver<(Duration, usize)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("it listens"));
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut reader = BufReader::with_capacity(1 << 20, stream.try_clone().expect("a copy"));
        let (mut len, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("a line");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                len = value.trim().parse().expect("a number");
            }
        }
        let (began, mut piece) = (Instant::now(), vec![0; 1 << 20]);
        while len > 0 {
            let read = reader.read(&mut piece).expect("a body");
            sender.send((began.elapsed(), read)).ok();
            len -= read;
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 0\r\n\r\n")
            .expect("it is sent");
    });
    (address, receiver)
}

fn open_s3(endpoint: &str, variables: Vec<(String, String)>, limits: RateLimits) -> S3 {
    let mut settings = S3Settings::parse("s3://bucket/throttle").expect("an address");
    settings.endpoint = Some(endpoint.to_owned());
    settings.variables = variables;
    // No wait for the rate is silence of the server.
    settings.limits.silence = Duration::from_millis(900);
    settings.limits.tries_max = 1;
    settings.throttle = Throttle::new(limits, Arc::new(System));
    S3::open(&settings, Arc::new(System)).expect("it opens")
}

#[test]
fn put_over_http_is_slow_within_its_request() {
    let (address, pieces) = watch_one_put();
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    let keys = keys.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    // Three seconds, which are more than the server may be silent.
    let storage = open_s3(&address, keys, limits(30_000, MIB));
    let put = storage.put_new("data/00/x", Bytes::from(vec![7; 90_000])).expect("it is put");
    assert_eq!(put, Put::Created, "within the only attempt");
    let pieces: Vec<_> = pieces.iter().collect();
    let arrived = |until_ms: u64| -> usize {
        let until = Duration::from_millis(until_ms);
        pieces.iter().filter(|(at, _)| *at < until).map(|(_, len)| len).sum()
    };
    assert_eq!(arrived(60_000), 90_000, "the whole body");
    assert!(arrived(500) <= 25_000, "{} in the first half second", arrived(500));
    assert!(arrived(1500) <= 56_000, "{} in the first 1.5 s", arrived(1500));
}

/// Returns the seconds that `act` takes.
pub(crate) fn seconds(act: impl FnOnce()) -> f64 {
    let began = Instant::now();
    act();
    began.elapsed().as_secs_f64()
}

/// Puts and gets objects with several threads, and returns the seconds of each direction. The limits
/// are 1 MiB/s and 2 MiB/s, and 4 MiB move in each direction.
pub(crate) fn move_some(storage: &dyn Storage) -> (f64, f64) {
    let objects: Vec<(String, Bytes)> = (0..4_u8)
        .map(|number| (format!("tmp/{number}"), Bytes::from(vec![number; 1 << 20])))
        .collect();
    let all = |act: &(dyn Fn(&str, &Bytes) + Sync)| {
        std::thread::scope(|scope| {
            for (name, bytes) in &objects {
                scope.spawn(move || act(name, bytes));
            }
        });
    };
    let up = seconds(|| {
        all(&|name, bytes| {
            let put = storage.put_new(name, bytes.clone()).expect("a put");
            assert_eq!(put, Put::Created, "{name}");
        });
    });
    let down = seconds(|| {
        all(&|name, bytes| assert!(storage.get(name).expect("a get") == *bytes, "{name}"));
    });
    objects.iter().for_each(|(name, _)| storage.delete(name).expect("a deletion"));
    (up, down)
}

/// Asserts that a storage with the limits of [`move_some`] keeps them. A loaded machine may be
/// slower.
pub(crate) fn assert_moves_slowly(storage: &dyn Storage) {
    let (up, down) = move_some(storage);
    println!("{}: up {up:.2} s, down {down:.2} s", storage.describe());
    assert!((3.7..8.0).contains(&up), "4 MiB at 1 MiB/s took {up:.2} s");
    assert!((1.7..6.0).contains(&down), "4 MiB at 2 MiB/s took {down:.2} s");
}

#[test]
fn s3_keeps_limits_of_rates() {
    let Some(server) = s3_server() else { return };
    let variables = server.variables().map(|(k, v)| (k.to_owned(), v)).to_vec();
    let storage = open_s3(&server.endpoint, variables, limits(MIB, 2 * MIB));
    assert_moves_slowly(&storage);
}
