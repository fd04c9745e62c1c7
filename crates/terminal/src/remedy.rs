//! Remedies: the next step of a user after a failure of the system.

use std::io;

use crate::exit::{Exit, Failure, message};

/// Returns the remedy for `error` that does not depend on the program, if one is known.
pub fn remedy(error: &anyhow::Error, _command: &str) -> Option<String> {
    if let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<Failure>())
        && (failure.remedy().is_some() || Exit::of(error) != Exit::Interrupted)
    {
        return failure.remedy().map(str::to_owned);
    }
    let text = message(error, true);
    let remedy = match Exit::of(error) {
        // The data written was not for a repository, but for a restored file, a page, or standard
        // output.
        Exit::Full => "free some space and run the same command again",
        Exit::Interrupted => "run the same command again",
        _ if text.contains("ermission denied") => {
            "run as a user with permission to read and write there, or change the permissions"
        }
        _ if is_of_path(error) => "check the path",
        _ if text.contains("ead-only file system") => "make the file system writable",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Returns `true` if the system did not find a file or a folder.
fn is_of_path(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::AlreadyExists
        )
    })
}
