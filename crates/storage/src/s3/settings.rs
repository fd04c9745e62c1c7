//! The address of a bucket, and the credentials for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path as StorePath;

use super::headers::ShownVersions;
use super::service::WatchedConnector;
use crate::error::{Error, Result};
use crate::remote::http::deepest;
use crate::remote::watched::{client_options, once};
use crate::throttle::Throttle;

/// The default region.
const DEFAULT_REGION: &str = "us-east-1";
/// The variable that puts the bucket in the host name.
const VIRTUAL_HOSTED: &str = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST";
/// The remedy of settings that make no client.
const CHECK_VARIABLES: &str = "check the variables that begin with AWS_, and the profile that \
                               AWS_PROFILE names; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                               belong together";
/// The variable that turns signatures of requests off.
const NO_SIGNATURE: &str = "AWS_SKIP_SIGNATURE";
/// The variable that permits the older metadata service of machines, without a token.
const NO_TOKEN: &str = "AWS_IMDSV1_FALLBACK";
/// The maximum time of silence of a server before it is considered gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of attempts of one request that end with an answer.
const TRIES_MAX: u32 = 12;

/// The limits of a client's patience. Values other than the defaults are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct S3Limits {
    /// The maximum time of silence of a server, before or during an answer; 60 s by default. The
    /// limit of a put is longer, depending on its size.
    pub silence: Duration,
    /// The maximum number of attempts of one request that end with an answer, from 1; 12 by default.
    /// Time alone limits the attempts of requests that have none. Before any request has succeeded,
    /// there are at most 3 attempts of any kind.
    pub tries_max: u32,
}

impl Default for S3Limits {
    fn default() -> S3Limits {
        S3Limits { silence: SILENCE_MAX, tries_max: TRIES_MAX }
    }
}

/// The location of a repository in an object storage, and the credentials for it.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The prefix of the names of all objects, followed by a `/`; may be empty.
    pub prefix: String,
    /// The address of the service, with `http://` or `https://`; `None` for that of AWS in the
    /// region. The bucket is part of the path of requests to the address, unless the variable
    /// `AWS_VIRTUAL_HOSTED_STYLE_REQUEST` is `true`.
    pub endpoint: Option<String>,
    /// The region; `None` for `us-east-1`.
    pub region: Option<String>,
    /// Credentials and other values, in the form of the environment variables that AWS defines
    /// (`AWS_ACCESS_KEY_ID` and so on). The environment itself is not read. Unknown names are
    /// ignored. Without keys, web identity, container and machine are asked for credentials.
    pub variables: Vec<(String, String)>,
    /// The limits of the client's patience.
    pub limits: S3Limits,
    /// The limits of the rates of transfers.
    pub throttle: Throttle,
}

/// Omits secrets.
impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl S3Settings {
    /// Parses `s3://BUCKET` or `s3://BUCKET/PREFIX`; all other settings have their defaults.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the text is not such an address.
    pub fn parse(address: &str) -> Result<S3Settings> {
        let invalid =
            |why: &str| Error::invalid(address, format!("{why} (expected s3://BUCKET/PREFIX)"));
        let rest = address.strip_prefix("s3://").ok_or_else(|| invalid("not an S3 address"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_legal) {
            return Err(invalid("no bucket given"));
        }
        if prefix.starts_with('/') {
            return Err(invalid("empty name in the prefix"));
        }
        let path = StorePath::parse(prefix)
            .map_err(|error| invalid("invalid prefix").with_source(error))?;
        Ok(S3Settings { bucket: bucket.to_owned(), prefix: path.into(), ..S3Settings::default() })
    }

    pub(super) fn region(&self) -> &str {
        self.region.as_deref().filter(|region| !region.is_empty()).unwrap_or(DEFAULT_REGION)
    }

    /// Returns `true` if the bucket is part of the host name of requests, not of their path.
    /// Without an explicit choice, that is the case with AWS, if its certificate covers the name.
    fn is_virtual_hosted(&self) -> bool {
        let with_aws = || self.own_endpoint().is_none() && !self.bucket.contains('.');
        self.says(VIRTUAL_HOSTED).unwrap_or_else(with_aws)
    }

    /// Returns `true` if a machine may provide credentials without a token.
    fn may_lack_token(&self) -> bool {
        self.says(NO_TOKEN).unwrap_or(false)
    }

    /// Returns `true` if requests are signed.
    pub(super) fn has_signatures(&self) -> bool {
        !self.says(NO_SIGNATURE).unwrap_or(false)
    }

    /// Returns the value of a boolean variable.
    fn says(&self, variable: &str) -> Option<bool> {
        let (_, value) = self.variables.iter().rev().find(|(name, _)| name == variable)?;
        Some(["1", "true"].contains(&value.to_ascii_lowercase().as_str()))
    }

    fn own_endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty())
    }

    /// Returns the address for requests, without a trailing `/`.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the endpoint is not an address.
    fn address(&self) -> Result<String> {
        let aws = || format!("https://s3.{}.amazonaws.com", self.region());
        let address = self.own_endpoint().map_or_else(aws, str::to_owned);
        let (scheme, host) = address.split_once("://").unwrap_or_default();
        let host = host.trim_end_matches('/');
        if !["http", "https"].contains(&scheme) || host.is_empty() {
            return Err(Error::invalid(
                &address,
                "not an endpoint (expected https://HOST or http://HOST)",
            ));
        }
        let bucket =
            if self.is_virtual_hosted() { format!("{}.", self.bucket) } else { String::new() };
        Ok(format!("{scheme}://{bucket}{host}"))
    }

    /// Creates a client that makes one attempt, and leaves time-outs and further attempts to its
    /// caller. It deletes objects by one request each and puts them without a checksum, or, if
    /// `is_second` is set, always by the request that deletes several, and with a checksum.
    /// `versions` learns of versions that answers show.
    pub(super) fn client(
        &self,
        is_second: bool,
        versions: &Arc<ShownVersions>,
    ) -> Result<AmazonS3> {
        let address = self.address()?;
        let connector = self.connector(&address, versions);
        let mut builder = AmazonS3Builder::new()
            .with_retry(once())
            .with_http_connector(connector)
            .with_client_options(client_options(&address));
        for (name, value) in &self.variables {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        if is_second {
            builder = builder.with_checksum_algorithm(Checksum::SHA256);
        }
        builder
            .with_disable_bulk_delete(!is_second)
            .with_bucket_name(&self.bucket)
            .with_region(self.region())
            .with_config(AmazonS3ConfigKey::S3Endpoint, address.as_str())
            .with_virtual_hosted_style_request(self.is_virtual_hosted())
            .with_allow_http(address.starts_with("http://"))
            .build()
            .map_err(|error| self.invalid(error))
    }

    /// Creates the HTTP client for requests that `object_store` does not make.
    pub(super) fn http_client(&self, versions: &Arc<ShownVersions>) -> Result<HttpClient> {
        let address = self.address()?;
        let connected = self.connector(&address, versions).connect(&client_options(&address));
        connected.map_err(|error| self.invalid(error))
    }

    fn connector(&self, address: &str, versions: &Arc<ShownVersions>) -> WatchedConnector {
        WatchedConnector::new(
            address,
            self.may_lack_token(),
            versions.clone(),
            self.throttle.clone(),
        )
    }

    fn invalid(&self, error: object_store::Error) -> Error {
        let message = format!("invalid settings: {}", deepest(&error));
        let error = Error::invalid(format!("s3://{}", self.bucket), message).with_source(error);
        error.with_remedy(CHECK_VARIABLES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused() {
        let parsed = S3Settings::parse("s3://bucket/a/b/").expect("it is one");
        assert_eq!((parsed.bucket.as_str(), parsed.prefix.as_str()), ("bucket", "a/b"));
        let parsed = S3Settings::parse("s3://bucket").expect("it is one");
        assert_eq!((parsed.bucket.as_str(), parsed.prefix.as_str()), ("bucket", ""));
        for address in [
            "s3://",
            "s3:///a",
            "s3:bucket",
            "s3://b ucket/a",
            "s3://bucket//a",
            "s3://bucket/../a",
        ] {
            assert!(S3Settings::parse(address).is_err(), "{address:?} was taken for one");
        }
    }

    #[test]
    fn requests_go_to_the_endpoint_or_to_aws() {
        let at = |endpoint: Option<&str>, bucket: &str, variables: &[(&str, &str)]| {
            let settings = S3Settings {
                bucket: bucket.to_owned(),
                endpoint: endpoint.map(str::to_owned),
                region: Some("eu-north-1".to_owned()),
                variables: variables.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect(),
                ..S3Settings::default()
            };
            settings.address().ok()
        };
        let host = |host: &str| Some(host.to_owned());
        assert_eq!(at(None, "b", &[]), host("https://b.s3.eu-north-1.amazonaws.com"));
        assert_eq!(at(None, "b.c", &[]), host("https://s3.eu-north-1.amazonaws.com"), "dots");
        assert_eq!(at(Some("http://h:7070/"), "b", &[]), host("http://h:7070"));
        let asked = [(VIRTUAL_HOSTED, "true")];
        assert_eq!(at(Some("https://h"), "b", &asked), host("https://b.h"), "as asked for");
        for wrong in ["h:7070", "ftp://h", "https://"] {
            assert_eq!(at(Some(wrong), "b", &[]), None, "{wrong:?} was taken for an endpoint");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let variables = vec![("AWS_SECRET_ACCESS_KEY".to_owned(), "hush".to_owned())];
        let settings = S3Settings { variables, ..S3Settings::default() };
        assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
    }
}
