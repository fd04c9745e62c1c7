//! Failures of requests to an SFTP server, and of the command that connects to it.

use std::process::ExitStatus;

use russh_sftp::protocol::{Status, StatusCode};

use crate::error::Kind;
use crate::remote;

/// The maximum number of lines of ssh that a message has.
const LINES_MAX: usize = 3;
/// The maximum length of a server's text in a message, in characters.
const TEXT_LEN_MAX: usize = 300;

/// The meaning of a failure for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The connection is gone. A request may have been carried out all the same.
    TryAgain,
    /// There is no such file or folder.
    Missing,
    /// A file ends before the requested range does.
    Short,
    /// The server answers a bare "failure", which stands for most errors of its system: the file
    /// exists, the disk is full, a quota is used up.
    Unnamed,
    /// The server does not permit the operation.
    Denied,
    /// The server does not know the operation.
    Unknown,
    /// The server's system calls the request invalid, such as a sync of a folder where folders are
    /// not synced.
    Invalid,
    /// Further attempts would fail as well.
    Final,
}

impl remote::Meaning for Meaning {
    const TRY_AGAIN: Meaning = Meaning::TryAgain;
    const FINAL: Meaning = Meaning::Final;

    fn kind(self) -> Kind {
        match self {
            Meaning::Missing => Kind::Missing,
            Meaning::Unknown => Kind::Unsupported,
            _ => Kind::Storage,
        }
    }
}

/// A failed request.
pub(super) type Failure = remote::Failure<Meaning>;

impl Failure {
    /// Returns `true` for an answer that a server gives that opens no folders as files. It may have
    /// other reasons, too.
    pub(super) fn is_of_folder(&self) -> bool {
        matches!(self.meaning, Meaning::Unnamed | Meaning::Invalid | Meaning::Unknown)
    }

    /// Converts a refusal of the server.
    pub(super) fn of_status(status: &Status) -> Failure {
        let message = shortened(&status.error_message);
        let text =
            format!("the server answered: {}", if message.is_empty() { "-" } else { &message });
        let lower = message.to_ascii_lowercase();
        // A few servers name the error, in the words of their system.
        if ["quota", "no space", "space left"].iter().any(|word| lower.contains(word)) {
            return Failure { kind: Kind::Full, ..Failure::new(Meaning::Final, text) }
                .with_remedy(FULL);
        }
        match status.status_code {
            StatusCode::NoSuchFile => Failure::new(Meaning::Missing, "no such file or folder"),
            StatusCode::Eof => Failure::new(Meaning::Short, text),
            StatusCode::PermissionDenied => Failure::new(Meaning::Denied, text).with_remedy(DENIED),
            StatusCode::NoConnection | StatusCode::ConnectionLost => Failure::outage(text),
            StatusCode::OpUnsupported => Failure::new(Meaning::Unknown, text),
            StatusCode::Failure => Failure::new(Meaning::Unnamed, text),
            StatusCode::BadMessage => Failure::new(Meaning::Invalid, text),
            _ => Failure::new(Meaning::Final, text),
        }
    }

    /// Returns the failure of a connection of which the command has ended with `status`, and has
    /// printed `printed` since the last answer. `is_first` is set if there was no answer: the command
    /// may be wrong only then, because later the connection has worked.
    pub(super) fn of_command(status: Option<ExitStatus>, printed: &str, is_first: bool) -> Failure {
        let lines: Vec<String> =
            printed.lines().map(shortened).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LINES_MAX)..].join("; ");
        let text = match (last.is_empty(), status) {
            (false, _) if last.starts_with("ssh: ") => last,
            (false, _) => format!("ssh: {last}"),
            (true, Some(status)) => format!("ssh ended: {status}"),
            (true, None) => "the connection was cut".to_owned(),
        };
        // A shell that cannot run a command ends with one of these.
        let is_not_run = matches!(status.and_then(|status| status.code()), Some(126 | 127));
        let remedies = REMEDIES.iter().chain(is_not_run.then_some(&NOT_RUN).into_iter().flatten());
        for (mark, remedy) in remedies.filter(|_| is_first) {
            if printed.contains(mark) {
                return Failure::new(Meaning::Final, text).with_remedy(remedy);
            }
        }
        // The network or the server may come back.
        let failure = Failure::outage(text);
        let is_unreached = UNREACHED.iter().any(|mark| printed.contains(mark));
        if is_unreached { failure.with_remedy(UNREACHABLE) } else { failure }
    }
}

/// Returns a text of the server as one short line without control characters.
fn shortened(text: &str) -> String {
    let clean = text.trim().chars().filter(|c| !c.is_control()).take(TEXT_LEN_MAX);
    clean.collect()
}

/// The remedy of a full disk.
pub(super) const FULL: &str = "free some space on the server, or raise the quota of the account \
                               (`df` and `quota` show them there), and run the same command again; \
                               what is stored is intact";
/// The remedy of a refused write that the server does not explain.
pub(super) const UNNAMED: &str = "log in to the server and look at `quota`, `df` and its system \
                                  log: SFTP names neither a quota that is used up nor a disk that \
                                  fails";
/// The remedy of a missing permission.
pub(super) const DENIED: &str = "let the account on the server own the folder of the repository \
                                 with all that is in it (`ls -ld FOLDER` shows the owner), or use \
                                 another account: sftp://USER@HOST/PATH";
/// The remedy of a server that cannot be reached.
const UNREACHABLE: &str = "check host, port and network: `ssh HOST` has to work; data stored so far \
                           is reused";
/// What ssh prints if it cannot reach a server.
const UNREACHED: [&str; 5] = [
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Network is unreachable",
    "Connection closed by",
];

/// What ssh prints, and the remedy. The first that fits counts.
const REMEDIES: [(&str, &str); 7] = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the server has another key than before, or another server answers: ask its administrator. \
         If the key was changed on purpose, `ssh-keygen -R HOST` removes the old one, and `ssh \
         HOST` shows the new one",
    ),
    (
        "Host key verification failed",
        "the key of the server is not known here: run `ssh -p PORT HOST` once, compare the fingerprint that \
         it shows with that of the server, and accept it",
    ),
    (
        "Permission denied (",
        "the server does not accept the account or its key: `ssh USER@HOST` has to work without a \
         question (an agent, or IdentityFile in ~/.ssh/config), and the server needs the public \
         key in its authorized_keys",
    ),
    (
        "Too many authentication failures",
        "the agent offers too many keys: name the right one by IdentityFile and IdentitiesOnly in \
         ~/.ssh/config",
    ),
    (
        "Could not resolve hostname",
        "check the name of the host: sftp://USER@HOST:PORT/PATH, where HOST may be an alias of \
         ~/.ssh/config",
    ),
    (
        "subsystem request failed",
        "the server allows no SFTP: enable `Subsystem sftp` in its sshd_config, or the service in \
         its settings",
    ),
    (
        "Bad owner or permissions",
        "ssh does not trust a file of its configuration: `chmod 600` the file that it names",
    ),
];

/// What a shell prints that cannot run the command. Text of ssh about an optional file, such as a key
/// that does not exist, looks alike.
const NOT_RUN: [(&str, &str); 2] = [
    ("not found", "install the SSH client (Debian: openssh-client), or check --ssh-command"),
    ("No such file or directory", "check --ssh-command and the files that it names"),
];

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::remote::Passing;

    fn of(printed: &str) -> Failure {
        Failure::of_command(None, printed, true)
    }

    #[test]
    fn refusals_of_ssh_have_remedies_and_are_final() {
        for (printed, remedy) in [
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "ssh-keygen -R",
            ),
            (
                "No ED25519 host key is known for x.\r\nHost key verification failed.\r\n",
                "fingerprint",
            ),
            ("me@nas: Permission denied (publickey,password).", "authorized_keys"),
            ("ssh: Could not resolve hostname nas: Name or service not known", "alias"),
            ("subsystem request failed on channel 0", "Subsystem sftp"),
        ] {
            let failure = of(printed);
            assert_eq!(failure.meaning, Meaning::Final, "{printed}");
            assert!(failure.remedy.is_some_and(|found| found.contains(remedy)), "{failure:?}");
        }
    }

    #[test]
    fn command_that_cannot_be_run_is_final() {
        let not_run = |code: i32, printed: &str| {
            Failure::of_command(Some(ExitStatus::from_raw(code << 8)), printed, true)
        };
        let failure = not_run(127, "sh: 1: exec: ssh: not found");
        assert_eq!(failure.meaning, Meaning::Final);
        assert!(failure.remedy.is_some_and(|remedy| remedy.contains("openssh-client")));
        assert_eq!(not_run(126, "sh: 1: exec: /x: not found").meaning, Meaning::Final);
        assert!(not_run(255, "/x: No such file or directory").may_pass(), "ssh itself has failed");
    }

    #[test]
    fn lost_connection_may_come_back() {
        let refused = of("ssh: connect to host nas port 22: Connection refused");
        assert!(refused.text.starts_with("ssh: connect"), "{refused:?}");
        assert!(refused.may_pass() && refused.remedy.is_some(), "{refused:?}");
        assert!(of("").may_pass(), "no word");
        let noise = "no such identity: /home/me/.ssh/id_old: No such file or directory";
        assert!(of(noise).may_pass(), "a file that is optional");
        let later = Failure::of_command(None, "me@nas: Permission denied (publickey).", false);
        assert!(later.may_pass(), "it has worked before: {later:?}");
        assert!(of("client_loop: send disconnect: Broken pipe").may_pass(), "cut");
    }

    #[test]
    fn texts_of_a_server_are_short_and_clean() {
        let failure = of(&format!("one\ntwo\n\x1b[31mthree{}\nfour\n", "!".repeat(1000)));
        assert!(failure.text.starts_with("ssh: two; [31mthree!!!"), "{}", failure.text);
        assert!(failure.text.len() < 1000 && failure.text.ends_with("four"), "{}", failure.text);
    }

    #[test]
    fn full_disk_is_recognized_by_the_words_of_a_server() {
        let status = |message: &str| Status {
            id: 1,
            status_code: StatusCode::Failure,
            error_message: message.to_owned(),
            language_tag: String::new(),
        };
        assert_eq!(Failure::of_status(&status("Disk quota exceeded")).kind, Kind::Full);
        let bare = Failure::of_status(&status("Failure"));
        assert_eq!((bare.kind, bare.meaning), (Kind::Storage, Meaning::Unnamed));
    }
}
