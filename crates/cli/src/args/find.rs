//! The arguments of `find`.

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_backup::source::PathPattern;
use cutpoint_repository::{EntryKind, Time};

use super::Selection;
use crate::units::{parse_date, parse_large_size};

/// Find files in snapshots by name
///
/// All snapshots are searched, or those that --host, --path and --tag select. A line stands for a
/// version of an entry: its size, its time, the number of snapshots that have it, the first and the
/// last of these, and its path. Snapshots have the same version if path, kind, size and time
/// are the same, and the content or the time of the last metadata change (ctime) as well; for a
/// folder, if path and time are the same.
///
/// PATTERN follows the rules of `cutpoint help patterns`: without a slash, it matches names; with a
/// slash that is not at its end, it matches whole paths from the root on.
///
/// DATE is a day (2026-11-20) or a minute (2026-11-20T14:30) of local time, or of UTC with a Z at
/// its end.
///
/// The exit code is 0 even if nothing is found. It is 1 if a part of a snapshot cannot be read.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint find '*.odt'
      Finds by name, in all folders of all snapshots.
  cutpoint find /home/me/todo.txt
      Lists all versions of one file.
  cutpoint find '/srv/**/*.log' --size +10M --host web
  cutpoint find '*' --type f --newer 2026-11-20 --json")]
pub(crate) struct Find {
    /// Name, path or pattern to find
    #[arg(value_name = "PATTERN", value_parser = PathPattern::parse)]
    pub(crate) pattern: PathPattern,
    /// Find files larger (+SIZE), smaller (-SIZE) or equal (SIZE); repeatable
    ///
    /// SIZE is a number of bytes, with an optional unit: k, M, G or T (powers of 1024). If the
    /// option is repeated, a file must fulfil all conditions.
    #[arg(long = "size", value_name = "[+-]SIZE", value_parser = parse_size_condition,
        allow_hyphen_values = true)]
    pub(crate) sizes: Vec<SizeCondition>,
    /// Find entries that were modified at DATE or later
    #[arg(long, value_name = "DATE", value_parser = parse_time)]
    pub(crate) newer: Option<Time>,
    /// Find entries that were modified before DATE
    #[arg(long, value_name = "DATE", value_parser = parse_time)]
    pub(crate) older: Option<Time>,
    /// Find only entries of this kind
    #[arg(long = "type", value_enum, value_name = "KIND")]
    pub(crate) kind: Option<KindArg>,
    /// The snapshots to search.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// A condition on the size of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeCondition {
    Above(u64),
    Below(u64),
    Equal(u64),
}

impl SizeCondition {
    /// Returns `true` if `size` fulfils the condition.
    pub(crate) fn accepts(self, size: u64) -> bool {
        match self {
            SizeCondition::Above(limit) => size > limit,
            SizeCondition::Below(limit) => size < limit,
            SizeCondition::Equal(expected) => size == expected,
        }
    }
}

/// A kind of entries.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KindArg {
    /// Regular files
    #[value(name = "f", alias = "file")]
    File,
    /// Folders
    #[value(name = "d", aliases = ["folder", "dir"])]
    Folder,
    /// Symbolic links
    #[value(name = "l", aliases = ["link", "symlink"])]
    Symlink,
}

impl From<KindArg> for EntryKind {
    fn from(arg: KindArg) -> EntryKind {
        match arg {
            KindArg::File => EntryKind::File,
            KindArg::Folder => EntryKind::Folder,
            KindArg::Symlink => EntryKind::Symlink,
        }
    }
}

fn parse_size_condition(text: &str) -> Result<SizeCondition, String> {
    Ok(match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(size), _) => SizeCondition::Above(parse_large_size(size)?),
        (_, Some(size)) => SizeCondition::Below(parse_large_size(size)?),
        _ => SizeCondition::Equal(parse_large_size(text)?),
    })
}

fn parse_time(text: &str) -> Result<Time, String> {
    Ok(Time { seconds: parse_date(text)?, nanoseconds: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_conditions_exclude_their_limit() {
        for (text, below, equal, above) in
            [("+1k", false, false, true), ("-1k", true, false, false), ("1k", false, true, false)]
        {
            let condition = parse_size_condition(text).expect(text);
            let accepted = [1023, 1024, 1025].map(|size| condition.accepts(size));
            assert_eq!(accepted, [below, equal, above], "{text}");
        }
        for text in ["", "+", "--1k", "+-1", "1x"] {
            assert!(parse_size_condition(text).is_err(), "{text:?} was taken for a condition");
        }
    }
}
