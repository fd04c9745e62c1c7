//! The numbers of requests by verb and folder.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Mutex;

use cutpoint_testing::http::Request;
use serde_json::{Value, json};

use crate::target::{Target, keys_of};

/// The counts since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Target, Count>>);

#[derive(Debug, Default)]
struct Count {
    request_count: u64,
    key_count: usize,
    sent_len: usize,
    received_len: usize,
}

impl Counts {
    /// Counts a request whose answer has `received_len` bytes.
    pub(crate) fn add(&self, request: &Request, received_len: usize) {
        let target = Target::of(request);
        let key_count = if target.verb == "DELETES" { keys_of(&request.body).count() } else { 0 };
        let mut counts = self.0.lock().expect("no thread panics");
        let count = counts.entry(target).or_default();
        count.request_count += 1;
        count.key_count += key_count;
        count.sent_len += request.body.len();
        count.received_len += received_len;
    }

    /// Returns the counts and begins anew.
    pub(crate) fn take(&self) -> Vec<Value> {
        let counts = mem::take(&mut *self.0.lock().expect("no thread panics"));
        let object = |(target, count): (Target, Count)| {
            json!({
                "verb": target.verb,
                "folder": target.folder,
                "request_count": count.request_count,
                "key_count": count.key_count,
                "sent_len": count.sent_len,
                "received_len": count.received_len,
            })
        };
        counts.into_iter().map(object).collect()
    }
}
