//! A request to stop ends every wait for an object storage: for an answer, and for the next
//! attempt.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{
    Environment, Interruptible, Kind, Result, S3, S3Settings, Storage, System, wait,
};

/// Maximum time from a request to the end of a wait.
const LIMIT: Duration = Duration::from_secs(2);

/// Starts a server that accepts connections and gives `answer` to every request, or never answers.
fn server(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("it listens"));
    // The thread ends with the process.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            if let Some(answer) = answer {
                // The beginning of the request suffices.
                let _: Option<usize> = stream.read(&mut [0; 4096]).ok();
                stream.write_all(answer.as_bytes()).ok();
            } else {
                open.push(stream);
            }
        }
    });
    address
}

const BUSY: &str = "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn storage(address: &str, stop: &Stop) -> S3 {
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    let mut settings = S3Settings::parse("s3://bucket/repo").expect("an address");
    settings.endpoint = Some(address.to_owned());
    settings.variables = keys.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    let environment = Interruptible::new(System, stop.clone());
    S3::open(&settings, Arc::new(environment)).expect("it opens")
}

type Call = fn(&S3) -> Result<()>;

const CALLS: [(&str, Call); 7] = [
    ("put_new", |storage| storage.put_new("commits/x", Bytes::from_static(b"x")).map(drop)),
    ("get", |storage| storage.get("commits/x").map(drop)),
    ("get_range", |storage| storage.get_range("data/00/x", 0, 5).map(drop)),
    ("head", |storage| storage.head("commits/x").map(drop)),
    ("list", |storage| storage.list("commits").map(drop)),
    ("delete", |storage| storage.delete("commits/x")),
    ("sync", |storage| storage.sync("commits/x")),
];

#[test]
fn stop_request_ends_every_wait() {
    for (what, address) in [("an answer", server(None)), ("the next try", server(Some(BUSY)))] {
        let stop = Stop::default();
        let storage = storage(&address, &stop);
        std::thread::scope(|scope| {
            let calls = CALLS.map(|(verb, call)| {
                let storage = &storage;
                (verb, scope.spawn(move || (call(storage), Instant::now())))
            });
            // The pauses between attempts with a server that has never worked are shorter than this
            // alone.
            std::thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            stop.ask(System.elapsed_ns());
            for (verb, call) in calls {
                let (result, ended) = call.join().expect("no panic");
                let error = result.expect_err(verb);
                assert_eq!(error.kind(), Kind::Interrupted, "{verb} waits for {what}: {error}");
                let elapsed = ended.saturating_duration_since(asked);
                assert!(elapsed < LIMIT, "{verb} waits for {what} {elapsed:?}");
            }
        });
        // No new request is begun.
        let began = Instant::now();
        let error = storage.list("commits").expect_err("it is over");
        assert_eq!(error.kind(), Kind::Interrupted, "{error}");
        assert!(began.elapsed() < LIMIT, "it is not waited for");
    }
}

#[test]
fn publishing_has_a_limited_time() {
    let stop = Stop::default();
    let storage = storage(&server(None), &stop);
    stop.ask(System.elapsed_ns());
    let limit = Duration::from_secs(1);
    let environment = Interruptible::new(System, stop.clone());
    let began = Instant::now();
    let publishing = wait::finishing(&environment, limit);
    let error =
        storage.put_new("commits/x", Bytes::from_static(b"x")).expect_err("no answer comes");
    drop(publishing);
    assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    let elapsed = began.elapsed();
    assert!(elapsed >= limit - Duration::from_millis(100), "it has its time: {elapsed:?}");
    assert!(elapsed < limit + LIMIT, "and no more: {elapsed:?}");
}
