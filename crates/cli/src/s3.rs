//! Repositories in object storages: addresses and credentials.
//!
//! Credentials are searched for in the usual order: the environment (`AWS_ACCESS_KEY_ID` and so
//! on), the profile `AWS_PROFILE` of the shared files (`~/.aws/credentials`, `~/.aws/config`), web
//! identity, the container, the machine. The storage itself handles the last three.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, Result};
use cutpoint_storage::{Error, Refusal, S3, S3Settings, Storage};
use serde::Deserialize;

use crate::args::{Global, S3Args};
use crate::exit::Failure;
use crate::{interrupt, throttle};

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";
const ROLE: &str = "AWS_ROLE_ARN";
const TOKEN_FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";

/// Opens the storage at `address`. No request is made yet.
///
/// # Errors
///
/// Fails if the address is invalid, or if the requested profile has no usable credentials.
pub(crate) fn open(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    let mut settings = settings(address, &global.s3)?;
    settings.throttle = throttle::shared(&global.load);
    Ok(Arc::new(S3::open(&settings, interrupt::environment())?))
}

/// Returns the permission that the credentials lack, if that is the cause of `error`.
pub(crate) fn lacking(error: &Error) -> Option<&'static str> {
    match error.source()?.downcast_ref()? {
        Refusal::Lacks(permission) => Some(permission),
        _ => None,
    }
}

/// Returns everything that is needed to open the storage at `address`.
fn settings(address: &str, args: &S3Args) -> Result<S3Settings> {
    // An empty variable counts as unset.
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        (name.starts_with("AWS_") && !value.is_empty()).then_some((name, value))
    });
    let mut variables: BTreeMap<String, String> = variables.collect();
    let profile = profile(&variables)?;
    if !variables.contains_key(KEY_ID) && !variables.contains_key(SECRET_KEY) {
        let credentials = profile.credentials(&variables)?;
        variables.extend(credentials);
    }
    let first = |names: &[&str]| names.iter().find_map(|name| variables.get(*name)).cloned();
    let mut settings = S3Settings::parse(address)?;
    settings.endpoint = args
        .s3_endpoint
        .clone()
        .or_else(|| first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]))
        .or_else(|| profile.get("endpoint_url"));
    settings.region = args
        .s3_region
        .clone()
        .or_else(|| first(&["AWS_REGION", "AWS_DEFAULT_REGION"]))
        .or_else(|| profile.get("region"));
    settings.variables = variables.into_iter().collect();
    Ok(settings)
}

/// The values of one profile in the shared files.
#[derive(Debug, Default)]
struct Profile {
    name: String,
    values: BTreeMap<String, String>,
}

/// The output of a `credential_process`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PrintedCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

impl Profile {
    fn get(&self, key: &str) -> Option<String> {
        self.values.get(key).cloned()
    }

    /// Returns the credentials of the profile as environment variables; empty if it has none.
    fn credentials(&self, variables: &BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
        let named = |pairs: [(&str, Option<String>); 3]| {
            let pairs =
                pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Ok(pairs.collect())
        };
        if let Some(key_id) = self.get("aws_access_key_id") {
            let key = self.get("aws_secret_access_key");
            let token = self.get("aws_session_token");
            return named([(KEY_ID, Some(key_id)), (SECRET_KEY, key), (TOKEN, token)]);
        }
        if let Some(command) = self.get("credential_process") {
            let printed = self.run(&command)?;
            let (key_id, key) = (printed.access_key_id, printed.secret_access_key);
            return named([
                (KEY_ID, Some(key_id)),
                (SECRET_KEY, Some(key)),
                (TOKEN, printed.session_token),
            ]);
        }
        if let Some(file) = self.get("web_identity_token_file") {
            return named([(TOKEN_FILE, Some(file)), (ROLE, self.get("role_arn")), ("", None)]);
        }
        let is_other = |key: &&String| {
            key.starts_with("sso_")
                || ["source_profile", "credential_source"].contains(&key.as_str())
        };
        let has_others = variables.contains_key(TOKEN_FILE)
            || variables.keys().any(|name| name.starts_with("AWS_CONTAINER_"));
        if let Some(key) = self.values.keys().find(is_other).filter(|_| !has_others) {
            let name = &self.name;
            let message = format!("profile {name}: credentials by {key} are not supported");
            return Err(Failure::failed(message)
                .with_remedy(format!(
                    "run `eval \"$(aws configure export-credentials --profile {name} --format \
                     env)\"` to export the credentials to the environment"
                ))
                .into());
        }
        Ok(Vec::new())
    }

    fn run(&self, command: &str) -> Result<PrintedCredentials> {
        let context = || format!("credential_process of profile {}", self.name);
        let output = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(context)?;
        if !output.status.success() {
            return Err(Failure::failed(format!("{}: {}", context(), output.status)).into());
        }
        // The output is secret and is not shown.
        serde_json::from_slice(&output.stdout)
            .map_err(|_| Failure::failed(format!("{}: printed no credentials", context())).into())
    }
}

/// Reads the requested profile.
fn profile(variables: &BTreeMap<String, String>) -> Result<Profile> {
    let asked = variables.get("AWS_PROFILE");
    let name = asked.map_or("default", String::as_str).to_owned();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let file = |variable: &str, own: &str| {
        let path = variables.get(variable).map(PathBuf::from);
        path.or_else(|| Some(home.as_ref()?.join(".aws").join(own)))
    };
    let mut found = Profile { name, ..Profile::default() };
    let mut is_there = false;
    // The second file overrides the values of the first one.
    for (path, prefix) in [
        (file("AWS_CONFIG_FILE", "config"), "profile "),
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ""),
    ] {
        let Some(path) = path else { continue };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // An unreadable file, such as one of another user, matters only if a profile is
            // requested.
            Err(_) if asked.is_none() => continue,
            Err(error) => return Err(anyhow::Error::new(error).context(path.display().to_string())),
        };
        if let Some(values) = section(&text, prefix, &found.name) {
            is_there = true;
            found.values.extend(values);
        }
    }
    if asked.is_some() && !is_there {
        let message = format!("profile {}: not found (AWS_PROFILE)", found.name);
        return Err(Failure::failed(message)
            .with_remedy("profiles are defined in ~/.aws/credentials and ~/.aws/config")
            .into());
    }
    Ok(found)
}

/// Returns the keys and values of `[name]` or `[prefix name]`; `None` if there is no such section.
fn section(text: &str, prefix: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<String, String>> = None;
    let mut is_in = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(title) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title = title.trim();
            let is_default = name == "default" && title == name;
            is_in =
                is_default || title.strip_prefix(prefix).is_some_and(|rest| rest.trim() == name);
            if is_in {
                found.get_or_insert_default();
            }
            continue;
        }
        // An indented line belongs to the setting above it. No setting with such lines is needed
        // here.
        let is_value = is_in && !line.starts_with([' ', '\t', '#', ';']);
        if let Some((key, value)) = trimmed.split_once('=').filter(|_| is_value) {
            let values = found.get_or_insert_default();
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

/// Returns the remedy for the refusal of a storage that caused `error`, if one did.
pub(crate) fn remedy(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| cause.downcast_ref::<Refusal>()).map(remedy_of)
}

fn remedy_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unreachable => {
            "check --s3-endpoint or AWS_ENDPOINT_URL (https://HOST, or http://HOST for a server \
             without TLS), the network, and that the server runs; data stored so far is reused"
        }
        Refusal::NotS3 => {
            "check --s3-endpoint or AWS_ENDPOINT_URL: the endpoint is an S3 server, without a path"
        }
        Refusal::NoBucket => {
            "create the bucket first, or use another one: s3://BUCKET/PREFIX; --s3-endpoint \
             selects the server"
        }
        Refusal::Region(Some(region)) => return format!("use --s3-region {region}"),
        Refusal::NoCredentials => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile in \
             ~/.aws/credentials"
        }
        Refusal::WrongCredentials => {
            "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; the credentials \
             must belong to this storage (--s3-endpoint) and region (--s3-region)"
        }
        Refusal::Expired => {
            "get new credentials and run the same command again; data stored so far is reused"
        }
        Refusal::Clock => "correct the clock of this machine",
        Refusal::Denied => {
            "allow these credentials to list the bucket and to get and put objects (and to delete \
             objects, for prune and keys)"
        }
        Refusal::Lacks(permission) => {
            return format!("use credentials that have the permission {permission}");
        }
        _ => "use --s3-region with the region of the bucket",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# comment
[default]
region=eu-north-1
[profile  work ]
aws_access_key_id = A=B
s3 =
  endpoint_url = nested
;region = none
[other]
region = us-west-2
";

    #[test]
    fn section_is_found_by_its_name() {
        let get = |prefix, name: &str, key: &str| section(TEXT, prefix, name)?.remove(key);
        assert_eq!(get("profile ", "default", "region").as_deref(), Some("eu-north-1"));
        assert_eq!(get("profile ", "work", "aws_access_key_id").as_deref(), Some("A=B"));
        assert_eq!(get("profile ", "work", "endpoint_url"), None, "it belongs to s3");
        assert_eq!(get("profile ", "work", "region"), None, "a comment");
        assert_eq!(section(TEXT, "profile ", "other"), None, "it is no profile");
        assert_eq!(get("", "other", "region").as_deref(), Some("us-west-2"), "here it is");
    }

    #[test]
    fn profile_credentials_become_variables() {
        let of = |pairs: &[(&str, &str)]| {
            let values = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
            Profile { name: "p".to_owned(), values }.credentials(&BTreeMap::new())
        };
        let named = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect::<Vec<_>>()
        };
        let keys = of(&[("aws_access_key_id", "a"), ("aws_secret_access_key", "b")]);
        assert_eq!(keys.expect("keys"), named(&[(KEY_ID, "a"), (SECRET_KEY, "b")]));
        let json = r#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b","SessionToken":"c"}"#;
        let command = format!("echo '{json}'");
        let printed = of(&[("credential_process", &command)]).expect("it prints them");
        assert_eq!(printed, named(&[(KEY_ID, "a"), (SECRET_KEY, "b"), (TOKEN, "c")]));
        assert!(of(&[("credential_process", "echo hush")]).is_err(), "no credentials");
        assert_eq!(of(&[("region", "r")]).expect("none"), [], "others are asked");
        assert!(of(&[("sso_session", "s")]).is_err(), "what cannot be done is said");
    }
}
