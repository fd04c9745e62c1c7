//! Lines of a crontab.

use super::calendar::Calendar;
use super::job::Job;
use crate::exit::Failure;

/// The next steps.
pub(super) const INSTALL: &str =
    "Add these lines by `crontab -e`. Cron sends by mail what a run reports.";

/// Returns the lines: one for the runs, and one that catches up a missed run.
///
/// # Errors
///
/// Fails for an expression of systemd.
pub(super) fn lines(job: &Job, calendar: &Calendar) -> Result<String, Failure> {
    let fields = calendar.cron_fields().ok_or_else(|| {
        let message = format!("--at: {:?} is an expression of systemd", calendar.on_calendar());
        Failure::failed(message).with_remedy(
            "for cron, use a form such as `hourly`, `daily 02:30`, `sun 03:00` or `monthly 1 04:00`",
        )
    })?;
    let command = command(job);
    let mut text = format!("{fields} {command}\n");
    if let Some(hours) = calendar.missed_after_hours() {
        let minute = calendar.other_minute();
        text.push_str(&format!(
            "# Catches up a run that was missed because the machine was off:\n\
             {minute} * * * * {command} --if-older-than {hours}h\n"
        ));
    }
    Ok(text)
}

fn command(job: &Job) -> String {
    // HOME of cron is that of the user database, which can be another one.
    let variables = job.variables.iter().map(|(name, value)| format!("{name}={} ", quoted(value)));
    let text = format!(
        "{}nice -n 10 {} run {} --quiet --config {}",
        variables.collect::<String>(),
        quoted(&job.program),
        job.profile,
        quoted(&job.folder)
    );
    // A percent sign ends the command of a line, even in quotes.
    text.replace('%', "\\%")
}

/// Returns a word for the shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@,".contains(&byte);
    if text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_cron() {
        assert_eq!(quoted("/usr/bin/cutpoint"), "/usr/bin/cutpoint");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
