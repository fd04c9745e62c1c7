//! How a run ends: exit codes, and what a user can do about each failure.

use std::fmt;
use std::io;

use cutpoint_store::error::{Error as StoreError, Kind};
use cutpoint_store::media::Refusal;

use crate::s3;

/// The exit codes, as `--help` shows them. A number never changes its meaning.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  success
    1  done, but problems were reported
    2  failed: usage, permissions, I/O, or another reason
   10  there is no repository at the location
   11  damaged repository data had to be read
   12  wrong or missing secret, or not the same repository
   13  a newer version has written the repository
   14  the storage, or the target of a restore, is full
   15  conflict with another client; a retry may succeed
  130  interrupted by a signal; a new run continues";

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Well,
    /// Done, with problems that were named.
    Problems,
    /// Failed for a reason that has no code of its own.
    Failed,
    /// No repository there.
    NoRepository,
    /// What had to be read is damaged or missing.
    Damaged,
    /// The secret does not open the repository, or the repository is not the one remembered.
    WrongKey,
    /// Written by a newer version.
    Newer,
    /// No room.
    Full,
    /// Another client's doing.
    Conflict,
    /// Asked to stop.
    Interrupted,
}

impl Exit {
    /// The number that the process returns.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Well => 0,
            Exit::Problems => 1,
            Exit::Failed => 2,
            Exit::NoRepository => 10,
            Exit::Damaged => 11,
            Exit::WrongKey => 12,
            Exit::Newer => 13,
            Exit::Full => 14,
            Exit::Conflict => 15,
            Exit::Interrupted => 130,
        }
    }

    /// The code in a word, for JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Exit::Well => "well",
            Exit::Problems => "problems",
            Exit::Failed => "failed",
            Exit::NoRepository => "no_repository",
            Exit::Damaged => "damaged",
            Exit::WrongKey => "wrong_key",
            Exit::Newer => "newer_version",
            Exit::Full => "full",
            Exit::Conflict => "conflict",
            Exit::Interrupted => "interrupted",
        }
    }

    /// Well, or problems if there were any.
    pub(crate) fn of_problems(count: u64) -> Exit {
        if count == 0 { Exit::Well } else { Exit::Problems }
    }

    /// The code for a failure of the store.
    pub(crate) fn of_kind(kind: Kind) -> Exit {
        match kind {
            Kind::Corrupt | Kind::Missing => Exit::Damaged,
            Kind::Unsupported => Exit::Newer,
            Kind::WrongKey => Exit::WrongKey,
            Kind::Conflict => Exit::Conflict,
            Kind::Full => Exit::Full,
            Kind::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }

    /// The code for a run that ended with `error`.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return failure.exit;
            }
            if let Some(error) = cause.downcast_ref::<StoreError>() {
                return Exit::of_kind(error.kind());
            }
            if let Some(error) = cause.downcast_ref::<io::Error>() {
                return match error.kind() {
                    io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge => Exit::Full,
                    _ => Exit::Failed,
                };
            }
        }
        Exit::Failed
    }
}

/// A failure that the command line itself found: it knows its code and what helps.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    /// A failure with a code of its own.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), remedy: None }
    }

    /// A failure with code 2.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    /// Says what helps.
    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Standard output was closed by its reader (`cutpoint ls | head`): no error, but a reason to end.
#[derive(Debug)]
pub(crate) struct StdoutClosed;

impl fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for StdoutClosed {}

/// The error and its causes in one line. The store's errors say all that matters; what caused them
/// is shown to those who ask for it.
pub(crate) fn message(error: &anyhow::Error, with_causes: bool) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let part = cause.to_string();
        if !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
        if !with_causes && cause.is::<StoreError>() {
            break;
        }
    }
    text
}

/// The causes of `error` that are objects of a newer key epoch.
pub(crate) fn newer_epochs(error: &anyhow::Error) -> impl Iterator<Item = &StoreError> {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<StoreError>());
    causes.filter(|cause| cause.is_of_newer_epoch())
}

/// What helps against `error`, if that is known.
pub(crate) fn remedy(error: &anyhow::Error) -> Option<String> {
    if let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        return failure.remedy.clone();
    }
    if let Some(refusal) = error.chain().find_map(|cause| cause.downcast_ref::<Refusal>()) {
        return Some(s3::remedy(refusal));
    }
    let mut of_store = error.chain().filter_map(|cause| cause.downcast_ref::<StoreError>());
    if let Some(remedy) = of_store.find_map(StoreError::remedy) {
        return Some(remedy.to_owned());
    }
    let text = message(error, true);
    let remedy = match Exit::of(error) {
        Exit::NoRepository => "name another place with --repo, or make one with `cutpoint init`",
        Exit::WrongKey if newer_epochs(error).next().is_some() => return None,
        Exit::Damaged => "`cutpoint check --read-data` finds all that is damaged",
        Exit::WrongKey => {
            "secrets come from the terminal, CUTPOINT_PASSPHRASE, --passphrase-file, \
             --passphrase-command or --key-file; a recovery kit is given with --key-file"
        }
        Exit::Newer => "use a newer cutpoint",
        Exit::Full if error.chain().any(|cause| cause.is::<StoreError>()) => {
            "make room and run the same command again; what was stored is intact and is used"
        }
        // What was written is no repository: a restored file, a page, standard output.
        Exit::Full => "make room and run the same command again",
        Exit::Conflict => "run the same command again",
        Exit::Interrupted => "run the same command again; what was stored is used",
        _ if text.contains("ermission denied") => {
            "run as a user who may read and write there, or change the permissions"
        }
        _ if text.contains("ead-only file system") => "make the file system writable",
        _ => return None,
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table() {
        let all = [
            Exit::Well,
            Exit::Problems,
            Exit::Failed,
            Exit::NoRepository,
            Exit::Damaged,
            Exit::WrongKey,
            Exit::Newer,
            Exit::Full,
            Exit::Conflict,
            Exit::Interrupted,
        ];
        for exit in all {
            let start = format!("{:>5}  ", exit.code());
            assert!(TABLE.lines().any(|line| line.starts_with(&start)), "{exit:?} is not there");
        }
    }

    #[test]
    fn only_of_a_full_store_something_was_stored() {
        let store = anyhow::Error::new(StoreError::new(Kind::Full, "data/00/x", "no space left"));
        let text = remedy(&store.context("the backup")).expect("a remedy");
        assert!(text.contains("what was stored"), "{text}");
        let output = anyhow::Error::new(io::Error::from(io::ErrorKind::StorageFull));
        let text = remedy(&output.context("standard output")).expect("a remedy");
        assert_eq!(text, "make room and run the same command again", "nothing was stored");
    }

    #[test]
    fn the_outermost_kind_decides() {
        let full = StoreError::new(Kind::Full, "data/00/x", "no space left");
        let error = anyhow::Error::new(full).context("the backup");
        assert_eq!(Exit::of(&error), Exit::Full, "a store error below a context");
        assert_eq!(message(&error, false), "the backup: data/00/x: no space left", "message");
        let io = anyhow::Error::new(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(Exit::of(&io), Exit::Failed, "an I/O error");
    }
}
