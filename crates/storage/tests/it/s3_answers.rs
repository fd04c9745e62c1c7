//! The behaviour of the S3 storage on answers that well-behaved servers seldom give.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::{
    Deletion, Error, Kind, Put, Refusal, S3, S3Limits, S3Settings, Storage, System,
};

use crate::s3_server::{Odd, Server};

/// A put that follows a redirect becomes a get, whose success says nothing.
#[test]
fn redirect_is_an_error_and_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::with("PUT", &[Odd::Redirect(status)]);
        server.state().objects.insert("/bucket/login?secret".to_owned(), b"log in".to_vec());
        let error = server.put(b"new").expect_err("nothing is stored");
        let text = format!("answered {status}, a redirect to {}/bucket/login", server.address);
        assert!(error.to_string().contains(&text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!((server.object(), server.methods()), (None, vec!["PUT".to_owned()]), "{status}");
    }
}

/// Whatever happened to the first attempt: if the stored object has our bytes, the put has created
/// it.
#[test]
fn unknown_outcome_of_a_put_is_resolved() {
    let unknown: [(&[Odd], usize); 9] = [
        // Not the storage's own answer, but one of something on the way.
        (&[Odd::Answer(501, "")], 2),
        (&[Odd::Answer(503, "SlowDown")], 2),
        (&[Odd::Answer(409, "ConditionalRequestConflict")], 2),
        (&[Odd::HangsUp], 2),
        (&[Odd::HangsUp, Odd::Answer(500, "InternalError")], 3),
        (&[Odd::DoneBut(500, "InternalError")], 1),
        (&[Odd::DoneBut(409, "ConditionalRequestConflict")], 1),
        (&[Odd::DoneHangsUp], 1),
        // The first put arrives between the read and the second attempt, which is told that the
        // object exists.
        (&[Odd::LateHangsUp], 2),
    ];
    for (odd, put_count) in unknown {
        let server = Server::with("PUT", odd);
        assert_eq!(server.put(b"ours").expect("an answer"), Put::Created, "{odd:?}");
        assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "{odd:?}");
        let puts = server.methods().iter().filter(|method| *method == "PUT").count();
        assert_eq!(puts, put_count, "{odd:?}: {:?}", server.methods());
    }
}

/// An object of another client was there before.
#[test]
fn object_of_another_client_is_never_taken_for_own() {
    let another = [
        Odd::AnotherWins(412, "PreconditionFailed"),
        Odd::AnotherWins(409, "ConditionalRequestConflict"),
        Odd::AnotherWins(503, "SlowDown"),
    ];
    for odd in another {
        let server = Server::with("PUT", &[odd]);
        assert_eq!(server.put(b"ours").expect("an answer"), Put::Exists, "{odd:?}");
        assert_eq!(server.object().as_deref(), Some(&b"another's"[..]), "{odd:?}");
    }
    let server = Server::with("PUT", &[Odd::AnotherWins(412, "PreconditionFailed")]);
    server.put(b"ours").expect("an answer");
    assert_eq!(server.methods(), ["PUT"], "a refused first try needs no second look");
    // As long as the own object.
    let server = Server::with("PUT", &[Odd::AnotherWins(503, "SlowDown")]);
    assert_eq!(server.put(b"not yours").expect("an answer"), Put::Exists, "the same length");
}

/// If conditional puts are refused, a backup can still be made.
#[test]
fn storage_without_conditional_puts_is_looked_at_first() {
    let server = Server::with("PUT", &[Odd::Answer(501, "NotImplemented")]);
    let storage = server.storage();
    let put = |bytes: &'static [u8]| storage.put_new("commits/x", Bytes::from_static(bytes));
    assert_eq!(put(b"ours").expect("an answer"), Put::Created);
    assert_eq!(put(b"second").expect("an answer"), Put::Exists);
    assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "the first stays");
    assert_eq!(server.methods(), ["PUT", "HEAD", "PUT", "HEAD"], "conditions are not tried again");
}

#[test]
fn truncated_answer_is_requested_again() {
    let server = Server::with("GET", &[Odd::HalfAnswer, Odd::HangsUp, Odd::Answer(500, "")]);
    server.put(b"all of it").expect("an answer");
    let storage = server.storage();
    // A first success, so that further attempts are worthwhile.
    storage.head("commits/x").expect("an answer");
    assert_eq!(storage.get("commits/x").expect("an answer"), "all of it");
}

/// A storage that gives no answer, or says that it is unavailable, is waited for. Other answers that
/// report a failure are limited in number.
#[test]
fn outage_is_not_limited_by_attempts() {
    let cases = [
        (Odd::HangsUp, true),
        (Odd::Answer(503, "SlowDown"), true),
        (Odd::Answer(502, ""), true),
        (Odd::Answer(429, ""), true),
        (Odd::Answer(500, "InternalError"), false),
        (Odd::Answer(409, "ConditionalRequestConflict"), false),
        (Odd::HalfAnswer, false),
    ];
    for (odd, is_waited_for) in cases {
        let server = Server::with("GET", &[odd; 4]);
        server.put(b"all of it").expect("an answer");
        let storage = server.storage_with(S3Limits { tries_max: 2, ..S3Limits::default() });
        // A first success, so that further attempts are worthwhile.
        storage.head("commits/x").expect("an answer");
        assert!(!storage.had_outage(), "{odd:?}");
        let read = storage.get("commits/x");
        assert_eq!(read.is_ok(), is_waited_for, "{odd:?}: {read:?}");
        assert_eq!(storage.had_outage(), is_waited_for, "{odd:?}");
    }
}

/// A storage whose answers always end early returns nothing, and costs no more than the attempts.
#[test]
fn endless_truncated_answers_are_given_up() {
    for (odd, tries_max) in [(Odd::HalfAnswer, 4), (Odd::HalfAnswerAndSilence, 2)] {
        let server = Server::with("GET", &[odd; 20]);
        server.put(b"all of it").expect("an answer");
        let silence = Duration::from_millis(500);
        let storage = server.storage_with(S3Limits { silence, tries_max });
        // A first success, so that further attempts are worthwhile.
        storage.head("commits/x").expect("an answer");
        let began = Instant::now();
        let error = storage.get("commits/x").expect_err("never whole");
        assert_eq!(error.kind(), Kind::Storage, "{odd:?}: {error}");
        assert!(error.to_string().contains(&format!("attempt {tries_max}")), "{odd:?}: {error}");
        let gets = server.methods().iter().filter(|method| *method == "GET").count();
        assert_eq!(gets, tries_max as usize, "{odd:?}: {:?}", server.methods());
        assert!(began.elapsed() < Duration::from_secs(10), "{odd:?}: {:?}", began.elapsed());
    }
}

/// A failed put is neither `Missing` nor `Corrupt`, whatever the answer, because some callers do
/// without an object that cannot be read.
#[test]
fn failed_put_is_never_a_loss() {
    let refused = [
        // With and without a text, like the answer for a missing object.
        (&[Odd::Answer(404, "NoSuchKey")][..], &[][..]),
        (&[Odd::Status(404)], &[]),
        (&[Odd::Answer(501, "NotImplemented"), Odd::Status(404)], &[]),
        // After an attempt of unknown outcome, the stored object is longer than its length says.
        (&[Odd::DoneBut(500, "InternalError")], &[Odd::LongAnswer]),
    ];
    for (puts, gets) in refused {
        let server = Server::with("PUT", puts);
        server.state().odd.insert("GET", gets.iter().copied().collect());
        let error = server.put(b"ours").expect_err("it fails");
        assert_eq!(error.kind(), Kind::Storage, "{puts:?}, {gets:?}: {error}");
        // Some replacements succeed at the second attempt.
        let replaced = Server::with("PUT", puts).storage().replace("commits/x", Bytes::new());
        let kind = replaced.map_or_else(|error| error.kind(), |()| Kind::Storage);
        assert_eq!(kind, Kind::Storage, "{puts:?}");
    }
}

fn refusal(error: &Error) -> Option<&Refusal> {
    std::error::Error::source(error)?.downcast_ref()
}

/// A request that cannot work is not repeated, and the error says why.
#[test]
fn refused_request_is_not_retried() {
    let refused = [
        (403, "AccessDenied", Kind::Storage, Some(Refusal::Denied)),
        (403, "InvalidAccessKeyId", Kind::Storage, Some(Refusal::WrongCredentials)),
        (403, "SignatureDoesNotMatch", Kind::Storage, Some(Refusal::WrongCredentials)),
        (403, "RequestTimeTooSkewed", Kind::Storage, Some(Refusal::Clock)),
        (400, "ExpiredToken", Kind::Storage, Some(Refusal::Expired)),
        (404, "NoSuchBucket", Kind::Storage, Some(Refusal::NoBucket)),
        (301, "PermanentRedirect", Kind::Storage, Some(Refusal::Region(None))),
        (404, "Oops", Kind::Storage, Some(Refusal::NotS3)),
        (404, "NoSuchKey", Kind::Storage, Some(Refusal::NotS3)),
        (507, "", Kind::Full, None),
        (403, "QuotaExceeded", Kind::Full, None),
    ];
    for (status, code, kind, expected) in refused {
        let server = Server::with("PUT", &[Odd::Answer(status, code)]);
        let error = server.put(b"ours").expect_err("it is refused");
        assert_eq!(error.kind(), kind, "{status} {code}: {error}");
        assert_eq!(refusal(&error), expected.as_ref(), "{status} {code}");
        assert_eq!(server.methods(), ["PUT"], "{status} {code}: it is tried once");
        let text = error.to_string();
        for part in ["commits/x", "put", "s3://bucket/repo", "attempt 1", &status.to_string()] {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
    }
}

/// Before the first success three attempts are enough, because a user waits for the message.
#[test]
fn first_request_that_never_works_ends_soon() {
    let server = Server::with("PUT", &[Odd::Answer(500, "InternalError"); 20]);
    let error = server.put(b"ours").expect_err("it is refused");
    assert!(error.to_string().contains("attempt 3"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", nobody.local_addr().expect("it listens"));
    drop(nobody);
    let host = address.trim_start_matches("http://").to_owned();
    let error = Server { address, ..server }.put(b"ours").expect_err("nobody is there");
    assert_eq!(refusal(&error), Some(&Refusal::Unreachable), "{error}");
    assert!(error.to_string().contains(&format!(": {host}: Connection refused")), "{error}");
}

/// An address where something else than a storage answers has no listing, and is not empty.
#[test]
fn unlistable_storage_is_not_empty() {
    for code in ["NoSuchKey", "Oops"] {
        let server = Server::with("GET", &[Odd::Answer(404, code)]);
        let error = server.storage().list("commits").expect_err("it is no storage");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
        assert_eq!(refusal(&error), Some(&Refusal::NotS3), "{error}");
    }
}

/// Failing credentials are not a failure of the storage.
#[test]
fn missing_credentials_are_not_a_storage_failure() {
    let refusing = Server::with("PUT", &[Odd::Answer(403, "Forbidden"); 9]);
    let server = Server::start();
    let mut settings = S3Settings::parse("s3://bucket/repo").expect("an address");
    settings.endpoint = Some(server.address.clone());
    settings.variables = vec![("AWS_METADATA_ENDPOINT".to_owned(), refusing.address.clone())];
    let storage = S3::open(&settings, Arc::new(System)).expect("it opens");
    let error = storage.head("commits/x").expect_err("nobody can ask");
    assert_eq!(refusal(&error), Some(&Refusal::NoCredentials), "{error}");
    assert!(error.to_string().contains("no credentials"), "{error}");
    assert!(server.methods().is_empty(), "the storage is not asked without credentials");
}

#[test]
fn deleting_a_missing_object_succeeds() {
    let server = Server::start();
    let storage = server.storage();
    storage.delete("commits/x").expect("nothing was there");
    server.put(b"ours").expect("an answer");
    storage.delete("commits/x").expect("it is deleted");
    assert_eq!(server.object(), None);
}

/// Puts objects and deletes them at once. Returns the results, and the methods of the
/// requests that deleted.
fn delete_objects(server: &Server, names: &[&str]) -> (Vec<Result<(), Error>>, Vec<String>) {
    let storage = server.storage_with(S3Limits { tries_max: 2, ..S3Limits::default() });
    for name in names {
        storage.put_new(name, Bytes::from_static(b"object")).expect("an answer");
    }
    server.state().requests.clear();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    (storage.delete_many(&names), server.methods())
}

/// Objects count as deleted only if the answer names them.
#[test]
fn objects_that_an_answer_does_not_name_are_deleted_one_by_one() {
    let incomplete = [
        Odd::Answer(200, "InternalError"),
        Odd::Answer(501, "NotImplemented"),
        Odd::Answer(400, "MalformedXML"),
        Odd::Answer(405, "MethodNotAllowed"),
        Odd::DoneBut(200, "InternalError"),
        Odd::HalfAnswer,
    ];
    for odd in incomplete {
        let server = Server::with("POST", &[odd; 20]);
        let (results, methods) = delete_objects(&server, &["data/1", "data/2", "data/3"]);
        assert!(results.iter().all(Result::is_ok), "{odd:?}: {results:?}");
        assert!(server.state().objects.is_empty(), "{odd:?}: {:?}", server.state().objects);
        let singles = methods.iter().filter(|method| *method == "DELETE").count();
        assert_eq!(singles, 3, "{odd:?}: {methods:?}");
    }
}

#[test]
fn deletion_continues_after_an_object_that_may_not_be_deleted() {
    let server = Server::start();
    let (results, methods) = delete_objects(&server, &["data/1", "data/2-locked", "data/3"]);
    assert_eq!(methods, ["POST", "DELETE"], "one request for all, and one for the refused object");
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    let error = results[1].as_ref().expect_err("it is locked");
    assert!(error.to_string().contains("data/2-locked"), "{error}");
    let left: Vec<String> = server.state().objects.keys().cloned().collect();
    assert_eq!(left, ["/bucket/repo/data/2-locked"]);
}

/// A request that a server has not understood is not made again.
#[test]
fn server_without_bulk_delete_is_asked_once() {
    let server = Server::with("POST", &[Odd::Answer(501, "NotImplemented"); 20]);
    let storage = server.storage();
    for _ in 0..2 {
        let names = ["data/1", "data/2"].map(str::to_owned);
        storage.delete_many(&names);
    }
    let posts = server.methods().iter().filter(|method| *method == "POST").count();
    assert_eq!(posts, 1, "{:?}", server.methods());
}

#[test]
fn many_objects_are_read_in_their_order_in_spite_of_failures() {
    let server =
        Server::with("GET", &[Odd::Answer(503, "SlowDown"), Odd::HangsUp, Odd::HalfAnswer]);
    let storage = server.storage();
    for number in 0..40 {
        let bytes = Bytes::from(format!("object {number}"));
        storage.put_new(&format!("commits/{number}"), bytes).expect("an answer");
    }
    let wanted: Vec<(String, u64)> = (0..41)
        .map(|number| (format!("commits/{number}"), if number == 7 { 3 } else { 100 }))
        .collect();
    for (number, result) in storage.get_many(&wanted).into_iter().enumerate() {
        match number {
            7 => assert_eq!(result.expect_err("longer").kind(), Kind::Corrupt),
            40 => assert_eq!(result.expect_err("there is none").kind(), Kind::Missing),
            _ => assert_eq!(result.expect("an answer"), format!("object {number}").as_bytes()),
        }
    }
}

/// Many servers keep no versions, lock nothing, and do not know the questions. None of their
/// answers may hinder a deletion, and no object is asked for.
#[test]
fn server_that_does_not_know_locks_has_none() {
    let unknown = [
        Odd::Answer(404, "ObjectLockConfigurationNotFoundError"),
        Odd::Answer(404, "NoSuchKey"),
        Odd::Answer(405, "MethodNotAllowed"),
        Odd::Answer(400, "InvalidRequest"),
        Odd::Answer(501, "NotImplemented"),
        Odd::Answer(200, ""),
        Odd::Status(404),
    ];
    for odd in unknown {
        let server = Server::with("GET", &[odd; 2]);
        let storage = server.storage();
        let names = ["data/1".to_owned(), "data/2".to_owned()];
        assert_eq!(storage.locks(&names).expect("none"), [None, None], "{odd:?}");
        assert_eq!(storage.deletion().expect("an answer"), Deletion::default(), "{odd:?}");
        assert_eq!(server.methods(), ["GET", "GET"], "{odd:?}: the bucket is asked once");
    }
}

/// An answer that says nothing about the bucket is not taken for "no lock".
#[test]
fn failed_question_about_locks_is_an_error() {
    let failures = [
        (Odd::Answer(403, "AccessDenied"), Refusal::Lacks("s3:GetBucketObjectLockConfiguration")),
        (Odd::Answer(404, "NoSuchBucket"), Refusal::NoBucket),
        (Odd::Answer(403, "SignatureDoesNotMatch"), Refusal::WrongCredentials),
    ];
    for (odd, expected) in failures {
        let storage = Server::with("GET", &[odd; 4]).storage();
        let error = storage.deletion().expect_err("it is not known");
        assert_eq!(refusal(&error), Some(&expected), "{odd:?}: {error}");
        let error = storage.locks(&["data/1".to_owned()]).expect_err("it is not known");
        assert_eq!(error.kind(), Kind::Storage, "{odd:?}: {error}");
    }
    // A passing failure is no answer, either.
    let server = Server::with("GET", &[Odd::Answer(503, "SlowDown"), Odd::HangsUp]);
    assert_eq!(server.storage().deletion().expect("an answer"), Deletion::default());
    assert_eq!(server.methods().len(), 4, "{:?}", server.methods());
    // A put without a version shows that the bucket locks nothing.
    let server = Server::with("GET", &[Odd::Answer(403, "AccessDenied"); 2]);
    let storage = server.storage();
    storage.put_new("data/1", Bytes::new()).expect("it is put");
    assert_eq!(storage.deletion().expect("it is known"), Deletion::default());
}

/// AWS takes no object without a checksum in a bucket with a default retention.
#[test]
fn required_checksum_is_sent() {
    const REQUIRED: &str = "InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP \
                            header is required for Put Object requests with Object Lock parameters\
                            </Message><Code>";
    let server = Server::with("PUT", &[Odd::Answer(400, REQUIRED)]);
    let storage = server.storage();
    let put = |bytes: &'static [u8]| storage.put_new("commits/x", Bytes::from_static(bytes));
    assert_eq!(put(b"ours").expect("an answer"), Put::Created);
    assert_eq!(put(b"second").expect("an answer"), Put::Exists);
    assert_eq!(server.methods(), ["PUT", "PUT", "PUT"], "it is learned once");
    assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "the first stays");
    let checksums = server.state().checksums.clone();
    assert_eq!(checksums, [false, true, true], "the second request has a checksum");
}
