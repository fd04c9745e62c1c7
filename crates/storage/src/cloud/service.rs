//! An HTTP client between `object_store` and the network, which keeps the details of refusals, and
//! limits what is gathered in memory.

use std::fmt;
use std::pin::Pin;

use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use crate::remote::http;
use crate::throttle::{Direction, Throttle};

/// Maximum number of bytes of an error's text that are read.
const ERROR_LEN_MAX: usize = 64 * 1024;
/// The maximum length of an answer that is not an object, in bytes: a page of a listing (5000 names),
/// or credentials. `object_store` gathers these in memory.
const ANSWER_LEN_MAX: usize = 32 * 1024 * 1024;
/// The header of Azure with the code of a refusal, which an answer without a text has, too.
const CODE_HEADER: &str = "x-ms-error-code";

/// An answer that does not report success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The code of the refusal; empty if the answer has none.
    pub(super) code: String,
    /// The human-readable message.
    message: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, " ({})", self.message.trim_end_matches('.'))?;
        }
        Ok(())
    }
}

impl std::error::Error for Answer {}

/// The failure of a service that should provide credentials.
#[derive(Debug)]
pub(super) struct CredentialsFailure(pub(super) String);

impl fmt::Display for CredentialsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CredentialsFailure {}

/// Creates clients whose failures can be told apart.
#[derive(Debug)]
pub(super) struct Connector {
    /// Host and port of the storage; all other hosts provide credentials.
    host: String,
    throttle: Throttle,
}

impl Connector {
    /// Creates a connector for the storage at `address`.
    pub(super) fn new(address: &str, throttle: Throttle) -> Connector {
        let host = address.split_once("://").map_or(address, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default().to_ascii_lowercase();
        Connector { host, throttle }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = http::connect(options, &self.throttle)?;
        let (host, throttle) = (self.host.clone(), self.throttle.clone());
        Ok(HttpClient::new(Watched { inner, host, throttle }))
    }
}

#[derive(Debug)]
struct Watched {
    inner: HttpClient,
    host: String,
    throttle: Throttle,
}

impl HttpService for Watched {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.watch(request))
    }
}

impl Watched {
    async fn watch(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().authority().map(|host| host.as_str().to_ascii_lowercase());
        let is_storage = host.as_ref() == Some(&self.host);
        let host = host.unwrap_or_default();
        let is_page = request.uri().query().is_some_and(|query| {
            query.split('&').any(|pair| matches!(pair, "comp=list" | "comp=batch" | "list-type=2"))
        });
        let is_object = is_storage && !is_page && request.method().as_str() == "GET";
        let response = match self.inner.execute(request).await {
            Err(error) if !is_storage => {
                let text = format!("{host} does not answer: {}", deepest(&error));
                return Err(HttpError::new(error.kind(), CredentialsFailure(text)));
            }
            other => other?,
        };
        if response.status().is_success() {
            // No more of an object is read than was requested.
            return if is_object { Ok(response) } else { self.gather(response).await };
        }
        let answer = read_answer(response).await;
        Err(if is_storage {
            HttpError::new(HttpErrorKind::Unknown, answer)
        } else {
            let text = format!("{host}: {answer}");
            HttpError::new(HttpErrorKind::Unknown, CredentialsFailure(text))
        })
    }

    /// Reads an answer that is not an object, up to the maximum length.
    async fn gather(&self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let mut bytes = Vec::new();
        let mut body = body.bytes_stream();
        while let Some(piece) = body.next().await {
            let piece = piece?;
            self.throttle.pass(Direction::Download, piece.len()).await;
            bytes.extend_from_slice(&piece);
            if bytes.len() > ANSWER_LEN_MAX {
                let message = format!("the answer has no end: more than {ANSWER_LEN_MAX} bytes");
                let answer = Answer { status: parts.status.as_u16(), message, ..Answer::default() };
                return Err(HttpError::new(HttpErrorKind::Decode, answer));
            }
        }
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }
}

/// Returns the root cause of an error as a text.
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

async fn read_answer(response: HttpResponse) -> Answer {
    let status = response.status().as_u16();
    let header = response.headers().get(CODE_HEADER).and_then(|value| value.to_str().ok());
    let header = header.map(str::to_owned);
    let mut text = Vec::new();
    let mut body = response.into_body().bytes_stream();
    // A part of the text is sufficient if the rest cannot be read.
    while let Some(Ok(piece)) = body.next().await
        && text.len() < ERROR_LEN_MAX
    {
        text.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&text);
    Answer {
        status,
        code: element(&text, "Code").or(header).unwrap_or_default(),
        message: element(&text, "Message").unwrap_or_default(),
    }
}

/// Returns the first line of the text of the first element `name` of an XML text.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (found, _) = rest.split_once(&format!("</{name}>"))?;
    let line = found.lines().next().unwrap_or_default();
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_from_xml() {
        let text = "<?xml version=\"1.0\"?><Error><Code>BlobAlreadyExists</Code><Message>It exists.\
                    \nRequestId:1</Message></Error>";
        assert_eq!(element(text, "Code").as_deref(), Some("BlobAlreadyExists"));
        assert_eq!(element(text, "Message").as_deref(), Some("It exists."), "its first line");
        assert_eq!(element("no XML", "Code"), None);
    }
}
