//! The address of a server of restic's REST protocol, or of a remote of rclone.

use std::fmt;

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::throttle::Throttle;

/// The forms of addresses, for messages.
const RCLONE_FORM: &str =
    "expected rclone:REMOTE:PATH, with a REMOTE that `rclone listremotes` shows";
const REST_FORM: &str =
    "expected rest:http://HOST:PORT/PATH/ or rest:https://USER:PASSWORD@HOST:PORT/PATH/";
/// The default command.
const RCLONE: &str = "rclone";
/// The minimum length of a value that counts as a secret: shorter ones are words of messages.
const SECRET_LEN_MIN: usize = 4;
/// The address in requests to rclone, which no name leads to.
const RCLONE_URL: &str = "http://rclone";

/// The location of a repository behind restic's REST protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct RestSettings {
    /// The server.
    pub(super) server: Server,
    /// The name of the account; `None` for a server that asks for none.
    pub user: Option<String>,
    /// The password of the account.
    pub password: Option<String>,
    /// The command that is run instead of `rclone`, as a word of a shell with its arguments. Those
    /// of `rclone` follow it.
    pub command: String,
    /// The limits of the rates of transfers.
    pub throttle: Throttle,
}

/// A server, and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// A remote with a path, which the command `rclone` serves to this process alone.
    Rclone(String),
    /// The URL of a folder on a server, without credentials and without a trailing `/`.
    Url(String),
}

/// Omits the password.
impl fmt::Debug for RestSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestSettings")
            .field("server", &self.server)
            .field("user", &self.user)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl RestSettings {
    /// Parses `rclone:REMOTE:PATH`, or `rest:URL`, of which user and password are decoded.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the text is not such an address. It never has the password.
    pub fn parse(address: &str) -> Result<RestSettings> {
        let of = |server, user, password| RestSettings {
            server,
            user,
            password,
            command: RCLONE.to_owned(),
            throttle: Throttle::default(),
        };
        if let Some(remote) = address.strip_prefix("rclone:") {
            return Ok(of(Server::Rclone(parse_remote(address, remote)?), None, None));
        }
        let invalid = |why: &str| {
            Error::invalid(RestSettings::without_password(address), format!("{why} ({REST_FORM})"))
        };
        let url = address.strip_prefix("rest:").ok_or_else(|| invalid("not a REST address"))?;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !["http", "https"].contains(&scheme) {
            return Err(invalid("the URL has another scheme than http or https"));
        }
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, host) = match server.rsplit_once('@') {
            Some((account, host)) => (Some(account), host),
            None => (None, server),
        };
        let path = path.trim_matches('/');
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        if path.contains(['?', '#', '@']) || (!path.is_empty() && !path.split('/').all(is_part)) {
            return Err(invalid(
                "the path of the URL has an empty name, `.`, `..`, `?`, `#` or `@`",
            ));
        }
        let url = match path {
            "" => format!("{scheme}://{host}"),
            path => format!("{scheme}://{host}/{path}"),
        };
        let parsed = url.parse::<Uri>().map_err(|_| invalid("not a URL"))?;
        let is_empty = parsed.host().is_none_or(str::is_empty);
        if is_empty || host.starts_with(':') {
            return Err(invalid("no host given"));
        }
        if parsed.host() != Some(host) && parsed.port_u16().is_none() {
            return Err(invalid("invalid port"));
        }
        let decode = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().map_err(|_| invalid("not UTF-8"))?;
            let is_clean = !text.chars().any(char::is_control);
            if is_clean { Ok(text.into_owned()) } else { Err(invalid("control character")) }
        };
        let (user, password) = match account {
            None => (None, None),
            Some(account) => {
                let (user, password) = account.split_once(':').unwrap_or((account, ""));
                (Some(decode(user)?), Some(decode(password)?))
            }
        };
        Ok(of(Server::Url(url), user, password))
    }

    /// Returns an address for messages: a password, or the parameters of a remote that is described
    /// instead of named, are replaced.
    pub fn without_password(address: &str) -> String {
        if let Some(remote) = address.strip_prefix("rclone:") {
            return match split_remote(remote) {
                // The path may be a part of a parameter that lacks its quotes.
                Some((backend, _, path)) if !path.contains([',', '=', '@']) => {
                    format!("rclone:{backend},***{path}")
                }
                Some((backend, ..)) => format!("rclone:{backend},***"),
                None => address.to_owned(),
            };
        }
        let Some(url) = address.strip_prefix("rest:") else { return address.to_owned() };
        // `http:/me:secret@h` lacks a slash, and `me:secret@h` all of the scheme.
        let is_scheme = |at: &usize| url[..*at].ends_with(':');
        let scheme_len = url.find('/').filter(is_scheme).unwrap_or(0);
        let (scheme, rest) = url.split_at(scheme_len);
        let (slashes, rest) = rest.split_at(rest.len() - rest.trim_start_matches('/').len());
        match rest.rsplit_once('@') {
            Some((account, place)) => {
                let user = account.split(':').next().unwrap_or_default();
                let hidden = if account.contains(':') { ":***" } else { "" };
                format!("rest:{scheme}{slashes}{user}{hidden}@{place}")
            }
            None => address.to_owned(),
        }
    }

    /// Returns the parameters of a remote that is described instead of named, and their values, which
    /// may be secrets, the longest first.
    pub(super) fn parameters(remote: &str) -> Vec<String> {
        let Some((_, parameters, rest)) = split_remote(remote) else { return Vec::new() };
        let all = [parameters, rest].concat();
        let pieces = all.split([',', ':', '"', '\'']).flat_map(|piece| {
            let value = piece.split_once('=').map(|(_, value)| value);
            [Some(piece).filter(|_| value.is_some()), value].into_iter().flatten()
        });
        let quoted = all.split(['"', '\'']).skip(1).step_by(2);
        let found = [parameters].into_iter().chain(pieces).chain(quoted);
        let mut found: Vec<String> =
            found.filter(|text| text.len() >= SECRET_LEN_MIN).map(str::to_owned).collect();
        found.sort_by_key(|text| std::cmp::Reverse(text.len()));
        found
    }

    /// Returns the address, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.server {
            Server::Rclone(remote) => RestSettings::without_password(&format!("rclone:{remote}")),
            Server::Url(url) => format!("rest:{url}/"),
        }
    }

    /// Returns the URL of the folder for requests, without a trailing `/`.
    pub(super) fn url(&self) -> &str {
        match &self.server {
            Server::Rclone(_) => RCLONE_URL,
            Server::Url(url) => url,
        }
    }
}

/// Divides a remote with parameters, such as `:sftp,host=h,pass="a:b":/path`: into the backend, the
/// parameters, and the rest, which begins with a colon. `None` if it has no parameters.
fn split_remote(remote: &str) -> Option<(&str, &str, &str)> {
    let begin = remote.len() - remote.strip_prefix(':').unwrap_or(remote).len();
    let comma = begin + remote[begin..].find([',', ':'])?;
    if remote[comma..].starts_with(':') {
        return None;
    }
    let mut quote = None;
    let end = remote[comma..].find(|c: char| match quote {
        Some(open) => {
            if c == open {
                quote = None;
            }
            false
        }
        None if matches!(c, '"' | '\'') => {
            quote = Some(c);
            false
        }
        None => c == ':',
    });
    let end = end.map_or(remote.len(), |end| comma + end);
    Some((&remote[..comma], &remote[comma + 1..end], &remote[end..]))
}

fn parse_remote(address: &str, remote: &str) -> Result<String> {
    let invalid = |why: &str| {
        Error::invalid(RestSettings::without_password(address), format!("{why} ({RCLONE_FORM})"))
    };
    // A remote that begins with `:` is described by its parameters instead of named.
    let colon = remote.strip_prefix(':').unwrap_or(remote).find(':');
    if colon.is_none_or(|at| at == 0) {
        return Err(invalid("no remote given"));
    }
    if remote.chars().any(char::is_control) {
        return Err(invalid("control character"));
    }
    Ok(remote.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_parsed() {
        for remote in ["x:a/b", "x:", "my drive:a b", ":sftp,host=h,pass=p:/a", "x,opt=1:a"] {
            let parsed = RestSettings::parse(&format!("rclone:{remote}")).expect(remote);
            assert_eq!(parsed.server, Server::Rclone(remote.to_owned()), "{remote}");
        }
        for wrong in ["rclone:", "rclone:a", "rclone::", "rclone:/folder", "rclone:a:b\n", "x"] {
            assert!(RestSettings::parse(wrong).is_err(), "{wrong:?} was taken for an address");
        }
    }

    #[test]
    fn urls_are_parsed() {
        for (address, url, user, password) in [
            ("rest:http://h:8000/", "http://h:8000", None, None),
            ("rest:https://h/a/b%20c/", "https://h/a/b%20c", None, None),
            ("rest:http://me:p%40s:s@h/a", "http://h/a", Some("me"), Some("p@s:s")),
            ("rest:http://me@[::1]:8/", "http://[::1]:8", Some("me"), Some("")),
        ] {
            let parsed = RestSettings::parse(address).expect(address);
            assert_eq!(parsed.url(), url, "{address}");
            let account = (parsed.user.as_deref(), parsed.password.as_deref());
            assert_eq!(account, (user, password), "{address}");
        }
        for wrong in [
            "rest:",
            "rest:h/a",
            "rest:ftp://h/a",
            "rest:http://",
            "rest:http:///a",
            "rest:http://me:secret@/a",
            "rest:http://me:secret@h/a//b",
            "rest:http://me:secret@h/../b",
            "rest:http://me:secret@h/?q",
            "rest:http://me:secret/5@h/b",
            "rest:http://me:secret@h:port/b",
            "rest:http://me:secret%0a@h/b",
        ] {
            let error = RestSettings::parse(wrong).expect_err(wrong);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (address, shown) in [
            ("rest:http://me:secret@h/a/", "rest:http://h/a/"),
            ("rclone::sftp,host=h,pass=secret:/a", "rclone::sftp,***:/a"),
            ("rclone:x:a", "rclone:x:a"),
        ] {
            let parsed = RestSettings::parse(address).expect("an address");
            assert_eq!(parsed.describe(), shown);
            assert!(!RestSettings::without_password(address).contains("secret"), "{address}");
        }
        for (address, shown) in [
            ("rclone::webdav,pass=secret", "rclone::webdav,***"),
            ("rclone::webdav,pass=\"a:secret\":b", "rclone::webdav,***:b"),
            ("rclone::webdav,url=https://me:secret@h:b", "rclone::webdav,***"),
            ("rclone::webdav,url=https://h,pass=secret:b", "rclone::webdav,***"),
            ("rest:http:/me:secret@h/x", "rest:http:/me:***@h/x"),
            ("rest:http:me:secret@h/x", "rest:http:***@h/x"),
            ("rest:me:secret@h", "rest:me:***@h"),
        ] {
            assert_eq!(RestSettings::without_password(address), shown, "{address}");
        }
        let secrets = RestSettings::parameters(":webdav,url=https://h,pass=secret,user='a,b c':x");
        for secret in ["secret", "pass=secret", "a,b c"] {
            assert!(secrets.contains(&secret.to_owned()), "{secret}: {secrets:?}");
        }
        assert!(RestSettings::parameters("x:a,b=c").is_empty(), "a path");
        let parsed = RestSettings::parse("rest:http://me:secret@h/").expect("an address");
        assert!(!format!("{parsed:?}").contains("secret"), "{parsed:?}");
        let shown = RestSettings::without_password("rest:http://me:secret@h/a");
        assert_eq!(shown, "rest:http://me:***@h/a");
    }
}
