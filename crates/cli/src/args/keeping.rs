//! The arguments of the commands that keep backups running.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Args as ClapArgs};

use crate::units::parse_wait;

/// Back up, forget, prune and check as a profile says
///
/// Does what the profile NAME.toml says, in this order: the hook `before`, backup, forget, prune,
/// check, the hook `after`, and if anything went wrong, the hook `on-failure`. Without NAME, lists the
/// profiles. `cutpoint help profiles` explains the file.
///
/// If the backup fails, forget, prune and check are skipped. Otherwise, a part that fails does not
/// stop the others. The exit code is the highest of the parts: 1 if problems were reported. A run
/// that is interrupted still executes `after` and `on-failure`, within 30 seconds.
///
/// Two runs of one profile never overlap: the second one ends with exit code 15, or with 0 if
/// --if-older-than is given.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint run
      Lists the profiles and their repositories.
  cutpoint run home
  cutpoint run home --dry-run
      Shows what each part would do, and changes nothing.
  cutpoint run home --if-older-than 20h --quiet
      For cron: only if the last backup is older.
  cutpoint run home --report /var/log/home.json")]
pub(crate) struct Run {
    /// Profile to run
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Show what would be done, and change nothing
    ///
    /// Backup, forget and prune are dry runs. Hooks and checks are only named, and neither report
    /// nor metrics are written. The dry run of prune does not count what forget would remove.
    #[arg(long, short = 'n', requires = "name")]
    pub(crate) dry_run: bool,
    /// Do nothing if a backup of the profile began less than TIME ago
    ///
    /// TIME is a form such as 90min, 20h or 7d. Only a backup that has made a snapshot counts, or
    /// found nothing to save. The time is remembered on this machine.
    #[arg(long, value_name = "TIME", value_parser = parse_wait, requires = "name")]
    pub(crate) if_older_than: Option<i64>,
    /// Write a report of the run to FILE, as JSON
    ///
    /// The report is the summary of --json. FILE is replaced at the end of the run, also if the run
    /// fails. Without this option, the key `report` of the profile names the file.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) report: Option<PathBuf>,
    /// Write metrics of the run to FILE, for Prometheus
    ///
    /// In the text format, for the textfile collector of node_exporter, whose FILE ends in .prom.
    /// Each profile needs a file of its own. FILE is replaced at the end of the run, also if the run
    /// fails; the time of the last success stays then. Without this option, the key `metrics` of
    /// the profile names the file.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) metrics: Option<PathBuf>,
    /// The folder of profiles.
    #[command(flatten)]
    pub(crate) folder: ConfigFolder,
}

/// The folder of profiles.
#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigFolder {
    /// Read profiles from FOLDER [default: ~/.config/cutpoint]
    ///
    /// The default is in XDG_CONFIG_HOME, if that is set. The variable CUTPOINT_CONFIG names another
    /// folder.
    // An empty variable counts as unset, as for CUTPOINT_REPO.
    #[arg(long, value_name = "FOLDER", env = "CUTPOINT_CONFIG", hide_env = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) config: Option<PathBuf>,
}

/// Print units of systemd or lines of cron that run a profile
///
/// The units or lines contain all that they need, also in an empty environment. Missed runs are
/// caught up: systemd starts a missed run once the machine is on again (Persistent=true); of the
/// lines of cron, one looks every hour whether the last backup is too old.
///
/// For root, the units are for the system, otherwise for the user, who needs `loginctl
/// enable-linger` for runs without a login.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint schedule home --systemd --at 'daily 02:30'
  cutpoint schedule home --systemd \\
    --to ~/.config/systemd/user
  systemctl --user enable --now cutpoint-home.timer
      Writes the units into a folder, and starts the timer.
  cutpoint schedule home --systemd --at 'Mon..Fri 12:00'
  cutpoint schedule home --cron --at 'sun 03:00'
      For `crontab -e`.")]
#[command(group = ArgGroup::new("system").args(["systemd", "cron"]).required(true))]
pub(crate) struct Schedule {
    /// Profile to run
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print a service and a timer of systemd
    #[arg(long)]
    pub(crate) systemd: bool,
    /// Print lines for a crontab
    #[arg(long)]
    pub(crate) cron: bool,
    /// Run at TIME [default: daily 02:30]
    ///
    /// TIME is `hourly`, `hourly :15`, `daily 02:30`, a day or several such as `sun 03:00` or
    /// `mon,thu 22:15`, or `monthly 1 04:00`. With --systemd, it can also be an expression of
    /// OnCalendar (`man systemd.time`).
    #[arg(long, value_name = "TIME", default_value = "daily 02:30", hide_default_value = true)]
    pub(crate) at: String,
    /// Write the units into FOLDER instead of printing them
    ///
    /// Existing units of these names are replaced.
    #[arg(long, value_name = "FOLDER", conflicts_with = "cron")]
    pub(crate) to: Option<PathBuf>,
    /// The folder of profiles.
    #[command(flatten)]
    pub(crate) folder: ConfigFolder,
}
