//! The headers of answers that `object_store` does not show: versions and locks of objects.

use std::sync::atomic::{AtomicU8, Ordering};

use object_store::HeaderMap;

const VERSION: &str = "x-amz-version-id";
/// The version of an object that was put while the bucket kept no versions.
const NO_VERSION: &str = "null";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const HOLD: &str = "x-amz-object-lock-legal-hold";

/// Whether a bucket keeps versions, as far as answers have shown it. No permission is needed to see
/// that.
#[derive(Debug, Default)]
pub(super) struct ShownVersions(AtomicU8);

const PUT_WITHOUT_VERSION: u8 = 1;
const HAS_VERSIONS: u8 = 2;

impl ShownVersions {
    /// Learns from the headers of an answer of the storage. Only the answer to a put can show that
    /// there are no versions.
    pub(super) fn learn(&self, is_put: bool, headers: &HeaderMap) {
        match headers.get(VERSION).filter(|version| *version != NO_VERSION) {
            Some(_) => self.0.fetch_max(HAS_VERSIONS, Ordering::Relaxed),
            None if is_put => self.0.fetch_max(PUT_WITHOUT_VERSION, Ordering::Relaxed),
            None => return,
        };
    }

    /// Returns `true` if the bucket keeps versions; `None` if no answer has shown it.
    pub(super) fn shown(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            HAS_VERSIONS => Some(true),
            PUT_WITHOUT_VERSION => Some(false),
            _ => None,
        }
    }
}

/// The headers of an answer that say how long the object is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LockHeaders {
    /// The end of the retention, as in RFC 3339.
    pub(super) until: Option<String>,
    /// Set if the object has a legal hold.
    pub(super) is_held: bool,
}

impl LockHeaders {
    /// Returns the lock that the headers describe, if they do.
    pub(super) fn of(headers: &HeaderMap) -> Option<LockHeaders> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let until = text(UNTIL).map(str::to_owned);
        let is_held = text(HOLD).is_some_and(|hold| hold.eq_ignore_ascii_case("on"));
        (until.is_some() || is_held).then_some(LockHeaders { until, is_held })
    }
}

#[cfg(test)]
mod tests {
    use object_store::HeaderValue;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (name.parse().expect("a name"), HeaderValue::from_static(value))
        };
        all.iter().map(header).collect()
    }

    #[test]
    fn versions_are_known_once_an_answer_shows_them() {
        let shown = ShownVersions::default();
        shown.learn(false, &headers(&[]));
        assert_eq!(shown.shown(), None, "an older object may have no version");
        shown.learn(true, &headers(&[(VERSION, NO_VERSION)]));
        assert_eq!(shown.shown(), Some(false), "a put of this moment has none");
        shown.learn(false, &headers(&[(VERSION, "v1")]));
        shown.learn(true, &headers(&[]));
        assert_eq!(shown.shown(), Some(true), "one version is enough");
    }

    #[test]
    fn headers_describe_a_lock() {
        let of = |all: &[(&'static str, &'static str)]| LockHeaders::of(&headers(all));
        assert_eq!(of(&[(HOLD, "OFF")]), None);
        let is_held = of(&[(HOLD, "ON")]).expect("a lock").is_held;
        assert!(is_held, "a legal hold");
        let until = of(&[(UNTIL, "2026-12-01T00:00:00Z")]).expect("a lock").until;
        assert_eq!(until.as_deref(), Some("2026-12-01T00:00:00Z"));
    }
}
