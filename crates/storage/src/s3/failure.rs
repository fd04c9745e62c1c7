//! Failures of requests, and their consequences.

use std::fmt;

use object_store::client::{HttpError, HttpErrorKind};

use super::service::{Answer, TooLong};
use crate::error::{Error, Kind};
use crate::remote::Passing;
use crate::remote::http::deepest;
use crate::remote::network;
use crate::remote::watched::{CredentialsFailure, NoAnswer};

/// A problem with the settings or the permissions of an object storage: the source of an error that
/// the user can do something about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No server answers at the address.
    Unreachable,
    /// The server at the address is not an S3 storage, or the address is not that of the storage.
    NotS3,
    /// There is no such bucket.
    NoBucket,
    /// The bucket is in another region, which is given if it is known.
    Region(Option<String>),
    /// No credentials were given, and none were found.
    NoCredentials,
    /// The storage does not know the credentials, or the secret is wrong.
    WrongCredentials,
    /// The credentials have expired.
    Expired,
    /// The clocks of this machine and of the storage differ too much.
    Clock,
    /// The credentials do not permit the operation.
    Denied,
    /// The credentials lack this permission of S3.
    Lacks(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreachable => f.write_str("the storage cannot be reached"),
            Refusal::NotS3 => f.write_str("the endpoint does not answer like an S3 storage"),
            Refusal::NoBucket => f.write_str("the bucket does not exist"),
            Refusal::Region(Some(region)) => write!(f, "the bucket is in the region {region}"),
            Refusal::Region(None) => f.write_str("the bucket is in another region"),
            Refusal::NoCredentials => f.write_str("no credentials found"),
            Refusal::WrongCredentials => f.write_str("the storage rejects the credentials"),
            Refusal::Expired => f.write_str("the credentials have expired"),
            Refusal::Clock => {
                f.write_str("the clock of this machine differs from the clock of the storage")
            }
            Refusal::Denied => f.write_str("the credentials do not allow this operation"),
            Refusal::Lacks(permission) => write!(f, "the credentials lack {permission}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The meaning of a failure for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another attempt may succeed. A put may have been carried out all the same.
    TryAgain,
    /// The object does not exist.
    Missing,
    /// The object exists already.
    Exists,
    /// The storage does not support conditional puts.
    NoConditions,
    /// The storage takes no object without a checksum.
    NoChecksum,
    /// Further attempts would fail as well.
    Final,
}

/// A failed request.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) meaning: Meaning,
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) refusal: Option<Refusal>,
    /// The next step, if it does not follow from the refusal.
    pub(super) remedy: Option<&'static str>,
    /// Set if the storage gave no answer, or is unavailable for all requests.
    pub(super) is_outage: bool,
}

impl Passing for Failure {
    fn may_pass(&self) -> bool {
        self.meaning == Meaning::TryAgain
    }

    fn is_outage(&self) -> bool {
        self.is_outage
    }

    fn again(self) -> Failure {
        Failure { meaning: Meaning::TryAgain, ..self }
    }

    fn interrupted() -> Failure {
        let (meaning, kind) = (Meaning::Final, Kind::Interrupted);
        Failure { meaning, kind, ..Failure::passing("interrupted") }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn into_error(self, name: &str, text: String) -> Error {
        let kind = if self.meaning == Meaning::Missing { Kind::Missing } else { self.kind };
        let error = Error::new(kind, name, text);
        let error = self.remedy.into_iter().fold(error, Error::with_remedy);
        self.refusal.into_iter().fold(error, Error::with_source)
    }
}

impl Failure {
    /// Creates a failure after which another attempt may succeed.
    pub(super) fn passing(text: impl Into<String>) -> Failure {
        Failure {
            meaning: Meaning::TryAgain,
            kind: Kind::Storage,
            text: text.into(),
            refusal: None,
            remedy: None,
            is_outage: false,
        }
    }

    /// Creates the failure of a storage that gave no answer, or is unavailable for all requests.
    pub(super) fn outage(text: impl Into<String>) -> Failure {
        Failure { is_outage: true, ..Failure::passing(text) }
    }

    /// Returns the failure as one of a storage that has begun to answer.
    pub(super) fn of_begun_answer(self) -> Failure {
        Failure { is_outage: false, ..self }
    }

    /// Converts an error of `object_store`.
    pub(super) fn of(error: &object_store::Error) -> Failure {
        let (mut answer, mut http, mut credentials) = (None, None, None);
        let (mut too_long, mut unanswered) = (None, None);
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(each) = cause {
            answer = answer.or(each.downcast_ref::<Answer>());
            http = http.or(each.downcast_ref::<HttpError>());
            credentials = credentials.or(each.downcast_ref::<CredentialsFailure>());
            too_long = too_long.or(each.downcast_ref::<TooLong>());
            unanswered = unanswered.or(each.downcast_ref::<NoAnswer>());
            cause = each.source();
        }
        if let Some(too_long) = too_long {
            return Failure { meaning: Meaning::Final, ..Failure::passing(too_long.to_string()) };
        }
        if let Some(answer) = answer {
            return Failure::of_answer(answer);
        }
        if let Some(failed) = credentials {
            let meaning = if failed.is_final() { Meaning::Final } else { Meaning::TryAgain };
            let (refusal, is_outage) = (Some(Refusal::NoCredentials), failed.is_outage());
            let failure = Failure::passing(format!("no credentials: {failed}"));
            return Failure { meaning, refusal, is_outage, ..failure };
        }
        if let Some(http) = http {
            let refusal = (http.kind() == HttpErrorKind::Connect).then_some(Refusal::Unreachable);
            let is_outage = http.kind() != HttpErrorKind::Decode;
            let remedy = unanswered.and_then(|unanswered| unanswered.remedy);
            return Failure { refusal, remedy, is_outage, ..Failure::passing(deepest(http)) };
        }
        let meaning = match error {
            object_store::Error::NotImplemented { .. } => Meaning::NoConditions,
            _ => Meaning::Final,
        };
        Failure { meaning, ..Failure::passing(error.to_string()) }
    }

    /// Converts the failure of a request that does not concern an existing object, so that nothing
    /// can be missing.
    pub(super) fn of_place(self) -> Failure {
        match self.meaning {
            Meaning::Missing => {
                Failure { meaning: Meaning::Final, refusal: Some(Refusal::NotS3), ..self }
            }
            _ => self,
        }
    }

    fn of_answer(answer: &Answer) -> Failure {
        let of = |meaning, refusal| Failure {
            meaning,
            kind: Kind::Storage,
            text: answer.to_string(),
            refusal,
            remedy: answer.remedy,
            is_outage: network::is_outage(answer.status),
        };
        let refused = |refusal| of(Meaning::Final, Some(refusal));
        if ["QuotaExceeded", "StorageFull", "InsufficientStorage"]
            .iter()
            .any(|code| answer.code.contains(code))
        {
            return Failure { kind: Kind::Full, ..of(Meaning::Final, None) };
        }
        match (answer.status, answer.code.as_str()) {
            (507, _) => Failure { kind: Kind::Full, ..of(Meaning::Final, None) },
            (304 | 412, _) => of(Meaning::Exists, None),
            // A redirect without a code of S3 is one of a proxy, or of another server.
            (300..=399, "") if answer.location.is_some() && answer.region.is_none() => {
                refused(Refusal::NotS3)
            }
            (_, "PermanentRedirect" | "AuthorizationHeaderMalformed") | (300..=399, _) => {
                refused(Refusal::Region(answer.region.clone()))
            }
            (_, "NoSuchBucket") => refused(Refusal::NoBucket),
            (_, "RequestTimeTooSkewed") => refused(Refusal::Clock),
            (_, "ExpiredToken" | "TokenRefreshRequired") => refused(Refusal::Expired),
            // The last code is used by versitygw.
            (
                _,
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "InvalidToken"
                | "XAdminUserNotFound",
            ) => refused(Refusal::WrongCredentials),
            (404, "NoSuchKey") => of(Meaning::Missing, None),
            // The answer to a head request has no text.
            (404, _) if !answer.has_text => of(Meaning::Missing, None),
            (404 | 405, _) => refused(Refusal::NotS3),
            (401 | 403, _) => refused(Refusal::Denied),
            (501, "NotImplemented") => of(Meaning::NoConditions, None),
            // AWS requires a checksum in buckets with a default retention, and names the header.
            (400, "InvalidRequest") if answer.message.contains("Content-MD5") => {
                of(Meaning::NoChecksum, None)
            }
            // Bytes were lost on the way to the storage.
            (
                _,
                "RequestTimeout" | "BadDigest" | "IncompleteBody" | "XAmzContentSHA256Mismatch",
            ) => of(Meaning::TryAgain, None),
            // 409: another request for the same object was under way, and it is open which of them
            // will be carried out.
            (408 | 409 | 425 | 429 | 500..=599, _) => of(Meaning::TryAgain, None),
            _ => of(Meaning::Final, None),
        }
    }
}
