//! A repository of Borg, and its secret.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use cutpoint_import::{Borg, BorgOptions, BorgPlace};
use cutpoint_storage::Kind;
use zeroize::Zeroizing;

use super::ImportSource;
use crate::args::Import;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::temporary::temporary_folder;
use crate::{escape, unlock};

/// The number of attempts to type a passphrase.
const TRIES: usize = 3;
/// The places in which Borg looks for a passphrase.
const PASSPHRASE_REMEDY: &str =
    "give the passphrase of Borg with BORG_PASSPHRASE or BORG_PASSCOMMAND";
/// The beginning of the settings of a repository of Borg.
const SETTINGS: &[u8] = b"[repository]";

/// Opens the repository by the program `borg`.
///
/// # Errors
///
/// Fails with exit code 10 if there is none, and 12 if the secret does not open it.
pub(super) fn open(args: &Import, report: &Report) -> Result<ImportSource> {
    let shown = escape::for_terminal(args.from.as_os_str().as_bytes());
    let is_remote = remote(args.from.as_os_str().as_bytes()).is_some();
    let (command, path) = command(args.from.as_os_str())?;
    let temporary = temporary_folder();
    let options =
        BorgOptions { command, is_remote, threads: args.options.threads.count(), temporary };
    let none = |why: &dyn Display| {
        Failure::new(Exit::NoRepository, format!("{shown}: no repository of Borg: {why}"))
            .with_remedy("check REPO, the place of a repository of Borg 1")
    };
    if !is_remote && has_other_settings(&path) {
        return Err(none(&"the file config is not one of Borg").into());
    }
    let place = BorgPlace::open(&path, options).map_err(|error| match error.kind() {
        Kind::Missing => anyhow::Error::from(none(&error)),
        _ => anyhow::Error::from(error).context(shown.clone()),
    })?;
    let borg = unlock(place, &shown)?;
    for error in borg.unreadable() {
        report.problem(Path::new(error.object()), &format!("not imported: {error}"));
    }
    let snapshots = borg.snapshots();
    Ok(ImportSource { repository: Arc::new(borg), snapshots })
}

/// Returns `true` if the folder has the settings of another program, which Borg refuses with an error
/// of its interpreter.
fn has_other_settings(folder: &[u8]) -> bool {
    let settings = fs::read(Path::new(OsStr::from_bytes(folder)).join("config"));
    settings.is_ok_and(|settings| !settings.trim_ascii_start().starts_with(SETTINGS))
}

/// Returns the command that runs Borg where the repository is, and the path of the repository there.
fn command(repository: &OsStr) -> Result<(Vec<OsString>, Vec<u8>)> {
    let bytes = repository.as_bytes();
    let Some(Remote { host, port, path }) = remote(bytes) else {
        let path = std::path::absolute(Path::new(repository));
        let path = path.with_context(|| escape::for_terminal(bytes))?;
        return Ok((vec!["borg".into()], path.into_os_string().into_vec()));
    };
    // As the shell would take it: BORG_RSH may have arguments. Ctrl-C must not end it before this
    // process has ended its requests. A connection that is gone ends by itself.
    let script = r#"trap '' INT; exec ${BORG_RSH:-ssh -oServerAliveInterval=30} "$@""#;
    let mut command: Vec<OsString> = ["sh", "-c", script, "ssh"].map(OsString::from).to_vec();
    if let Some(port) = port {
        command.extend(["-p".into(), OsString::from_vec(port)]);
    }
    command.push(OsString::from_vec(host));
    command.push(variable("BORG_REMOTE_PATH").unwrap_or_else(|| "borg".into()));
    Ok((command, path))
}

/// The parts of an address of a repository on another machine.
struct Remote {
    host: Vec<u8>,
    port: Option<Vec<u8>>,
    path: Vec<u8>,
}

/// Splits `ssh://USER@HOST:PORT/PATH` and `USER@HOST:PATH` into their parts; `None` for a folder of this
/// machine.
fn remote(repository: &[u8]) -> Option<Remote> {
    let split = |text: &[u8], at: u8| -> Option<(Vec<u8>, Vec<u8>)> {
        let at = text.iter().position(|byte| *byte == at)?;
        Some((text[..at].to_vec(), text[at + 1..].to_vec()))
    };
    if let Some(rest) = repository.strip_prefix(b"ssh://") {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (host, path) = (&rest[..slash], rest[slash..].to_vec());
        // An address of IPv6 is in brackets, which ssh does not take.
        let behind = host.iter().position(|byte| *byte == b']').map_or(0, |at| at + 1);
        let (host, port) = match split(&host[behind..], b':') {
            Some((rest, port)) => ([&host[..behind], &rest].concat(), Some(port)),
            None => (host.to_vec(), None),
        };
        let host: Vec<u8> = host.into_iter().filter(|byte| !b"[]".contains(byte)).collect();
        let is_host = !host.is_empty() && !host.starts_with(b"-");
        return is_host.then_some(Remote { host, port, path });
    }
    let (host, path) = split(repository, b':')?;
    let is_host = !host.is_empty() && !host.contains(&b'/') && !host.starts_with(b"-");
    (is_host && !path.is_empty()).then_some(Remote { host, port: None, path })
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Unlocks the repository by the passphrase from the places in which Borg looks for it, else by none,
/// else by one that is typed.
fn unlock(mut place: BorgPlace, shown: &str) -> Result<Borg> {
    let key_file = match place.needs_key_file() {
        true => Some(key_file(&place, shown)?),
        false => None,
    };
    let key_file = key_file.as_deref().map(Vec::as_slice);
    let given = match env::var_os("BORG_PASSPHRASE") {
        Some(passphrase) => Some(Zeroizing::new(passphrase.into_vec())),
        None => match variable("BORG_PASSCOMMAND") {
            Some(command) => Some(unlock::output_of(&command)?),
            None => None,
        },
    };
    let was_given = given.is_some();
    let mut passphrase = given.unwrap_or_default();
    for number in 0..=TRIES {
        place = match place.unlock(&passphrase, key_file)? {
            Ok(borg) => return Ok(borg),
            Err(place) => place,
        };
        if was_given || number == TRIES {
            break;
        }
        passphrase = unlock::ask_other(shown, PASSPHRASE_REMEDY)?;
    }
    Err(Failure::new(Exit::WrongKey, format!("{shown}: wrong passphrase"))
        .with_remedy(PASSPHRASE_REMEDY)
        .into())
}

/// Returns the content of the key file, from the places in which Borg looks for it.
fn key_file(place: &BorgPlace, shown: &str) -> Result<Zeroizing<Vec<u8>>> {
    if let Some(path) = variable("BORG_KEY_FILE").map(PathBuf::from) {
        let context = || format!("key file {}", path.display());
        return Ok(Zeroizing::new(fs::read(&path).with_context(context)?));
    }
    let first_line = format!("BORG_KEY {}\n", place.id());
    let folder = keys_folder();
    for entry in folder.iter().flat_map(fs::read_dir).flatten().flatten() {
        let Ok(content) = fs::read(entry.path()).map(Zeroizing::new) else { continue };
        if content.starts_with(first_line.as_bytes()) {
            return Ok(content);
        }
    }
    let place = folder.unwrap_or_else(|| PathBuf::from("~/.config/borg/keys"));
    let message = format!("{shown}: no key file found in {}", place.display());
    Err(Failure::new(Exit::WrongKey, message)
        .with_remedy("name the file with BORG_KEY_FILE; `borg key export` makes one")
        .into())
}

/// Returns the folder of Borg's key files.
fn keys_folder() -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from);
    if let Some(folder) = path("BORG_KEYS_DIR") {
        return Some(folder);
    }
    if let Some(folder) = path("BORG_CONFIG_DIR") {
        return Some(folder.join("keys"));
    }
    if let Some(folder) = path("BORG_BASE_DIR") {
        return Some(folder.join(".config/borg/keys"));
    }
    let config = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
    Some(config?.join("borg/keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_repositories_have_a_host() {
        let found = |text: &str| {
            let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
            let Remote { host, port, path } = remote(text.as_bytes())?;
            Some((text_of(host), port.map(text_of), text_of(path)))
        };
        let of = |host: &str, port: Option<&str>, path: &str| {
            Some((host.to_owned(), port.map(str::to_owned), path.to_owned()))
        };
        assert_eq!(found("ssh://me@nas:22/./repo"), of("me@nas", Some("22"), "/./repo"));
        assert_eq!(found("ssh://nas/~/repo"), of("nas", None, "/~/repo"));
        assert_eq!(found("ssh://me@[::1]:22/r"), of("me@::1", Some("22"), "/r"));
        assert_eq!(found("ssh://[fe80::1]/r"), of("fe80::1", None, "/r"));
        assert_eq!(found("me@nas:repo"), of("me@nas", None, "repo"));
        assert_eq!(found("nas:/srv/repo"), of("nas", None, "/srv/repo"));
        // An option of ssh is no host.
        for folder in [
            "/srv/repo",
            "repo",
            "./a:b",
            "a/b:c",
            ":a",
            "-oProxyCommand=x:y",
            "nas:",
            "ssh://[-oA=x]/r",
        ] {
            assert_eq!(found(folder), None, "{folder}");
        }
    }
}
