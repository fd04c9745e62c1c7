//! Failures of requests, and their consequences.

use object_store::client::{HttpError, HttpErrorKind};

use super::service::Answer;
use super::settings::Service;
use crate::error::Kind;
use crate::remote;
use crate::remote::http::deepest;
use crate::remote::network;
use crate::remote::watched::{CredentialsFailure, NoAnswer};

/// The meaning of a failure for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another attempt may succeed. A put may have been carried out all the same.
    TryAgain,
    /// The object does not exist.
    Missing,
    /// The object exists already.
    Exists,
    /// The range begins behind the end of the object.
    Range,
    /// Further attempts would fail as well.
    Final,
}

impl remote::Meaning for Meaning {
    const TRY_AGAIN: Meaning = Meaning::TryAgain;
    const FINAL: Meaning = Meaning::Final;

    fn kind(self) -> Kind {
        match self {
            Meaning::Missing => Kind::Missing,
            _ => Kind::Storage,
        }
    }
}

/// A failed request.
pub(super) type Failure = remote::Failure<Meaning>;

impl Failure {
    /// Converts an error of `object_store`.
    pub(super) fn of(error: &object_store::Error, service: Service) -> Failure {
        let (mut answer, mut http, mut credentials) = (None, None, None);
        let mut unanswered = None;
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(each) = cause {
            answer = answer.or(each.downcast_ref::<Answer>());
            http = http.or(each.downcast_ref::<HttpError>());
            credentials = credentials.or(each.downcast_ref::<CredentialsFailure>());
            unanswered = unanswered.or(each.downcast_ref::<NoAnswer>());
            cause = each.source();
        }
        if let Some(answer) = answer {
            return Failure::of_answer(answer, service);
        }
        if let Some(failed) = credentials {
            let meaning = if failed.is_final() { Meaning::Final } else { Meaning::TryAgain };
            let is_outage = failed.is_outage();
            let failure = Failure::new(meaning, format!("no credentials: {failed}"));
            return Failure { is_outage, ..failure }.with_remedy(service.credentials_remedy());
        }
        if let Some(http) = http {
            let unreached = "check the address of the service, and the network";
            let unreached = (http.kind() == HttpErrorKind::Connect).then_some(unreached);
            let remedy = unanswered.and_then(|unanswered| unanswered.remedy).or(unreached);
            let is_outage = http.kind() != HttpErrorKind::Decode;
            return Failure { remedy, is_outage, ..Failure::outage(deepest(http)) };
        }
        let meaning = match error {
            object_store::Error::NotFound { .. } => Meaning::Missing,
            object_store::Error::AlreadyExists { .. }
            | object_store::Error::Precondition { .. } => Meaning::Exists,
            _ => Meaning::Final,
        };
        Failure::new(meaning, error.to_string())
    }

    fn of_answer(answer: &Answer, service: Service) -> Failure {
        let is_outage = network::is_outage(answer.status);
        let of = |meaning| Failure { is_outage, ..Failure::new(meaning, answer.to_string()) };
        let refused = |remedy| Failure { remedy: Some(remedy), ..of(Meaning::Final) };
        match (answer.status, answer.code.as_str()) {
            (507, _) | (_, "InsufficientStorage" | "QuotaExceeded") => {
                Failure { kind: Kind::Full, ..of(Meaning::Final) }
            }
            (_, "ContainerNotFound" | "NoSuchBucket") => refused(service.container_remedy()),
            (409, "BlobAlreadyExists") | (304 | 412, _) => of(Meaning::Exists),
            // The bytes of a blob with a retention cannot change, and the blob exists.
            (409, "BlobImmutableDueToPolicy") => of(Meaning::Final),
            (404, _) => of(Meaning::Missing),
            (416, _) => of(Meaning::Range),
            (401, _)
            | (403, "AuthenticationFailed" | "SignatureDoesNotMatch" | "InvalidAccessKeyId") => {
                refused(service.credentials_remedy())
            }
            // Azurite says this of a wrong signature. In Azure, the code is that of a permission.
            (403, "AuthorizationFailure") if answer.to_string().contains("to authenticate") => {
                refused(service.credentials_remedy())
            }
            (403, _) => refused(service.permission_remedy()),
            // 409: another request for the same object was under way, and it is open which of them
            // will be carried out. 408 and 429 ask to wait.
            (408 | 409 | 425 | 429 | 500..=599, _) => of(Meaning::TryAgain),
            // Bytes were lost on the way to the storage.
            (400, "Md5Mismatch" | "BadDigest" | "IncompleteBody") => of(Meaning::TryAgain),
            _ => Failure { remedy: answer.remedy, ..of(Meaning::Final) },
        }
    }
}
