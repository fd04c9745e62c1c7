//! Remedies: the next step of a user after each failure.

use cutpoint_storage::Error as StoreError;
use cutpoint_terminal::remedy as common;

use crate::exit::{Exit, Failure, newer_epochs};
use crate::s3;

/// Returns the remedy for `error`, if one is known.
pub(crate) fn remedy(error: &anyhow::Error, command: &str) -> Option<String> {
    let is_backup = matches!(command, "backup" | "copy" | "import");
    if let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<Failure>())
        && (failure.remedy().is_some() || Exit::of(error) != Exit::Interrupted)
    {
        return failure.remedy().map(str::to_owned);
    }
    let mut of_store = error.chain().filter_map(|cause| cause.downcast_ref::<StoreError>());
    if let Some(remedy) = of_store.find_map(StoreError::remedy) {
        return Some(remedy.to_owned());
    }
    if let Some(remedy) = s3::remedy(error) {
        return Some(remedy);
    }
    let remedy = match Exit::of(error) {
        Exit::NoRepository => "check --repo, or create a repository with `cutpoint init`",
        Exit::WrongKey if newer_epochs(error).next().is_some() => return None,
        Exit::Damaged if command == "import" => {
            "check the other repository with its own program, and this one with `cutpoint check`"
        }
        Exit::Damaged => "run `cutpoint check --read-data` to find all damage",
        Exit::WrongKey => {
            "the secret comes from the terminal, CUTPOINT_PASSPHRASE, --passphrase-file, \
             --passphrase-command or --key-file; a recovery kit is given with --key-file"
        }
        Exit::Newer => "use a newer version of cutpoint",
        Exit::Full if is_backup && error.chain().any(|cause| cause.is::<StoreError>()) => {
            "free some space and run the same command again; data stored so far is intact and is \
             reused"
        }
        Exit::Conflict => "run the same command again",
        Exit::Interrupted => match command {
            "backup" => "run the same command again; data stored so far is reused",
            "copy" => {
                "run the same command again; complete copies are kept, and data stored so far is \
                 reused"
            }
            "import" => {
                "run the same command again; complete imports are kept, and data stored so far is \
                 reused"
            }
            "rewrite" => {
                "run the same command again; snapshots that were rewritten are kept, and none was \
                 forgotten"
            }
            "check" => {
                "nothing was changed, and what --read-data has read counts as read; run the same \
                 command again"
            }
            "prune" | "optimize" => {
                "nothing that a snapshot needs was removed; run the same command again, or \
                 `cutpoint prune`, which removes what this run has written in vain"
            }
            _ => return common::remedy(error, command),
        },
        _ => return common::remedy(error, command),
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io;

    use cutpoint_storage::Kind;

    use super::*;

    #[test]
    fn remedy_after_an_interruption_says_what_is_kept() {
        let of = |command: &str| {
            let error = StoreError::new(Kind::Interrupted, command, "interrupted");
            remedy(&anyhow::Error::new(error), command).expect("a remedy")
        };
        assert!(of("backup").contains("data stored so far is reused"), "{}", of("backup"));
        assert!(of("check").contains("nothing was changed"), "{}", of("check"));
        assert!(of("copy").contains("complete copies are kept"), "{}", of("copy"));
        assert!(of("rewrite").contains("none was forgotten"), "{}", of("rewrite"));
        for command in ["prune", "optimize"] {
            assert!(of(command).contains("nothing that a snapshot needs"), "{}", of(command));
        }
        assert_eq!(of("ls"), "run the same command again");
    }

    #[test]
    fn remedy_mentions_stored_data_only_for_a_full_store() {
        let store = anyhow::Error::new(StoreError::new(Kind::Full, "data/00/x", "no space left"));
        let text = remedy(&store.context("the backup"), "backup").expect("a remedy");
        assert!(text.contains("data stored so far"), "{text}");
        let output = anyhow::Error::new(io::Error::from(io::ErrorKind::StorageFull));
        let text = remedy(&output.context("standard output"), "backup").expect("a remedy");
        assert_eq!(text, "free some space and run the same command again", "nothing was stored");
        let full = || anyhow::Error::new(StoreError::new(Kind::Full, "data/00/x", "no space left"));
        let text = remedy(&full(), "prune").expect("a remedy");
        assert_eq!(text, "free some space and run the same command again", "not reused");
    }
}
