//! The arguments of the commands that change which snapshots are kept, and how they are marked.

use std::ffi::OsString;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_repository::snapshots::retention::{Grouping, Period, Policy, Span};

use super::Selection;
use crate::units::{parse_count, parse_span};

/// Remove snapshots from the list, or undo that
///
/// A forgotten snapshot is no longer listed, but nothing of it is deleted. Until a prune removes
/// it, --undo brings it back. Held snapshots are never forgotten (see `cutpoint hold`).
///
/// Rules apply to each group of snapshots by itself: to the snapshots of one host with the same
/// paths, unless --group-by says otherwise. For example, --keep-daily 7 keeps the newest snapshot
/// of each of the newest seven days that have any. Rules are independent of each other: a snapshot
/// is kept if any rule keeps it. While a rule keeps fewer snapshots than its number allows, the
/// oldest snapshot of the group is also kept. TIME counts back from the newest snapshot of the
/// group, not from now, so that a machine without new backups keeps its history.
///
/// A snapshot with a date in the future is kept, and does not count for any rule. Neither does the
/// snapshot of an interrupted run: it is kept while no later snapshot is complete, and where its
/// hour, day, week, month or year has no complete one. An incomplete snapshot, of which a path was
/// missing, never takes the place of a complete one: rules keep complete snapshots as if there were
/// no others, and incomplete ones in addition.
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "\
Examples:
  cutpoint forget --keep-daily 7 --keep-monthly 12 --dry-run
  cutpoint forget 5f3a91c0 eba45d5d
  cutpoint forget --undo --last",
    before_long_help = "\
Examples:
  cutpoint forget --keep-daily 7 --keep-monthly 12 --dry-run
      Shows which rule keeps each snapshot.
  cutpoint forget --keep-within 1m --keep-within-weekly 1y \\
    --keep-tag release
  cutpoint forget --host laptop --path /home --keep-last 3
  cutpoint forget 5f3a91c0 eba45d5d
  cutpoint forget --undo 5f3a91c0
  cutpoint forget --undo --last
      Brings back everything that the last forget removed."
)]
pub(crate) struct Forget {
    /// Forget these snapshots
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<OsString>,
    /// Show what would be done, and change nothing
    #[arg(long, short = 'n', conflicts_with = "undo")]
    pub(crate) dry_run: bool,
    /// Bring back the given snapshots, or those of --last
    #[arg(long)]
    pub(crate) undo: bool,
    /// With --undo: bring back what the last forget removed
    #[arg(long, requires = "undo", conflicts_with = "snapshots")]
    pub(crate) last: bool,
    /// The snapshots to which rules apply, or among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Group snapshots by these [default: host,paths]
    #[arg(long, value_name = "KEY", value_enum, value_delimiter = ',')]
    pub(crate) group_by: Vec<GroupBy>,
    /// Let rules forget all snapshots of a group
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// The rules.
    #[command(flatten)]
    pub(crate) keep: Keep,
    /// The promise that --undo needs on some storage.
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Set in a run of a profile, which makes a backup before.
    #[arg(skip)]
    pub(crate) follows_backup: bool,
}

/// The promise that no other client is active.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub(crate) struct Alone {
    /// Promise that no other client is active
    ///
    /// On storage that cannot create objects atomically, such as rclone, holding, releasing and
    /// bringing back need this option, as prune does: of two such changes at once, one would be
    /// lost. The command fails (exit code 15) while a run that is not known to be dead has renewed
    /// its ticket within 3 hours.
    #[arg(long, hide_short_help = true)]
    pub(crate) exclusive: bool,
    /// Do not ask for confirmation of --exclusive
    #[arg(long, short = 'y', requires = "exclusive", hide_short_help = true)]
    pub(crate) yes: bool,
}

/// The rules by which `forget` keeps snapshots.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Rules (N: a number or `all`; TIME: 1y6m, 2w, 3d12h)")]
pub(crate) struct Keep {
    /// Keep the last N snapshots
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_last: Option<u32>,
    /// Keep the newest of each of the last N hours
    ///
    /// Only hours that have a snapshot count; the same holds for days, weeks, months and years
    /// below.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_hourly: Option<u32>,
    /// Keep the newest of each of the last N days
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_daily: Option<u32>,
    /// Keep the newest of each of the last N weeks
    ///
    /// Weeks begin on Monday.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_weekly: Option<u32>,
    /// Keep the newest of each of the last N months
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_monthly: Option<u32>,
    /// Keep the newest of each of the last N years
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_yearly: Option<u32>,
    /// Keep all snapshots within TIME
    ///
    /// TIME counts back from the newest snapshot of the group. Its units are y (years), m (months),
    /// w (weeks), d (days) and h (hours).
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within: Option<Span>,
    /// Keep the newest of each hour within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_hourly: Option<Span>,
    /// Keep the newest of each day within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_daily: Option<Span>,
    /// Keep the newest of each week within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_weekly: Option<Span>,
    /// Keep the newest of each month within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_monthly: Option<Span>,
    /// Keep the newest of each year within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_yearly: Option<Span>,
    /// Keep snapshots with this tag; repeatable
    ///
    /// If the option is repeated, a snapshot is kept if it has any of the tags.
    #[arg(long, value_name = "TAG")]
    keep_tag: Vec<String>,
}

impl Keep {
    /// Returns the rules.
    pub(crate) fn policy(&self) -> Policy {
        let counts = [
            self.keep_last,
            self.keep_hourly,
            self.keep_daily,
            self.keep_weekly,
            self.keep_monthly,
            self.keep_yearly,
        ];
        let spans = [
            self.keep_within,
            self.keep_within_hourly,
            self.keep_within_daily,
            self.keep_within_weekly,
            self.keep_within_monthly,
            self.keep_within_yearly,
        ];
        Policy {
            counts: Period::ALL.into_iter().zip(counts).filter_map(given).collect(),
            spans: Period::ALL.into_iter().zip(spans).filter_map(given).collect(),
            tags: self.keep_tag.clone(),
        }
    }
}

fn given<T>((period, value): (Period, Option<T>)) -> Option<(Period, T)> {
    value.map(|value| (period, value))
}

/// A property in which the snapshots of a group agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// The machine
    Host,
    /// The saved paths
    Paths,
    /// All tags
    Tags,
    /// Nothing: all snapshots form one group
    None,
}

impl GroupBy {
    /// Returns the grouping by all of `given`, or the default if there are none.
    pub(crate) fn grouping(given: &[GroupBy]) -> Grouping {
        if given.is_empty() {
            return Grouping::default();
        }
        Grouping {
            by_host: given.contains(&GroupBy::Host),
            by_paths: given.contains(&GroupBy::Paths),
            by_tags: given.contains(&GroupBy::Tags),
        }
    }
}

/// Protect snapshots from forget and prune
///
/// No rule forgets a held snapshot, and no prune removes it, even if it was forgotten before. If a
/// prune has removed it already, the command reports that.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint hold latest --path /srv/shop
  cutpoint hold 5f3a91c0 eba45d5d
  cutpoint hold --release 5f3a91c0")]
pub(crate) struct Hold {
    /// Hold these snapshots
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) snapshots: Vec<OsString>,
    /// Release the snapshots instead
    #[arg(long)]
    pub(crate) release: bool,
    /// The promise that the command needs on some storage.
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Change tags and descriptions of snapshots
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint tag latest --add release --remove nightly
  cutpoint tag 5f3a91c0 eba45d5d --set archive
  cutpoint tag 5f3a91c0 --clear
  cutpoint tag 5f3a91c0 --description 'before the move'")]
pub(crate) struct Tag {
    /// Change these snapshots
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) snapshots: Vec<OsString>,
    /// Add a tag; repeatable
    #[arg(long, value_name = "TAG")]
    pub(crate) add: Vec<String>,
    /// Remove a tag; repeatable
    #[arg(long, value_name = "TAG")]
    pub(crate) remove: Vec<String>,
    /// Replace all tags by this one; repeatable
    #[arg(long, value_name = "TAG", conflicts_with_all = ["add", "remove", "clear"])]
    pub(crate) set: Vec<String>,
    /// Remove all tags
    #[arg(long, conflicts_with_all = ["add", "remove"])]
    pub(crate) clear: bool,
    /// Set the description; an empty TEXT removes it
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}
