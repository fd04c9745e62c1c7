//! The address of a folder on an SSH server.

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::throttle::Throttle;

/// The form of an address, for messages.
const FORM: &str = "expected sftp://USER@HOST:PORT/PATH, with PATH in the home folder of USER, or \
                    sftp://USER@HOST:PORT//PATH, with PATH from the root; USER and PORT may be \
                    absent";
/// The default command.
const SSH: &str = "ssh";

/// The location of a repository on an SSH server, and the command that connects to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SftpSettings {
    /// The name of the account; `None` leaves the choice to the command.
    pub user: Option<String>,
    /// The name or address of the server, or an alias that the command knows.
    pub host: String,
    /// The port; `None` leaves the choice to the command.
    pub port: Option<u16>,
    /// The path of the folder: absolute if it begins with `/`, otherwise in the folder in which the
    /// server begins a session, which is the home folder of the account.
    pub path: String,
    /// The command that is run instead of `ssh`, as a word of a shell with its arguments. Those of
    /// `ssh` follow it.
    pub command: String,
    /// The limits of the rates of transfers.
    pub throttle: Throttle,
}

impl SftpSettings {
    /// Parses `sftp://USER@HOST:PORT/PATH`. A PATH that begins with a second `/` is absolute; any
    /// other, also one that begins with `~/`, is in the home folder. Escapes (`%20`) in USER and
    /// PATH are decoded.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the text is not such an address.
    pub fn parse(address: &str) -> Result<SftpSettings> {
        let invalid = |why: &str| Error::invalid(address, format!("{why} ({FORM})"));
        let rest = address.strip_prefix("sftp://").ok_or_else(|| invalid("not an SFTP address"))?;
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = match server.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, server),
        };
        if user.is_some_and(|user| user.contains(':')) {
            let remedy = "ssh finds keys itself, and asks for passwords on the terminal";
            return Err(invalid("an address has no password").with_remedy(remedy));
        }
        let (host, port) = split_port(server).ok_or_else(|| invalid("invalid port"))?;
        let decode = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            let text = text.map_err(|_| invalid("not UTF-8"))?;
            let is_clean = !text.chars().any(char::is_control);
            if is_clean { Ok(text.into_owned()) } else { Err(invalid("control character")) }
        };
        let user = user.map(decode).transpose()?;
        // An argument that begins with `-` would be an option of ssh.
        let is_word = |word: &str| !word.is_empty() && !word.starts_with('-');
        if !is_word(host) || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(invalid("no host given"));
        }
        if user.as_deref().is_some_and(|user| !is_word(user)) {
            return Err(invalid("invalid user"));
        }
        let path = decode(path)?;
        let path = path.strip_prefix("~/").unwrap_or(&path);
        let (root, path) = match path.strip_prefix('/') {
            Some(path) => ("/", path),
            None => ("", path),
        };
        let path = path.trim_matches('/');
        if path.is_empty() || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(
                "no folder given, or one with `.`, `..` or an empty name in its path",
            ));
        }
        Ok(SftpSettings {
            user,
            host: host.to_owned(),
            port,
            path: format!("{root}{path}"),
            command: SSH.to_owned(),
            throttle: Throttle::default(),
        })
    }

    /// Returns the arguments of the command: of `ssh` for the subsystem `sftp`.
    pub(super) fn arguments(&self) -> Vec<String> {
        // A connection that a router has forgotten is noticed.
        let mut arguments = vec!["-T".to_owned(), "-oServerAliveInterval=30".to_owned()];
        if let Some(port) = self.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = &self.user {
            arguments.extend(["-l".to_owned(), user.clone()]);
        }
        arguments.extend(["-s", "--", &self.host, "sftp"].map(str::to_owned));
        arguments
    }

    /// Returns the address, for messages.
    pub(super) fn describe(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("sftp://{user}{host}{port}/{}", self.path)
    }
}

/// Splits `HOST:PORT`, `[HOST]:PORT` or `HOST`. Returns `None` if the port is no number.
fn split_port(server: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':')?)),
        None => match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    let port = port.map(str::parse::<u16>).transpose().ok()?;
    (port != Some(0)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_in_the_home_folder_or_absolute() {
        for (address, path) in [
            ("sftp://me@nas/backup/a", "backup/a"),
            ("sftp://nas/~/backup", "backup"),
            ("sftp://nas//srv/backup/", "/srv/backup"),
            ("sftp://nas/a%20b", "a b"),
            ("sftp://nas/%7Ea", "~a"),
            ("sftp://nas/%2Fa", "/a"),
        ] {
            assert_eq!(SftpSettings::parse(address).expect(address).path, path, "{address}");
        }
    }

    #[test]
    fn server_is_parsed_and_described() {
        let parsed = SftpSettings::parse("sftp://a%40b@[fe80::1]:2222//r").expect("an address");
        let found = (parsed.user.as_deref(), parsed.host.as_str(), parsed.port);
        assert_eq!(found, (Some("a@b"), "fe80::1", Some(2222)));
        assert_eq!(parsed.describe(), "sftp://a@b@[fe80::1]:2222//r");
        let arguments = parsed.arguments();
        assert_eq!(arguments[2..], ["-p", "2222", "-l", "a@b", "-s", "--", "fe80::1", "sftp"]);
        let parsed = SftpSettings::parse("sftp://nas/r").expect("an address");
        assert_eq!(parsed.arguments()[2..], ["-s", "--", "nas", "sftp"], "ssh chooses the rest");
        assert_eq!(parsed.describe(), "sftp://nas/r");
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for address in [
            "sftp://",
            "sftp://nas",
            "sftp://nas/",
            "sftp://nas//",
            "sftp://nas/~/",
            "sftp://nas/a/../b",
            "sftp://nas/a//b",
            "sftp://nas:port/a",
            "sftp://nas:0/a",
            "sftp://me:secret@nas/a",
            "sftp://-oProxyCommand=x/a",
            "sftp://-x@nas/a",
            "sftp://@nas/a",
            "sftp://nas/a%0ab",
            "sftp://nas/%ff",
            "sftp:me@nas:/a",
        ] {
            let error = SftpSettings::parse(address).expect_err(address);
            assert!(error.to_string().contains("sftp://USER@HOST"), "{error}");
        }
    }
}
