//! The address of a container of Azure or a bucket of Google, and the credentials for it.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, StaticCredentialProvider};

use super::service::Connector;
use crate::error::{Error, Result};
use crate::remote::http::deepest;
use crate::remote::watched::{client_options, once};
use crate::throttle::Throttle;

/// The scheme of addresses in Azure Blob Storage.
const AZURE: &str = "azure://";
/// The scheme of addresses in Google Cloud Storage.
const GCS: &str = "gs://";
/// The default address of Google Cloud Storage.
const GCS_ADDRESS: &str = "https://storage.googleapis.com";

/// The variables of the command `az`, and the names that `object_store` has for them.
const AZURE_NAMES: [(&str, AzureConfigKey); 3] = [
    ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
    ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
    ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
];
/// The form of the key of an account.
const ACCOUNT_KEY: &str = "the key has 88 characters of base64 and ends with ==: `az storage account \
                           keys list --account-name ACCOUNT` shows it";
/// The form of a shared access signature.
const SAS_TOKEN: &str = "the token is a text such as sv=...&sp=...&sig=...: `az storage container \
                         generate-sas` makes one";
/// The variable with the address of another server than Azure.
const AZURE_ENDPOINT: &str = "AZURE_STORAGE_ENDPOINT";
/// The variable with the address of another server than Google, which then asks for no credentials.
const GCS_EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// The variable with the path of the file of Google's credentials.
const GCS_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

impl Service {
    /// Returns the step after an error about credentials.
    pub(super) fn credentials_remedy(self) -> &'static str {
        match self {
            Service::Azure => {
                "set AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; or \
                 AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
            }
            Service::Gcs => {
                "set GOOGLE_APPLICATION_CREDENTIALS to the file with the key of a service account, \
                 or run `gcloud auth application-default login`"
            }
        }
    }

    /// Returns the step after an error about permissions.
    pub(super) fn permission_remedy(self) -> &'static str {
        match self {
            Service::Azure => {
                "allow these credentials to list the container, and to read, create and write \
                 blobs (and to delete them, for prune and keys): Storage Blob Data Contributor"
            }
            Service::Gcs => {
                "allow these credentials to list the bucket, and to get and create objects (and to \
                 delete them, for prune and keys): Storage Object Admin"
            }
        }
    }

    /// Returns the step after an error about a container or bucket that does not exist.
    pub(super) fn container_remedy(self) -> &'static str {
        match self {
            Service::Azure => {
                "create the container first, or use another: azure://CONTAINER/PREFIX"
            }
            Service::Gcs => "create the bucket first, or use another: gs://BUCKET/PREFIX",
        }
    }
}

/// The location of a repository in Azure Blob Storage or Google Cloud Storage, and the credentials
/// for it.
#[derive(Clone)]
pub struct CloudSettings {
    pub(super) service: Service,
    /// The container of Azure, or the bucket of Google.
    pub(super) container: String,
    pub(super) prefix: String,
    /// Credentials and other values, in the form of the environment variables that the services
    /// define (`AZURE_STORAGE_ACCOUNT`, `GOOGLE_APPLICATION_CREDENTIALS` and so on). The environment
    /// itself is not read, except by `object_store` for the home folder. Unknown names are ignored.
    pub variables: Vec<(String, String)>,
    /// The limits of the rates of transfers.
    pub throttle: Throttle,
}

/// Omits secrets.
impl fmt::Debug for CloudSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudSettings")
            .field("service", &self.service)
            .field("container", &self.container)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl CloudSettings {
    /// Parses `azure://CONTAINER/PREFIX` or `gs://BUCKET/PREFIX`; all other settings have their
    /// defaults.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the text is not such an address.
    pub fn parse(address: &str) -> Result<CloudSettings> {
        let invalid = |why: &str| {
            let form = "expected azure://CONTAINER/PREFIX or gs://BUCKET/PREFIX";
            Error::invalid(address, format!("{why} ({form})"))
        };
        let (service, rest) = match (address.strip_prefix(AZURE), address.strip_prefix(GCS)) {
            (Some(rest), _) => (Service::Azure, rest),
            (_, Some(rest)) => (Service::Gcs, rest),
            _ => return Err(invalid("not an address of a cloud")),
        };
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._$".contains(c);
        if container.is_empty() || !container.chars().all(is_legal) {
            return Err(invalid("no container or bucket given"));
        }
        if prefix.starts_with('/') {
            return Err(invalid("empty name in the prefix"));
        }
        let path = StorePath::parse(prefix)
            .map_err(|error| invalid("invalid prefix").with_source(error))?;
        let (variables, throttle) = (Vec::new(), Throttle::default());
        let (container, prefix) = (container.to_owned(), String::from(path));
        Ok(CloudSettings { service, container, prefix, variables, throttle })
    }

    /// Returns the address, for messages.
    pub(super) fn describe(&self) -> String {
        let scheme = if self.service == Service::Azure { AZURE } else { GCS };
        match self.prefix.as_str() {
            "" => format!("{scheme}{}", self.container),
            prefix => format!("{scheme}{}/{prefix}", self.container),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let (_, value) = self.variables.iter().rev().find(|(known, _)| known == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Creates a client that makes one attempt, and leaves time-outs and further attempts to its
    /// caller.
    pub(super) fn client(&self) -> Result<Arc<dyn ObjectStore>> {
        match self.service {
            Service::Azure => self.azure(),
            Service::Gcs => self.gcs(),
        }
    }

    fn azure(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = MicrosoftAzureBuilder::new();
        let known = |name: &str| name.to_ascii_lowercase().parse::<AzureConfigKey>().ok();
        let given = self
            .variables
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), known(name)?, value.as_str())));
        let named = AZURE_NAMES
            .into_iter()
            .filter_map(|(name, key)| Some((name, key, self.variable(name)?)));
        for (name, key, value) in given.chain(named) {
            self.require_form(name, &key, value)?;
            builder = builder.with_config(key, value);
        }
        let account = builder.get_config_value(&AzureConfigKey::AccountName);
        let account = account.filter(|account| !account.is_empty()).ok_or_else(|| {
            let remedy = self.service.credentials_remedy();
            let message = "no storage account: AZURE_STORAGE_ACCOUNT is not set";
            Error::invalid(self.describe(), message).with_remedy(remedy)
        })?;
        let default = || format!("https://{account}.blob.core.windows.net");
        let address = self.variable(AZURE_ENDPOINT).map_or_else(default, str::to_owned);
        self.require_address(AZURE_ENDPOINT, &address)?;
        let store = builder
            .with_endpoint(address.trim_end_matches('/').to_owned())
            .with_container_name(&self.container)
            .with_retry(once())
            .with_http_connector(self.connector(&address))
            .with_client_options(client_options(&address))
            .build();
        Ok(Arc::new(store.map_err(|error| self.invalid("", error))?))
    }

    fn gcs(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = GoogleCloudStorageBuilder::new();
        let mut address = GCS_ADDRESS.to_owned();
        for (name, value) in &self.variables {
            if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(base) = builder.get_config_value(&GoogleConfigKey::BaseUrl) {
            address = base;
        }
        if let Some(host) = self.variable(GCS_EMULATOR) {
            address = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
            // An emulator takes any.
            let credential = GcpCredential { bearer: "none".to_owned() };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        let address = address.trim_end_matches('/');
        self.require_address("the address of the service", address)?;
        let store = builder
            .with_base_url(address)
            .with_bucket_name(&self.container)
            .with_retry(once())
            .with_http_connector(self.connector(address))
            .with_client_options(client_options(address))
            .build();
        let file = self.variable(GCS_CREDENTIALS);
        let what = file.map_or_else(String::new, |file| format!("{GCS_CREDENTIALS}={file}: "));
        Ok(Arc::new(store.map_err(|error| self.invalid(&what, error))?))
    }

    /// Requires that a value of Azure which `object_store` would decode has the form of one. The
    /// value is a secret, which no message shows.
    fn require_form(&self, name: &str, key: &AzureConfigKey, value: &str) -> Result<()> {
        let (is_valid, problem, remedy) = match key {
            AzureConfigKey::AccessKey => {
                (BASE64_STANDARD.decode(value).is_ok(), "not the key of an account", ACCOUNT_KEY)
            }
            AzureConfigKey::SasKey => {
                let pairs = value.trim_start_matches('?').split('&');
                let is_valid = pairs.filter(|pair| !pair.is_empty()).all(|pair| pair.contains('='));
                (is_valid, "not a shared access signature", SAS_TOKEN)
            }
            _ => return Ok(()),
        };
        if is_valid || value.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(self.describe(), format!("{name} is {problem}")).with_remedy(remedy))
    }

    /// Requires that `address`, the value of the variable `name`, is one.
    fn require_address(&self, name: &str, address: &str) -> Result<()> {
        let host = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
        if host.is_some_and(|host| !host.trim_matches('/').is_empty()) {
            return Ok(());
        }
        let message =
            format!("{name}: {address} is no address (expected https://HOST or http://HOST)");
        Err(Error::invalid(self.describe(), message))
    }

    fn connector(&self, address: &str) -> Connector {
        Connector::new(address, self.throttle.clone())
    }

    /// Returns the error of settings that `object_store` refuses. `what` names the cause, if it is
    /// known, and ends with a colon and a space.
    fn invalid(&self, what: &str, error: object_store::Error) -> Error {
        let message = format!("invalid settings: {what}{}", deepest(&error));
        let error = Error::invalid(self.describe(), message).with_source(error);
        error.with_remedy(self.service.credentials_remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused() {
        for (address, shown) in [
            ("azure://box/a/b/", "azure://box/a/b"),
            ("gs://bucket.example_1", "gs://bucket.example_1"),
            ("azure://$root", "azure://$root"),
        ] {
            assert_eq!(CloudSettings::parse(address).expect(address).describe(), shown);
        }
        for address in
            ["azure://", "gs:///a", "gs:b", "gs://b ucket", "azure://b//a", "gs://b/../a", "s3://b"]
        {
            assert!(CloudSettings::parse(address).is_err(), "{address:?} was taken for one");
        }
    }

    #[test]
    fn missing_credentials_are_named_with_remedy() {
        let settings = CloudSettings::parse("azure://box").expect("an address");
        let error = settings.client().expect_err("no account");
        assert!(error.to_string().contains("AZURE_STORAGE_ACCOUNT is not set"), "{error}");
        let remedy = error.remedy().expect("a remedy");
        assert!(remedy.contains("AZURE_STORAGE_KEY"), "{remedy}");
        for (name, value, part) in [
            ("AZURE_STORAGE_KEY", "not!base64", "88 characters of base64"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "not!base64", "88 characters of base64"),
            ("AZURE_STORAGE_SAS_TOKEN", "not!pairs", "sv=...&sp=...&sig=..."),
            ("AZURE_STORAGE_ENDPOINT", "not!address", "expected https://HOST"),
        ] {
            let mut settings = CloudSettings::parse("azure://box").expect("an address");
            let variables = [("AZURE_STORAGE_ACCOUNT", "me"), (name, value)];
            settings.variables = variables.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
            let error = settings.client().expect_err("a wrong value");
            let text = format!("{error}; {}", error.remedy().unwrap_or_default());
            assert!(text.contains(name) && text.contains(part), "{text}");
            let is_secret = name != "AZURE_STORAGE_ENDPOINT";
            assert!(!is_secret || !text.contains("not!"), "{text}");
        }
        let mut settings = CloudSettings::parse("gs://bucket").expect("an address");
        let file = ("GOOGLE_APPLICATION_CREDENTIALS", "/absent/file");
        settings.variables = vec![(file.0.to_owned(), file.1.to_owned())];
        let error = settings.client().expect_err("no file");
        assert!(error.to_string().contains("/absent/file: No such file"), "{error}");
        assert!(error.remedy().expect("a remedy").contains(file.0), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = CloudSettings::parse("azure://box").expect("an address");
        settings.variables = vec![("AZURE_STORAGE_KEY".to_owned(), "hush".to_owned())];
        assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
    }
}
