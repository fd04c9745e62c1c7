//! Deletion in buckets with versions and with object lock, and the permissions that it needs, on a
//! server that is built and started here.

use std::error::Error as _;

use bytes::Bytes;
use cutpoint_storage::{
    Deletion, Environment, Error, Lock, Refusal, S3, Storage, System, probe, try_deletion,
};
use cutpoint_testing::{Bucket, S3Server};

use crate::contract::{s3_as, s3_server};

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// Opens a place in a new bucket, as its owner.
fn new_bucket(server: &S3Server, name: &str, bucket: Bucket) -> S3 {
    server.create_bucket(name, bucket);
    s3_as(server, &format!("s3://{name}/a b"), server.variables())
}

fn put(storage: &S3, name: &str) {
    storage.put_new(name, Bytes::from_static(b"object")).expect("it is put");
}

/// Locks an object of the bucket until the end of 2030, or longer with a legal hold.
fn lock(server: &S3Server, path: &str, kind: &str) {
    let body = match kind {
        "retention" => {
            "<Retention><Mode>GOVERNANCE</Mode>\
             <RetainUntilDate>2030-12-31T00:00:00Z</RetainUntilDate></Retention>"
        }
        _ => "<LegalHold><Status>ON</Status></LegalHold>",
    };
    server.expect("PUT", path, &[(kind, "")], &[], body);
}

fn lacks(error: &Error) -> Option<&'static str> {
    match error.source()?.downcast_ref()? {
        Refusal::Lacks(permission) => Some(permission),
        _ => None,
    }
}

#[test]
fn deletion_in_a_bucket_with_versions_is_known_to_hide() {
    let Some(server) = s3_server() else { return };
    let plain = new_bucket(server, "plain", Bucket::Plain);
    let removes = Deletion { hides: false, may_be_locked: false };
    assert_eq!(try_deletion(&plain, &System).expect("it deletes"), removes);
    let versioned = new_bucket(server, "versioned", Bucket::Versioned);
    let hides = Deletion { hides: true, may_be_locked: false };
    assert_eq!(try_deletion(&versioned, &System).expect("it deletes"), hides);
    let locking = new_bucket(server, "locking", Bucket::Locking);
    let locks = Deletion { hides: true, may_be_locked: true };
    assert_eq!(try_deletion(&locking, &System).expect("it deletes"), locks);
    for storage in [&plain, &versioned, &locking] {
        let probed = probe(storage, &System).expect("it answers");
        assert!(probed.may_be_shared(), "{probed}");
        assert_eq!(probed.undeleted_count, 0, "{probed}");
        assert!(storage.list("tmp").expect("it lists").is_empty(), "nothing is left");
    }
}

#[test]
fn locks_are_those_of_the_bucket() {
    let Some(server) = s3_server() else { return };
    let storage = new_bucket(server, "locks", Bucket::Locking);
    let names = ["free", "retained", "held", "both", "missing"].map(|name| format!("data/{name}"));
    for name in &names[..4] {
        put(&storage, name);
    }
    let path = |name: &str| format!("/locks/a%20b/data/{name}");
    lock(server, &path("retained"), "retention");
    lock(server, &path("held"), "legal-hold");
    lock(server, &path("both"), "retention");
    lock(server, &path("both"), "legal-hold");
    let locks = storage.locks(&names).expect("it tells");
    let [None, Some(Lock::Until(until_ns)), Some(Lock::Held), Some(Lock::Held), None] = locks[..]
    else {
        panic!("{locks:?}");
    };
    assert_eq!(until_ns / DAY_NS, 22_279, "the last day of 2030");
    // The reason why locks are asked for: the storage hides a locked object, and says it is gone.
    storage.delete(&names[1]).expect("it says so");
    assert_eq!(storage.head(&names[1]).expect("it answers"), None, "hidden");
    // Many names are asked for in several parts.
    let many: Vec<String> = (0..2100).map(|number| format!("data/{number}")).collect();
    let many = [&many[..1500], &names[2..3], &many[1500..]].concat();
    let locks = storage.locks(&many).expect("it tells");
    let locked: Vec<usize> = (0..many.len()).filter(|at| locks[*at].is_some()).collect();
    assert_eq!(locked, [1500], "each lock is in its place");
}

/// An end of the retention that has passed is no lock.
#[test]
fn expired_retention_is_no_lock() {
    let Some(server) = s3_server() else { return };
    #[derive(Debug)]
    struct Later;
    impl Environment for Later {
        fn now_ns(&self) -> i64 {
            System.now_ns() + 30 * 365 * DAY_NS
        }
        fn elapsed_ns(&self) -> u64 {
            System.elapsed_ns()
        }
        fn random(&self, bytes: &mut [u8]) -> cutpoint_storage::Result<()> {
            System.random(bytes)
        }
        fn process(&self) -> cutpoint_storage::Process {
            System.process()
        }
        fn may_be_alive(&self, _: &cutpoint_storage::Process) -> bool {
            true
        }
    }
    let storage = new_bucket(server, "expired", Bucket::Locking);
    put(&storage, "data/a");
    lock(server, "/expired/a%20b/data/a", "retention");
    let mut settings = cutpoint_storage::S3Settings::parse("s3://expired/a b").expect("an address");
    settings.endpoint = Some(server.endpoint.clone());
    settings.variables = server.variables().map(|(k, v)| (k.to_owned(), v)).to_vec();
    let later = S3::open(&settings, std::sync::Arc::new(Later)).expect("it opens");
    let names = ["data/a".to_owned()];
    assert_eq!(later.locks(&names).expect("it tells"), [None]);
    assert!(storage.locks(&names).expect("it tells")[0].is_some());
}

#[test]
fn missing_permission_is_named() {
    let Some(server) = s3_server() else { return };
    let objects = ["GetObject", "PutObject", "DeleteObject"];
    for (bucket, kind) in [("named-plain", Bucket::Plain), ("named-locking", Bucket::Locking)] {
        server.create_bucket(bucket, kind);
        let user = format!("user-of-{bucket}");
        let variables = server.create_user(&user, bucket, &["ListBucket"], &objects[..2]);
        // A client asks a bucket once.
        let open = || s3_as(server, &format!("s3://{bucket}/r"), variables.clone());
        let error = try_deletion(&open(), &System).expect_err("it may not delete");
        assert_eq!(lacks(&error), Some("s3:DeleteObject"), "{error}");
        assert!(error.to_string().contains("tmp/probe-"), "the object is named: {error}");
        let probed = probe(&open(), &System).expect("it answers");
        assert!(probed.may_be_shared() && probed.undeleted_count > 20, "{probed:?}");
        server.permit(&user, bucket, &["ListBucket"], &objects);
        let tried = try_deletion(&open(), &System);
        if kind == Bucket::Plain {
            // Without versions there is no lock, whatever may be asked.
            assert_eq!(tried.expect("it deletes"), Deletion::default());
            continue;
        }
        let error = tried.expect_err("the bucket may lock objects");
        assert_eq!(lacks(&error), Some("s3:GetBucketObjectLockConfiguration"), "{error}");
        let of_bucket = ["ListBucket", "GetBucketObjectLockConfiguration"];
        let mut of_objects = objects.to_vec();
        for permission in ["GetObjectRetention", "GetObjectLegalHold"] {
            server.permit(&user, bucket, &of_bucket, &of_objects);
            let error = try_deletion(&open(), &System).expect_err("one is missing");
            assert_eq!(lacks(&error), Some(format!("s3:{permission}").as_str()), "{error}");
            of_objects.push(permission);
        }
        server.permit(&user, bucket, &of_bucket, &of_objects);
        let tried = try_deletion(&open(), &System).expect("it may do all");
        assert_eq!(tried, Deletion { hides: true, may_be_locked: true });
    }
}
