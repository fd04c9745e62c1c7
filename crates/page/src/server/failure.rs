//! Requests that fail.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use cutpoint_storage::Error;
use http::{StatusCode, header};
use serde_json::json;

/// The reason why a request fails.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Failure {
    /// Creates the failure of a request that makes no sense.
    pub(super) fn refused(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    /// Creates the failure of a request without permission.
    pub(super) fn forbidden(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::FORBIDDEN, message: message.into() }
    }

    /// Creates the failure of a request for something that does not exist.
    pub(super) fn missing(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    /// Creates the failure of the program itself.
    pub(super) fn internal(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let remedy = match error.is_loss() {
            true => "; `cutpoint check` names what is affected",
            false => "",
        };
        Failure::internal(format!("{error}{remedy}"))
    }
}

impl From<Arc<Error>> for Failure {
    fn from(error: Arc<Error>) -> Failure {
        Failure::internal(error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.message }).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
