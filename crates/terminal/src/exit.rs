//! The end of a run: exit codes, and the remedies for failures.

use std::{fmt, io};

use cutpoint_storage::{Error as StoreError, Kind};

/// The exit codes as `--help` shows them. The meaning of a number never changes.
pub const TABLE: &str = "\
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
pub enum Exit {
    /// Everything was done.
    Well,
    /// The work is done, with problems that were reported.
    Problems,
    /// Failed for a reason without a code of its own.
    Failed,
    /// There is no repository at the place.
    NoRepository,
    /// An object that had to be read is damaged or missing.
    Damaged,
    /// The secret does not open the repository, or another repository is in its place.
    WrongKey,
    /// The repository is in an older state than the remembered one.
    RolledBack,
    /// The repository was written by a newer version.
    Newer,
    /// The storage or the target is full.
    Full,
    /// Another client has interfered.
    Conflict,
    /// The run was asked to stop.
    Interrupted,
}

impl Exit {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Exit::Well => 0,
            Exit::Problems => 1,
            Exit::Failed => 2,
            Exit::NoRepository => 10,
            Exit::Damaged => 11,
            Exit::WrongKey | Exit::RolledBack => 12,
            Exit::Newer => 13,
            Exit::Full => 14,
            Exit::Conflict => 15,
            Exit::Interrupted => 130,
        }
    }

    /// Returns the name of the code, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Well => "well",
            Exit::Problems => "problems",
            Exit::Failed => "failed",
            Exit::NoRepository => "no_repository",
            Exit::Damaged => "damaged",
            Exit::WrongKey => "wrong_key",
            Exit::RolledBack => "rolled_back",
            Exit::Newer => "newer_version",
            Exit::Full => "full",
            Exit::Conflict => "conflict",
            Exit::Interrupted => "interrupted",
        }
    }

    /// Returns [`Exit::Well`], or [`Exit::Problems`] if there were any.
    pub fn of_problems(count: u64) -> Exit {
        if count == 0 { Exit::Well } else { Exit::Problems }
    }

    /// Returns the code for an error of the store.
    pub fn of_kind(kind: Kind) -> Exit {
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

    /// Returns the code for a run that ended with `error`.
    pub fn of(error: &anyhow::Error) -> Exit {
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

/// A failure detected by the command line itself, with its exit code and its remedy.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    /// Creates a failure with the given code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), remedy: None }
    }

    /// Creates a failure with code 2.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    /// Sets the remedy.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = Some(remedy.into());
        self
    }
}

impl Failure {
    /// Returns the remedy, if one was given.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The reader of standard output has closed it (`cutpoint ls | head`). This is not an error, but a
/// reason to end.
#[derive(Debug)]
pub struct StdoutClosed;

impl fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for StdoutClosed {}

/// Formats the error and its causes in one line. The errors of the store are complete, so their
/// causes are included only if `with_causes` is set.
pub fn message(error: &anyhow::Error, with_causes: bool) -> String {
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
    plain(&text)
}

/// Replaces the texts of the system for common errors by plain ones, and removes the numbers of all
/// others.
pub fn plain(text: &str) -> String {
    const TEXTS: [(&str, &str); 4] = [
        ("No such file or directory (os error 2)", "not found"),
        ("File exists (os error 17)", "exists already"),
        ("Not a directory (os error 20)", "a file (expected a folder)"),
        ("Is a directory (os error 21)", "a folder (expected a file)"),
    ];
    if !text.contains(" (os error ") {
        return text.to_owned();
    }
    let mut text = TEXTS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    while let Some(start) = text.find(" (os error ")
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start..=start + length, "");
    }
    text
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
            Exit::RolledBack,
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
    fn errors_of_the_system_are_plain() {
        for (code, expected) in [
            (2, "not found"),
            (13, "Permission denied"),
            (17, "exists already"),
            (20, "a file (expected a folder)"),
            (21, "a folder (expected a file)"),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(plain(&format!("a: {error}; b")), format!("a: {expected}; b"), "{code}");
        }
    }

    #[test]
    fn outermost_error_decides_the_exit_code() {
        let full = StoreError::new(Kind::Full, "data/00/x", "no space left");
        let error = anyhow::Error::new(full).context("the backup");
        assert_eq!(Exit::of(&error), Exit::Full, "a store error below a context");
        assert_eq!(message(&error, false), "the backup: data/00/x: no space left", "message");
        let io = anyhow::Error::new(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(Exit::of(&io), Exit::Failed, "an I/O error");
    }
}
