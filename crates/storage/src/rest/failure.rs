//! Failures of requests to a server of the protocol, and of the command `rclone`.

use std::process::ExitStatus;

use crate::error::Kind;
use crate::remote;
use crate::remote::network::{self, shown_location};
use crate::remote::unanswered::{Unanswered, tls_remedy};

/// The maximum number of lines of rclone that a message has.
const LINES_MAX: usize = 3;
/// The maximum length of such a line in a message, in characters.
const LINE_LEN_MAX: usize = 300;

/// The meaning of a failure for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another attempt may succeed. A request may have been carried out all the same.
    TryAgain,
    /// There is no such object.
    Missing,
    /// The server does not permit the operation, or the object exists already.
    Denied,
    /// Further attempts would fail as well.
    Final,
}

impl remote::Meaning for Meaning {
    const TRY_AGAIN: Meaning = Meaning::TryAgain;
    const FINAL: Meaning = Meaning::Final;

    fn kind(self) -> Kind {
        match self {
            Meaning::Missing => Kind::Missing,
            _ => Kind::Storage,
        }
    }
}

/// A failed request.
pub(super) type Failure = remote::Failure<Meaning>;

impl Failure {
    pub(super) fn corrupt(text: String) -> Failure {
        Failure { kind: Kind::Corrupt, ..Failure::new(Meaning::Final, text) }
    }

    /// Converts an answer that does not report success, with its text and what rclone has printed
    /// about the path of the request.
    pub(super) fn of_answer(status: u16, text: &str, printed: &str) -> Failure {
        let reason = match last_lines(printed) {
            reason if reason.is_empty() => shortened(text),
            reason => reason,
        };
        let answer = match reason.as_str() {
            "" => format!("the server answered {status}"),
            reason => format!("the server answered {status} ({reason})"),
        };
        let is_outage = network::is_outage(status) || has(&NETWORK_MARKS, printed);
        let of = |meaning| Failure { is_outage, ..Failure::new(meaning, answer.clone()) };
        if status == 507 || (status != 429 && is_full(&reason)) {
            return Failure { kind: Kind::Full, ..of(Meaning::Final) }.with_remedy(FULL);
        }
        match status {
            404 => Failure::new(Meaning::Missing, "not found"),
            401 => of(Meaning::Final).with_remedy(UNKNOWN_ACCOUNT),
            403 => of(Meaning::Denied).with_remedy(DENIED),
            // The cause of any of these may pass.
            408 | 425 | 429 | 500..=599 => match remedy_of(&ACCOUNT_REMEDIES, printed) {
                Some(remedy) => of(Meaning::TryAgain).with_remedy(remedy),
                None => of(Meaning::TryAgain),
            },
            _ => of(Meaning::Final).with_remedy(tls_remedy(status, text).unwrap_or(OTHER_SERVER)),
        }
    }

    /// Returns the failure of a server that answers in another way than the protocol has it.
    pub(super) fn of_other_server(text: impl Into<String>) -> Failure {
        Failure::new(Meaning::Final, text).with_remedy(OTHER_SERVER)
    }

    /// Returns the failure of a server that wants the request to be made elsewhere.
    pub(super) fn of_redirect(status: u16, location: Option<&str>) -> Failure {
        let location = location.map_or_else(|| "?".to_owned(), shown_location);
        let text = format!("the server answered {status}, a redirect to {location}");
        Failure::new(Meaning::Final, text).with_remedy(REDIRECTED)
    }

    /// Returns the failure of a place that holds a repository of restic.
    pub(super) fn of_restic() -> Failure {
        Failure::new(Meaning::Final, "a repository of restic is here").with_remedy(
            "choose another path: restic and cutpoint have the same names for different objects",
        )
    }

    /// Returns the failure of a server that cannot be reached or does not answer.
    pub(super) fn of_network(is_unreached: bool, unanswered: Unanswered) -> Failure {
        let remedy = unanswered.remedy.or(is_unreached.then_some(UNREACHABLE));
        Failure { remedy, ..Failure::outage(unanswered.text) }
    }

    /// Returns the failure of a command that has ended with `status`, and has printed `printed`. One
    /// that has answered a request was started as it should be, so that it may be started again.
    pub(super) fn of_command(
        status: Option<ExitStatus>,
        printed: &str,
        has_answered: bool,
    ) -> Failure {
        let text = match (last_lines(printed), status) {
            (lines, _) if !lines.is_empty() => format!("rclone: {lines}"),
            (_, Some(status)) => format!("rclone ended: {status}"),
            (_, None) => "rclone gave no answer".to_owned(),
        };
        let remedy = remedy_of(&COMMAND_REMEDIES, printed);
        match remedy.or_else(|| remedy_of(&ACCOUNT_REMEDIES, printed)) {
            Some(remedy) if !has_answered => Failure::new(Meaning::Final, text).with_remedy(remedy),
            _ => Failure::outage(text),
        }
    }
}

fn remedy_of(remedies: &[(&str, &'static str)], printed: &str) -> Option<&'static str> {
    let lower = printed.to_ascii_lowercase();
    remedies.iter().find(|(mark, _)| lower.contains(mark)).map(|(_, remedy)| *remedy)
}

/// Returns `true` for the reason of a place that is full. Many services call a limit of the rate of
/// requests a quota, too.
fn is_full(reason: &str) -> bool {
    has(&FULL_MARKS, reason) && !has(&RATE_MARKS, reason)
}

/// Returns `true` if a text has one of `marks`, which are in lower case.
fn has(marks: &[&str], text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    marks.iter().any(|mark| lower.contains(mark))
}

/// Returns the last lines that rclone has printed, without times, as one text. Notices are left out.
fn last_lines(printed: &str) -> String {
    let is_told = |line: &String| !line.is_empty() && !line.starts_with("NOTICE:");
    let lines: Vec<String> = printed.lines().map(without_time).map(shortened).collect();
    let lines: Vec<String> = lines.into_iter().filter(is_told).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("; ")
}

/// Returns a line of rclone without the time it begins with: `2026/11/24 03:43:21 `.
fn without_time(line: &str) -> &str {
    let is_time =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"/: ".contains(&byte));
    match line.split_at_checked(20) {
        Some((time, rest)) if is_time(time) => rest,
        _ => line,
    }
}

/// Returns a text as one short line without control characters.
fn shortened(text: &str) -> String {
    let clean = text.trim().chars().filter(|c| !c.is_control()).take(LINE_LEN_MAX);
    clean.collect()
}

/// Words for a place that is full, in the texts of servers and remotes.
const FULL_MARKS: [&str; 8] = [
    "no space left",
    "remaining disk space",
    "storage quota",
    "quotaexceeded",
    "disk quota exceeded",
    "insufficient storage",
    "disk full",
    "storage is full",
];
/// Words for a remote that rclone cannot reach.
const NETWORK_MARKS: [&str; 7] = [
    "dial tcp",
    "connection refused",
    "connection reset",
    "no such host",
    "no route to host",
    "network is unreachable",
    "i/o timeout",
];
/// Words for requests that come too often.
const RATE_MARKS: [&str; 6] =
    ["rate limit", "ratelimit", "rate_limit", "per minute", "per second", "too many requests"];
const FULL: &str = "free some space in the remote, or raise its quota, and run the same command \
                    again; what is stored is intact";
const UNKNOWN_ACCOUNT: &str = "the server wants another user or password: give them in the address, \
                               rest:https://USER:PASSWORD@HOST/PATH/, or in the variables \
                               CUTPOINT_REST_USER and CUTPOINT_REST_PASSWORD";
/// The remedy of a refused operation.
pub(super) const DENIED: &str = "if the server runs with --append-only, back up to it, and run \
                                 `cutpoint prune` over a server without that option; if it runs with \
                                 --private-repos, the path has to begin with the name of the user";
const OTHER_SERVER: &str = "the address has to be that of `rclone serve restic`, in version 1.40 or \
                            later; restic's own rest-server takes no other names than those of \
                            restic, so that it cannot hold this repository: run `rclone serve \
                            restic` on its folder, or use sftp:// or s3://";
const REDIRECTED: &str = "redirects are not followed, because a put would become a get: give the \
                          address at which the server itself answers (https:// instead of \
                          http://, no login page in between)";
const UNREACHABLE: &str = "check host, port and network, and that the server runs (`curl URL` tells); \
                           data stored so far is reused";
const NO_PROGRAM: &str = "install rclone (Debian: rclone), or name it with --rclone-command";
const NO_REMOTE: &str = "check the name of the remote: `rclone listremotes` shows those that exist, \
                         and `rclone config` adds one";
const ENCRYPTED: &str = "the configuration of rclone is encrypted: set RCLONE_CONFIG_PASS or \
                         RCLONE_PASSWORD_COMMAND";
const RECONNECT: &str = "the remote does not accept the credentials: `rclone config reconnect \
                         REMOTE:` asks for new ones, and `rclone lsd REMOTE:` has to work";
const DENIED_BY_REMOTE: &str = "the account of the remote may not do this: `rclone touch \
                                REMOTE:PATH/test` has to work with the same configuration";
const OLD: &str = "this version of rclone, or another program of --rclone-command, knows no `serve \
                   restic --stdio`: install rclone 1.40 or later";

/// What a shell or rclone prints before it serves, in lower case, and the remedy. The first that fits
/// counts.
const COMMAND_REMEDIES: [(&str, &str); 9] = [
    ("didn't find section in config file", NO_REMOTE),
    ("didn't find backend called", NO_REMOTE),
    ("unable to decrypt configuration", ENCRYPTED),
    ("rclone_config_pass", ENCRYPTED),
    ("couldn't decrypt configuration", ENCRYPTED),
    ("unknown flag", OLD),
    ("unknown command", OLD),
    ("rclone: not found", NO_PROGRAM),
    (": not found", NO_PROGRAM),
];

/// What rclone prints about the account of a remote.
const ACCOUNT_REMEDIES: [(&str, &str); 7] = [
    ("invalid_grant", RECONNECT),
    ("token expired", RECONNECT),
    ("unauthorized", RECONNECT),
    ("permission denied", DENIED_BY_REMOTE),
    ("accessdenied", DENIED_BY_REMOTE),
    ("read-only file system", DENIED_BY_REMOTE),
    ("access denied", DENIED_BY_REMOTE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Passing;

    #[test]
    fn failures_of_rclone_have_remedies_and_are_final() {
        for (printed, text, remedy) in [
            (
                "2026/11/24 03:53:11 NOTICE: Config file \"/x\" not found - using defaults\n\
                 2026/11/24 03:53:11 Failed to create file system for \"a:x\": didn't find section \
                 in config file\n",
                "rclone: Failed to create file system for \"a:x\": didn't find section",
                "rclone listremotes",
            ),
            ("sh: 1: exec: rclone: not found\n", "rclone: sh: 1: exec", "Debian: rclone"),
            ("Error: unknown flag: --stdio\n", "unknown flag", "1.40 or later"),
            ("Failed: couldn't fetch token - invalid_grant: maybe", "invalid_grant", "reconnect"),
        ] {
            let failure = Failure::of_command(None, printed, false);
            assert_eq!(failure.meaning, Meaning::Final, "{failure:?}");
            assert!(failure.text.contains(text) && !failure.text.contains("NOTICE"), "{failure:?}");
            assert!(failure.remedy.is_some_and(|found| found.contains(remedy)), "{failure:?}");
        }
        assert!(Failure::of_command(None, "", false).may_pass(), "it may have been killed");
        let old = "2026/11/24 03:53:11 ERROR : data/x: stat: /r/x: not found\n";
        assert!(Failure::of_command(None, old, true).may_pass(), "it has answered before");
    }

    #[test]
    fn answers_have_a_meaning_and_the_reason_of_rclone() {
        let of = |status| Failure::of_answer(status, "", "");
        assert_eq!(of(404).kind, Kind::Missing);
        assert_eq!((of(403).meaning, of(401).meaning), (Meaning::Denied, Meaning::Final));
        assert!(of(500).may_pass() && of(503).may_pass() && of(429).may_pass());
        assert!(of(405).remedy.is_some_and(|remedy| remedy.contains("rest-server")));
        assert_eq!(of(507).kind, Kind::Full);
        let printed = "2026/11/24 03:43:21 ERROR : data/x: Post request put error: write /r/x: no \
                       space left on device\n";
        let full = Failure::of_answer(500, "Internal Server Error", printed);
        assert_eq!((full.kind, full.meaning), (Kind::Full, Meaning::Final));
        assert!(full.text.contains("(ERROR : data/x: Post request put error"), "{full:?}");
        let long = Failure::of_answer(500, &format!("\x1b[31m{}", "x".repeat(9999)), "");
        assert!(long.text.len() < 400 && !long.text.contains('\x1b'), "{long:?}");
    }
}
