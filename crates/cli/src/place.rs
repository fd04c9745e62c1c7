//! The places of repositories: folders, `file` URLs, and addresses of object storages.
//!
//! A word with a colon before the first `/` is always an address, never a folder. Other programs
//! accept `sftp:me@nas:/b` or `s3:host/bucket`, and a folder of that name would be created on this
//! machine, although the user expects the repository to be elsewhere. `./WORD:...` names such a
//! folder.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode;

use crate::escape;
use crate::exit::Failure;
use crate::rest;

/// The supported kinds of places, for messages.
const KNOWN: &str = "expected a folder, file:///FOLDER, s3://BUCKET/PREFIX, \
                     azure://CONTAINER/PREFIX, gs://BUCKET/PREFIX, sftp://USER@HOST/PATH, \
                     rclone:REMOTE:PATH or rest:URL";
/// The beginnings of addresses.
const SCHEMES: [&str; 6] = ["azure://", "gs://", "rclone:", "rest:", "s3://", "sftp://"];

/// Returns the address if `location`, a result of [`resolve`], is not a folder of this machine.
pub(crate) fn address(location: &Path) -> Option<&str> {
    location.to_str().filter(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

/// Returns a location without the password that an address may have, for messages and files.
pub(crate) fn without_password(location: &Path) -> PathBuf {
    let is_rest = |text: &&str| ["rclone:", "rest:"].iter().any(|scheme| text.starts_with(scheme));
    match address(location).filter(is_rest) {
        Some(address) => PathBuf::from(rest::shown(address)),
        None => location.to_path_buf(),
    }
}

/// Returns `true` if the address that a location is has a password.
pub(crate) fn has_password(location: &Path) -> bool {
    address(location).is_some_and(rest::has_password)
}

/// Returns a location as a text for messages.
pub(crate) fn shown(location: &Path) -> String {
    without_password(location).display().to_string()
}

/// Resolves `given` to a folder, which a `file` URL is converted into, or to an address that begins
/// with one of the known schemes.
///
/// # Errors
///
/// Fails with exit code 2 if `given` begins with an unknown word and a colon. The failure lists the
/// known kinds of places, and the equivalent place if there is one.
pub(crate) fn resolve(given: &Path) -> Result<PathBuf, Failure> {
    let bytes = given.as_os_str().as_bytes();
    let slash = bytes.iter().position(|&byte| byte == b'/').unwrap_or(bytes.len());
    let Some(colon) = bytes[..slash].iter().position(|&byte| byte == b':') else {
        return Ok(given.to_path_buf());
    };
    let (scheme, rest) = (&bytes[..colon], &bytes[colon + 1..]);
    if scheme.eq_ignore_ascii_case(b"file") && rest.starts_with(b"/") {
        return folder_of_url(bytes, rest);
    }
    if address(given).is_some() {
        return Ok(given.to_path_buf());
    }
    let bytes = &hidden(bytes)[..];
    let rest = &bytes[colon + 1..];
    let shown = escape::for_terminal(bytes);
    let (scheme, rest) = (escape::for_terminal(scheme), escape::for_terminal(rest));
    let folder = format!("a folder of this name is given as `./{shown}`");
    let remedy = match advice(&scheme.to_ascii_lowercase(), &rest) {
        Some(advice) => format!("{advice}; {folder}"),
        None => folder,
    };
    Err(Failure::failed(format!("{shown}: unknown scheme `{scheme}:` ({KNOWN})"))
        .with_remedy(remedy))
}

/// Returns the text of a URL without the password that may stand before its host.
fn hidden(url: &[u8]) -> Vec<u8> {
    let text = |bytes: &[u8]| bytes.to_vec();
    let Some(begin) = url.windows(3).position(|bytes| bytes == b"://").map(|at| at + 3) else {
        return text(url);
    };
    let len = url[begin..].iter().position(|&byte| byte == b'/').unwrap_or(url.len() - begin);
    let host = &url[begin..begin + len];
    let Some(at) = host.iter().rposition(|&byte| byte == b'@') else { return text(url) };
    match host[..at].iter().position(|&byte| byte == b':') {
        Some(colon) => [&url[..=begin + colon], b"***", &url[begin + at..]].concat(),
        None => text(url),
    }
}

/// Returns the folder of the `file` URL `url`, with `rest` following `file:` (RFC 8089).
fn folder_of_url(url: &[u8], rest: &[u8]) -> Result<PathBuf, Failure> {
    let refuse = |problem: &str, remedy: &str| {
        let shown = escape::for_terminal(url);
        Err(Failure::failed(format!("{shown}: {problem}")).with_remedy(remedy))
    };
    let path = match rest.strip_prefix(b"//") {
        None => rest,
        Some(rest) => {
            let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(slash);
            if !host.is_empty() && !host.eq_ignore_ascii_case(b"localhost") {
                let host = escape::for_terminal(host);
                let problem = format!(
                    "a `file` URL refers to a folder of this machine (expected no host or \
                     localhost, found {host})"
                );
                return refuse(&problem, "write file:///FOLDER, with three slashes");
            }
            path
        }
    };
    if path.is_empty() {
        return refuse("the URL has no folder", "write file:///FOLDER");
    }
    if let Some(mark) = path.iter().find(|byte| matches!(byte, b'?' | b'#')) {
        let mark = char::from(*mark);
        let problem = format!("a `file` URL has no query or fragment (found `{mark}`)");
        let remedy = format!("write `%{:02X}` for `{mark}` in the name of a folder", mark as u32);
        return refuse(&problem, &remedy);
    }
    let is_escape = |behind: &[u8]| {
        behind.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let mut escapes = path.split(|&byte| byte == b'%').skip(1);
    if !escapes.all(is_escape) {
        let problem = "`%` is not followed by two hexadecimal digits";
        return refuse(problem, "write `%25` for `%` in the name of a folder");
    }
    let folder: Vec<u8> = percent_decode(path).collect();
    if folder.contains(&0) {
        return refuse("the name of a folder cannot contain a zero byte", "remove `%00`");
    }
    Ok(PathBuf::from(OsString::from_vec(folder)))
}

/// Returns advice on how to name the same place, if it is supported. `rest` follows `scheme:`.
fn advice(scheme: &str, rest: &str) -> Option<String> {
    let path = rest.trim_start_matches('/');
    let bucket = |text: &str| text.replacen(':', "/", 1).trim_matches('/').replace("//", "/");
    let of_bucket = |endpoint: &str| {
        let bucket = bucket(path);
        format!("use `--repo s3://{bucket} --s3-endpoint {endpoint}` for this bucket")
    };
    let mount = || {
        "mount the folder of the server (NFS, SMB) and use the mounted folder; `cutpoint doctor` \
         tests it"
            .to_owned()
    };
    match scheme {
        "s3" if rest.starts_with("//") => Some("write s3://BUCKET/PREFIX".to_owned()),
        "s3" => Some(of_s3(rest)),
        "b2" => Some(of_bucket("https://s3.REGION.backblazeb2.com")),
        "azure" | "gs" => {
            let place = bucket(path);
            Some(format!("use `--repo {scheme}://{}`", place.trim_end_matches('/')))
        }
        "webdav" | "webdavs" | "dav" | "davs" => Some(
            "set up the server as a remote of rclone (`rclone config`, type webdav), and use \
             --repo rclone:REMOTE:PATH"
                .to_owned(),
        ),
        "http" | "https" => Some(
            "give an S3 server with --s3-endpoint, and the bucket with --repo s3://BUCKET/PREFIX; \
             a server of restic's REST protocol is --repo rest:URL"
                .to_owned(),
        ),
        "sftp" | "ssh" | "scp" => Some(of_sftp(scheme, rest)),
        "smb" | "nfs" => Some(mount()),
        _ if scheme.contains('@') => Some(of_sftp("scp", &format!("{scheme}:{rest}"))),
        "file" => Some("write file:///FOLDER, with three slashes".to_owned()),
        "local" => Some(format!("use `--repo {rest}` for this folder")),
        _ => None,
    }
}

/// Converts `ssh://USER@HOST:PORT/PATH`, of which the path is absolute, and `USER@HOST:PATH` after a
/// scheme, of which the path is in the home folder unless it begins with `/`.
fn of_sftp(scheme: &str, rest: &str) -> String {
    let place = match rest.strip_prefix("//") {
        Some(rest) if scheme == "sftp" => rest.to_owned(),
        Some(rest) => rest.replacen('/', "//", 1),
        None => rest.replacen(':', "/", 1),
    };
    format!("use `--repo sftp://{place}` for this folder of the server")
}

/// Converts restic's `s3:HOST/BUCKET/PREFIX` or `s3:https://HOST/BUCKET/PREFIX`.
fn of_s3(rest: &str) -> String {
    let (protocol, rest) = match rest.split_once("://") {
        Some((protocol, rest)) => (protocol, rest),
        None => ("https", rest.trim_start_matches('/')),
    };
    let (host, bucket) = rest.split_once('/').unwrap_or((rest, ""));
    let bucket = bucket.trim_matches('/');
    // In `BUCKET.s3.REGION.amazonaws.com/PREFIX`, the bucket is part of the host name.
    if let Some((at, endpoint)) = host.match_indices('.').find_map(|(at, _)| {
        let endpoint = &host[at + 1..];
        region_of_aws(endpoint).map(|_| (at, endpoint))
    }) {
        let place = format!("{endpoint}/{}/{bucket}", &host[..at]);
        return of_s3(&place);
    }
    if bucket.is_empty() {
        return format!("use `--repo s3://{host}` for the bucket {host}");
    }
    let place = format!("--repo s3://{bucket}");
    match region_of_aws(host) {
        Some("") => format!("use `{place}`"),
        Some(region) => format!("use `{place} --s3-region {region}`"),
        None if host.contains(['.', ':']) || protocol != "https" => {
            format!("use `{place} --s3-endpoint {protocol}://{host}`")
        }
        // More likely a bucket than a server, but restic would take it for a server.
        None => format!(
            "use `{place} --s3-endpoint https://{host}` if {host} is a server, or \
             `--repo s3://{host}/{bucket}` if {host} is a bucket"
        ),
    }
}

/// Returns the region of a host of AWS, empty if the host serves all regions. Returns `None` for a
/// host of another storage.
fn region_of_aws(host: &str) -> Option<&str> {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    match host.strip_suffix(".amazonaws.com")? {
        "s3" => Some(""),
        name => {
            let region = name.strip_prefix("s3.").or_else(|| name.strip_prefix("s3-"))?;
            // A name with more parts (`dualstack.REGION`) is a separate endpoint.
            (!region.contains('.')).then_some(region)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::{exit, remedy};

    fn resolved(given: &[u8]) -> Result<Vec<u8>, String> {
        let place = resolve(Path::new(OsStr::from_bytes(given)));
        place.map(|place| place.into_os_string().into_vec()).map_err(|failure| {
            let error = anyhow::Error::from(failure);
            assert_eq!(exit::Exit::of(&error), exit::Exit::Failed, "{error}");
            format!("{error}; {}", remedy::remedy(&error, "init").expect("a remedy"))
        })
    }

    #[test]
    fn folders_and_known_addresses_are_accepted() {
        for place in [
            "/a",
            "a",
            "a/b:c",
            "./sftp:me@nas:/b",
            "./rclone:x:a",
            "./C:foo",
            "/x:y",
            "s3://b/p",
            "..",
            "",
        ] {
            assert_eq!(resolved(place.as_bytes()).as_deref(), Ok(place.as_bytes()), "{place}");
        }
        for known in [
            "s3://b",
            "azure://c/p",
            "gs://b/p",
            "sftp://me@nas:22//b",
            "rclone:x:a",
            "rest:http://h/a/",
        ] {
            assert_eq!(resolved(known.as_bytes()).as_deref(), Ok(known.as_bytes()), "{known}");
            assert_eq!(address(Path::new(known)), Some(known), "an address");
            assert_eq!(address(&Path::new(".").join(known)), None, "a folder");
        }
    }

    #[test]
    fn file_urls_name_folders() {
        for (url, folder) in [
            ("file:///a/b", "/a/b"),
            ("FILE:///a", "/a"),
            ("file://localhost/a", "/a"),
            ("file://LOCALHOST/a", "/a"),
            ("file:/a", "/a"),
            ("file:///a%20b/%C3%BC", "/a b/\u{fc}"),
            ("file:///a b:c", "/a b:c"),
            ("file:///100%25", "/100%"),
            ("file:///s3%3A//b", "/s3://b"),
        ] {
            assert_eq!(resolved(url.as_bytes()).as_deref(), Ok(folder.as_bytes()), "{url}");
        }
        assert_eq!(resolved(b"file:///%ff\xfe").as_deref(), Ok(&b"/\xff\xfe"[..]), "any bytes");
        for (url, problem) in [
            ("file://nas/a", "found nas"),
            ("file://a", "three slashes"),
            ("file://", "has no folder"),
            ("file://localhost", "has no folder"),
            ("file:a", "three slashes"),
            ("file:///a?b", "%3F"),
            ("file:///a#b", "%23"),
            ("file:///100%", "%25"),
            ("file:///%zz", "%25"),
            ("file:///a%00b", "%00"),
        ] {
            let error = resolved(url.as_bytes()).expect_err(url);
            assert!(error.contains(problem), "{url}: {error}");
        }
    }

    #[test]
    fn unknown_addresses_are_refused_with_the_right_spelling() {
        for (place, spelling) in [
            ("sftp:me@nas:/b", "`--repo sftp://me@nas//b`"),
            ("sftp:me@nas:b", "`--repo sftp://me@nas/b`"),
            ("SFTP://nas/b", "`--repo sftp://nas/b`"),
            ("me@nas:/b", "`--repo sftp://me@nas//b`"),
            ("ssh://me@nas:22/b", "`--repo sftp://me@nas:22//b`"),
            ("smb://nas/b", "mounted folder"),
            ("nas:/b", "is given as `./nas:/b`"),
            ("RCLONE:remote:b", "`./RCLONE:remote:b`"),
            (
                "b2:bucket:p/q",
                "`--repo s3://bucket/p/q --s3-endpoint https://s3.REGION.backblazeb2.com`",
            ),
            ("gs:bucket:/p", "`--repo gs://bucket/p`"),
            ("azure:container:/", "`--repo azure://container`"),
            ("azure:container:/", "`./azure:container:/`"),
            ("webdav://host/a", "--repo rclone:REMOTE:PATH"),
            ("https://host/bucket", "--s3-endpoint"),
            ("http://host/a/", "--repo rest:URL"),
            ("local:/a", "`--repo /a`"),
            ("C:foo", "is given as `./C:foo`"),
            ("C:\\foo", "a folder of this name"),
            (":/a", "expected a folder"),
            ("S3://bucket/p", "write s3://BUCKET/PREFIX"),
            ("s3:host.example/bucket", "`--repo s3://bucket --s3-endpoint https://host.example`"),
            ("s3:host/b", "`--repo s3://b --s3-endpoint https://host`"),
            ("s3:bucket/p/q", "`--repo s3://bucket/p/q` if bucket is a bucket"),
            ("s3:http://host:9000/b/p/", "`--repo s3://b/p --s3-endpoint http://host:9000`"),
            ("s3:s3.amazonaws.com/b/p", "`--repo s3://b/p`"),
            ("s3:s3.eu-west-1.amazonaws.com/b", "`--repo s3://b --s3-region eu-west-1`"),
            ("s3:s3-eu-west-1.amazonaws.com/b", "`--repo s3://b --s3-region eu-west-1`"),
            ("s3:s3.cn-north-1.amazonaws.com.cn/b", "`--repo s3://b --s3-region cn-north-1`"),
            (
                "s3:s3.dualstack.eu-west-1.amazonaws.com/b",
                "`--repo s3://b --s3-endpoint https://s3.dualstack.eu-west-1.amazonaws.com`",
            ),
            ("s3:bucket", "`--repo s3://bucket` for the bucket"),
            (
                "s3:bucket.s3.eu-west-1.amazonaws.com/p",
                "`--repo s3://bucket/p --s3-region eu-west-1`",
            ),
            ("s3:https://a.b.s3.amazonaws.com", "`--repo s3://a.b`"),
        ] {
            let error = resolved(place.as_bytes()).expect_err(place);
            for text in [KNOWN, spelling] {
                assert!(error.contains(text), "{place}: {error}");
            }
            assert!(
                error.contains(&format!("`./{}`", escape::for_terminal(place.as_bytes()))),
                "{error}"
            );
        }
        for place in ["http://me:secret@nas/a", "REST:https://me:secret@nas", "sftps://m:secret@n/"]
        {
            let error = resolved(place.as_bytes()).expect_err(place);
            assert!(error.contains(":***@n") && !error.contains("secret"), "{error}");
        }
        let error = resolved(b"s3://\xff").expect_err("not UTF-8");
        assert!(error.contains("is given as `./s3://\\xff`"), "{error}");
    }
}
