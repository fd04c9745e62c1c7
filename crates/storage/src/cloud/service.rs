//! An HTTP client between `object_store` and the network, which keeps the details of refusals, and
//! limits what is gathered in memory.

use std::fmt;
use std::pin::Pin;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use crate::remote::http;
use crate::remote::unanswered::tls_remedy;
use crate::remote::watched::{
    CredentialsFailure, execute, gather, host_of, host_of_request, text_of,
};
use crate::throttle::Throttle;

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
    /// The next step, if the text is not one of the service.
    pub(super) remedy: Option<&'static str>,
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
        Connector { host: host_of(address), throttle }
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
        let host = host_of_request(&request);
        let is_storage = host == self.host;
        let is_page = request.uri().query().is_some_and(|query| {
            query.split('&').any(|pair| matches!(pair, "comp=list" | "comp=batch" | "list-type=2"))
        });
        let is_object = is_storage && !is_page && request.method().as_str() == "GET";
        let response = execute(&self.inner, request, (&host, is_storage)).await?;
        if response.status().is_success() {
            // No more of an object is read than was requested.
            return if is_object { Ok(response) } else { self.gather(response).await };
        }
        let answer = read_answer(response).await;
        Err(match is_storage {
            true => HttpError::new(HttpErrorKind::Unknown, answer),
            false => CredentialsFailure::of_answer(&host, answer.status, &answer),
        })
    }

    /// Reads an answer that is not an object, up to the maximum length.
    async fn gather(&self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        match gather(body, ANSWER_LEN_MAX, &self.throttle).await? {
            Some(bytes) => Ok(HttpResponse::from_parts(parts, bytes.into())),
            None => {
                let message = format!("the answer has no end: more than {ANSWER_LEN_MAX} bytes");
                let answer = Answer { status: parts.status.as_u16(), message, ..Answer::default() };
                Err(HttpError::new(HttpErrorKind::Decode, answer))
            }
        }
    }
}

async fn read_answer(response: HttpResponse) -> Answer {
    let status = response.status().as_u16();
    let header = response.headers().get(CODE_HEADER).and_then(|value| value.to_str().ok());
    let header = header.map(str::to_owned);
    let text = text_of(response.into_body()).await;
    Answer {
        status,
        code: element(&text, "Code").or(header).unwrap_or_default(),
        message: element(&text, "Message").unwrap_or_default(),
        remedy: tls_remedy(status, &text),
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
