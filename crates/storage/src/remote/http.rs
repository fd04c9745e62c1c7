//! HTTP clients that keep a limit of rates.

use std::fmt;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Result as ClientResult};

use super::network;
use super::throttled_body::ThrottledBody;
use crate::throttle::{Direction, Throttle};

/// Creates a client, which sends the bodies of requests no faster than `throttle` permits. Its
/// caller keeps the limit of what is received.
///
/// # Errors
///
/// Returns an error if a proxy or a certificate of `options` is invalid.
pub(crate) fn connect(options: &ClientOptions, throttle: &Throttle) -> ClientResult<HttpClient> {
    let client = network::client(options)
        .map_err(|error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) })?;
    Ok(match throttle.piece_len(Direction::Upload) {
        None => HttpClient::new(client),
        Some(_) => HttpClient::new(Throttled { client, throttle: throttle.clone() }),
    })
}

/// A client that makes requests as that of `object_store`, but with bodies of its own, because that
/// one takes only bodies that are in memory and ready.
#[derive(Debug)]
struct Throttled {
    client: reqwest::Client,
    throttle: Throttle,
}

impl HttpService for Throttled {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.send(request))
    }
}

impl Throttled {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string().parse();
        let url = url.map_err(|_| HttpError::new(HttpErrorKind::Unknown, InvalidAddress))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        if body.content_length() > 0 {
            let body = ThrottledBody::new(whole(body), &self.throttle);
            *request.body_mut() = Some(reqwest::Body::wrap(body));
        }
        let answer = self.client.execute(request).await.map_err(failure)?;
        let (parts, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
        let body = HttpResponseBody::new(body.map_err(failure));
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Returns the bytes of a body, which are in memory.
pub(crate) fn whole(mut body: HttpRequestBody) -> Bytes {
    if let Some(bytes) = body.as_bytes() {
        return bytes.clone();
    }
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while let std::task::Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context)
    {
        let Ok(piece) = frame.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = piece;
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&piece);
    }
    if all.is_empty() { first } else { all.freeze() }
}

/// Returns the root cause of an error as a text.
pub(crate) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The error of a request whose address is none.
#[derive(Debug)]
struct InvalidAddress;

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid address")
    }
}

impl std::error::Error for InvalidAddress {}

/// Converts the failure of a request, or of an answer on its way.
fn failure(error: reqwest::Error) -> HttpError {
    let kind = match &error {
        error if error.is_timeout() => HttpErrorKind::Timeout,
        error if error.is_connect() => HttpErrorKind::Connect,
        error if error.is_decode() => HttpErrorKind::Decode,
        _ => HttpErrorKind::Interrupted,
    };
    // The address may have a signature.
    HttpError::new(kind, error.without_url())
}
