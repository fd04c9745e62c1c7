//! A service and a timer of systemd.

use std::path::Path;

use super::calendar::Calendar;
use super::job::Job;
use crate::exit::Failure;

/// The options of a service of the system. Nothing in them keeps the run from reading any file. The
/// file system is not protected any further, because repositories, reports and hooks may write
/// anywhere; devices are not hidden, because they may be sources.
const HARDENING: &str = "\
ProtectSystem=full
ProtectKernelTunables=yes
ProtectControlGroups=yes
NoNewPrivileges=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
";

/// The folders to which `ProtectSystem=full` forbids to write.
const PROTECTED: [&str; 4] = ["/usr", "/boot", "/efi", "/etc"];

/// Returns the units, each with its name.
///
/// # Errors
///
/// Fails if the path of this program has a character that systemd does not accept there.
pub(super) fn units(job: &Job, calendar: &Calendar) -> Result<Vec<(String, String)>, Failure> {
    let Job { profile, program, .. } = job;
    if program.contains(['"', '\'', '\\']) {
        let message = format!("{program}: systemd starts no program in a path with quotes");
        return Err(Failure::failed(message).with_remedy("move the program, or use --cron"));
    }
    let timer = format!(
        "[Unit]\n\
         Description=Times of backup {profile}\n\
         \n\
         [Timer]\n\
         OnCalendar={}\n\
         # A run that was missed because the machine was off is started once it is on again.\n\
         Persistent=true\n\
         \n\
         [Install]\n\
         WantedBy=timers.target\n",
        calendar.on_calendar()
    );
    Ok(vec![
        (format!("cutpoint-{profile}.service"), service(job)),
        (format!("cutpoint-{profile}.timer"), timer),
    ])
}

fn service(job: &Job) -> String {
    let mut text = format!("[Unit]\nDescription=Backup {}\n", job.profile);
    // The manager of a user has no such target.
    if job.is_remote && job.is_root {
        text.push_str("Wants=network-online.target\nAfter=network-online.target\n");
    }
    text.push_str(&format!(
        "\n[Service]\nType=oneshot\nExecStart={} run {} --config {}\n",
        quoted(&job.program),
        job.profile,
        quoted(&job.folder).replace('$', "$$"),
    ));
    for (name, value) in &job.variables {
        text.push_str(&format!("Environment={}\n", quoted(&format!("{name}={value}"))));
    }
    text.push_str(
        "Nice=10\n\
         IOSchedulingClass=best-effort\n\
         IOSchedulingPriority=7\n\
         # The program ends its hooks itself, stores what is on its way, and writes its report.\n\
         KillMode=mixed\n",
    );
    // The manager of a user could not apply most of them, or only in a namespace of users, in which
    // files of others cannot be read.
    if job.is_root {
        text.push_str(HARDENING);
        let is_protected =
            |path: &&String| PROTECTED.iter().any(|folder| Path::new(path).starts_with(folder));
        for path in job.written.iter().filter(is_protected) {
            text.push_str(&format!("ReadWritePaths={}\n", quoted(&format!("-{path}"))));
        }
    }
    text
}

/// Returns a word in quotes, as in systemd.syntax(7), without specifiers.
fn quoted(text: &str) -> String {
    let text = text.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// Returns the usual place of a unit.
pub(super) fn place(job: &Job, name: &str) -> String {
    let folder = if job.is_root { "/etc/systemd/system" } else { "~/.config/systemd/user" };
    format!("{folder}/{name}")
}

/// Returns the next steps.
pub(super) fn install(job: &Job) -> String {
    let (user, linger) = match job.is_root {
        true => ("", ""),
        false => (" --user", "; `loginctl enable-linger` lets it run without a login"),
    };
    format!(
        "Once the units are in {}: `systemctl{user} daemon-reload && systemctl{user} enable --now \
         cutpoint-{}.timer`{linger}.",
        place(job, "").trim_end_matches('/'),
        job.profile
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_systemd() {
        assert_eq!(quoted(r#"/a b/50%/"x"\y"#), r#""/a b/50%%/\"x\"\\y""#);
    }
}
