//! Requests to S3 that stall: which of them are made twice.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::{Error, Put, S3Limits, Storage};

use crate::s3_server::{Odd, Server};

/// The number of requests after which a storage knows their usual time.
const USUAL_COUNT: usize = 32;

/// Puts objects that a server takes at once, and then one by whose puts the server does `odd`. Returns
/// the result and the methods of the requests for that one.
fn put_after_others(name: &str, odd: &[Odd]) -> (Result<Put, Error>, Vec<String>) {
    let server = Server::start();
    let storage = server.storage_with(S3Limits { silence: Duration::from_secs(5), tries_max: 2 });
    for number in 0..USUAL_COUNT {
        let put = storage.put_new(&format!("data/{number}"), Bytes::from_static(b"other"));
        assert_eq!(put.expect("it is put"), Put::Created, "{number}");
    }
    server.state().requests.clear();
    server.state().odd.insert("PUT", odd.iter().copied().collect());
    let put = storage.put_new(name, Bytes::from_static(b"ours"));
    let object = server.state().objects.get(&format!("/bucket/repo/{name}")).cloned();
    assert_eq!(object.as_deref(), Some(&b"ours"[..]), "{name}: {odd:?}");
    (put, server.methods())
}

/// A name of a container belongs to one writer, so that its put may be made twice.
#[test]
fn stalled_put_of_a_container_is_made_twice() {
    let (put, methods) = put_after_others("data/x", &[Odd::Silence]);
    let expected = (Put::Created, vec!["PUT".into(); 2]);
    assert_eq!((put.expect("the second one"), methods), expected, "after silence");
    // The second one is told of the object that the first has put, so the object is compared.
    let (put, methods) = put_after_others("index/x", &[Odd::DoneSilence]);
    assert_eq!(put.expect("the first one"), Put::Created, "the object is its own");
    assert_eq!(methods, ["PUT", "PUT", "HEAD", "GET"], "the object is read");
}

/// A second put of a commit would be told that another client has put one.
#[test]
fn stalled_put_of_a_commit_waits() {
    std::thread::scope(|scope| {
        for name in ["commits/x", "tickets/x", "prunes/x", "config/x"] {
            scope.spawn(move || {
                let (put, methods) = put_after_others(name, &[Odd::DoneSilence]);
                assert_eq!(put.expect("it was put"), Put::Created, "{name}");
                assert_eq!(methods, ["PUT", "HEAD", "GET"], "{name}");
            });
        }
    });
}

#[test]
fn stalled_read_is_made_twice() {
    let server = Server::start();
    let storage = server.storage();
    storage.put_new("data/x", Bytes::from_static(b"ours")).expect("it is put");
    for _ in 0..USUAL_COUNT {
        storage.get_at_most("data/x", 4).expect("it is there");
    }
    server.state().requests.clear();
    for odd in [Odd::Silence, Odd::HalfAnswerAndSilence] {
        server.state().odd.insert("GET", [odd].into());
        let began = Instant::now();
        let read = storage.get_at_most("data/x", 4).expect("the second one");
        assert_eq!(read, &b"ours"[..], "{odd:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "the server is silent for 60 s");
        // At most one read of twenty is made twice.
        for _ in 0..USUAL_COUNT {
            storage.get_at_most("data/x", 4).expect("it is there");
        }
    }
    assert_eq!(server.methods().len(), 2 * (2 + USUAL_COUNT), "each stalled read is made twice");
}
