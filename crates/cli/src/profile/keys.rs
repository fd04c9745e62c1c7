//! The keys of a profile. A key that has the name of an option means that option.

/// The treatment of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The value of an option.
    Plain,
    /// A path: absolute, or beginning with `~/`.
    Path,
    /// A pattern that excludes files, in which a leading `~/` is the home folder.
    Pattern,
    /// The place of a repository: a folder like [`Kind::Path`], or an address.
    Place,
    /// A path that is no option.
    OwnPath,
    /// A list of commands for the shell.
    Commands,
    /// The part of the data that a check reads.
    Portion,
}

/// A key of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The table of the key; empty for the keys in front of all tables.
    pub(crate) table: &'static str,
    /// The name of the key.
    pub(crate) name: &'static str,
    /// The treatment of the value.
    pub(crate) kind: Kind,
}

impl Key {
    /// Returns the name of the option that has the same meaning.
    pub(crate) fn option(&self) -> &'static str {
        if self.kind == Kind::Place { "repo" } else { self.name }
    }

    /// Returns `true` if the key is an option of a command, or a common option.
    pub(crate) fn is_option(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Path | Kind::Pattern | Kind::Place)
    }
}

/// The tables of a profile. All but the last have the names of commands.
pub(crate) const TABLES: [&str; 4] = ["backup", "forget", "prune", "hooks"];

const fn key(table: &'static str, name: &'static str, kind: Kind) -> Key {
    Key { table, name, kind }
}

/// All keys, in the order of their documentation.
pub(crate) const KEYS: [Key; 61] = [
    key("", "repository", Kind::Place),
    key("", "key-file", Kind::Path),
    key("", "passphrase-file", Kind::Path),
    key("", "passphrase-command", Kind::Plain),
    key("", "key-id", Kind::Plain),
    key("", "kdf-limit", Kind::Plain),
    key("", "s3-endpoint", Kind::Plain),
    key("", "s3-region", Kind::Plain),
    key("", "ssh-command", Kind::Plain),
    key("", "no-cache", Kind::Plain),
    key("", "limit-upload", Kind::Plain),
    key("", "limit-download", Kind::Plain),
    key("", "memory-max", Kind::Plain),
    key("", "low-priority", Kind::Plain),
    key("", "sources", Kind::OwnPath),
    key("", "check", Kind::Portion),
    key("", "report", Kind::OwnPath),
    key("", "metrics", Kind::OwnPath),
    key("backup", "exclude", Kind::Pattern),
    key("backup", "iexclude", Kind::Pattern),
    key("backup", "exclude-file", Kind::Path),
    key("backup", "exclude-caches", Kind::Plain),
    key("backup", "exclude-if-present", Kind::Plain),
    key("backup", "exclude-larger-than", Kind::Plain),
    key("backup", "git-ignore", Kind::Plain),
    key("backup", "no-ignore-files", Kind::Plain),
    key("backup", "one-file-system", Kind::Plain),
    key("backup", "as-path", Kind::Path),
    key("backup", "tag", Kind::Plain),
    key("backup", "description", Kind::Plain),
    key("backup", "host", Kind::Plain),
    key("backup", "skip-if-unchanged", Kind::Plain),
    key("backup", "force-read", Kind::Plain),
    key("backup", "ignore-inode", Kind::Plain),
    key("backup", "ignore-ctime", Kind::Plain),
    key("backup", "verify-write", Kind::Plain),
    key("backup", "threads", Kind::Plain),
    key("forget", "keep-last", Kind::Plain),
    key("forget", "keep-hourly", Kind::Plain),
    key("forget", "keep-daily", Kind::Plain),
    key("forget", "keep-weekly", Kind::Plain),
    key("forget", "keep-monthly", Kind::Plain),
    key("forget", "keep-yearly", Kind::Plain),
    key("forget", "keep-within", Kind::Plain),
    key("forget", "keep-within-hourly", Kind::Plain),
    key("forget", "keep-within-daily", Kind::Plain),
    key("forget", "keep-within-weekly", Kind::Plain),
    key("forget", "keep-within-monthly", Kind::Plain),
    key("forget", "keep-within-yearly", Kind::Plain),
    key("forget", "keep-tag", Kind::Plain),
    key("forget", "group-by", Kind::Plain),
    key("forget", "host", Kind::Plain),
    key("forget", "path", Kind::Path),
    key("forget", "tag", Kind::Plain),
    key("prune", "unused-max", Kind::Plain),
    key("prune", "rewrite-max", Kind::Plain),
    key("prune", "settle", Kind::Plain),
    key("prune", "wait", Kind::Plain),
    key("hooks", "before", Kind::Commands),
    key("hooks", "after", Kind::Commands),
    key("hooks", "on-failure", Kind::Commands),
];

/// Returns the key of this name in a table.
pub(crate) fn find(table: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.table == table && key.name == name)
}
