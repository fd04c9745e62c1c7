//! The help of the program: groups of commands, and topics.
//!
//! Every text is wrapped by clap at the width of the terminal. A paragraph is therefore one line
//! here; only lists and examples have lines of their own, which fit into 60 columns.

#[cfg(test)]
mod tests;

use anyhow::Result;
use clap::{Args as _, CommandFactory};
use cutpoint_terminal::help::{self, Manual, Topic};

use super::{Args, Global};
use crate::exit::{self, Exit};

/// The help of the program.
pub(crate) const MANUAL: Manual = Manual {
    program: "cutpoint",
    groups: &GROUPS,
    groups_in_short_help: 2,
    topics: &TOPICS,
    parser: Args::command,
    common_options: Global::augment_args,
};

/// The groups of commands, in the order of `cutpoint --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Every day",
        &[
            "init",
            "backup",
            "snapshots",
            "ls",
            "find",
            "diff",
            "cat",
            "dump",
            "mount",
            "restore",
            "run",
        ],
    ),
    (
        "Care",
        &[
            "check", "repair", "forget", "hold", "tag", "prune", "optimize", "rewrite", "config",
            "schedule",
        ],
    ),
    ("Other repositories, virtual disks", &["copy", "import", "volume"]),
    ("Access", &["key", "doctor"]),
    ("Look inside", &["serve", "stats", "debug", "estimate", "cut"]),
    ("Program", &["cache", "version", "completions", "man"]),
];

/// The topics, in the order of `cutpoint --help`.
const TOPICS: [Topic; 10] = [
    Topic {
        name: "options",
        about: "Options common to all commands",
        has_options: true,
        paragraphs: &[OPTIONS],
    },
    Topic {
        name: "selection",
        about: "Names of snapshots, and paths in them",
        has_options: false,
        paragraphs: &[SELECTION],
    },
    Topic {
        name: "secrets",
        about: "Passphrases and keys",
        has_options: false,
        paragraphs: &[SECRETS],
    },
    Topic {
        name: "profiles",
        about: "Files that say what `cutpoint run` does",
        has_options: false,
        paragraphs: &[PROFILES],
    },
    Topic {
        name: "s3",
        about: "Repositories in an object storage",
        has_options: false,
        paragraphs: &[S3],
    },
    Topic {
        name: "clouds",
        about: "Repositories in Azure or Google Cloud Storage",
        has_options: false,
        paragraphs: &[CLOUDS],
    },
    Topic {
        name: "sftp",
        about: "Repositories on an SSH server",
        has_options: false,
        paragraphs: &[SFTP],
    },
    Topic {
        name: "rclone",
        about: "Repositories in a remote of rclone, or on a REST server",
        has_options: false,
        paragraphs: &[RCLONE],
    },
    Topic {
        name: "patterns",
        about: "Patterns that exclude files",
        has_options: false,
        paragraphs: &[help::PATTERNS],
    },
    Topic {
        name: "exit-codes",
        about: "Exit codes and their meanings",
        has_options: false,
        paragraphs: &[exit::TABLE, EXIT_CODES],
    },
];

const OPTIONS: &str = "\
SIZE is a number of bytes, with an optional unit: k, M, G or T (powers of 1024), for example 128k \
or 16MiB.

The passphrase can come from several sources: see `cutpoint help secrets`.";

const SELECTION: &str = "\
A snapshot is named in one of these forms:

  5f3a91c0          its ID, or the first digits (at least four)
  latest            the newest snapshot
  latest~2          the second snapshot before the newest
  2026-11-20        the newest snapshot at the end of that day
  2026-11-20T14:30  the newest snapshot at the end of that minute

The time of a snapshot is the start of its backup. A date is local time, or UTC with a Z at its end. \
It can have seconds (14:30:59), and a space instead of the T. A note says which snapshot was taken. \
Snapshots of interrupted runs are only found by their IDs. A copy (`cutpoint copy`) is also found \
by the ID of its original, and an imported snapshot by the ID of the other program.

--host, --tag and --path restrict all forms to snapshots of a machine, with a tag, or of a path. \
--path compares with the paths that were given to `cutpoint backup`, not with files below them.

A path in a snapshot follows a colon. It starts at the root of the snapshot if it begins with a `/`, \
and in the current folder if it begins with `./` or `../` or is `.` or `..`. Any other path starts \
at the root, or in the current folder if the root has no such path.

Examples:
  cutpoint ls latest:.
  cutpoint cat latest~1:./notes.txt --path ~/docs
  cutpoint restore 2026-11-20:/srv/shop --host web1 --to old
  cutpoint diff '2026-11-20 14:30' latest";

const SECRETS: &str = "\
The passphrase or key comes from the first of these that is given:

  --key-file FILE               a key file or a recovery kit
  --passphrase-file FILE        a file with the passphrase
  --passphrase-command COMMAND  the output of a command
  CUTPOINT_PASSPHRASE           an environment variable

If none is given, the program asks for the passphrase on the terminal.

`cutpoint help options` describes these options. A new passphrase of `cutpoint key` comes from its \
own options, else from CUTPOINT_NEW_PASSPHRASE, else from the terminal. That of the repository \
from which `cutpoint copy` reads comes from --from-key-file and the like, else from \
CUTPOINT_FROM_PASSPHRASE, else from the terminal.";

const PROFILES: &str = "\
A profile is the file ~/.config/cutpoint/NAME.toml (in XDG_CONFIG_HOME, or the folder of --config or \
CUTPOINT_CONFIG):

  repository  = \"sftp://me@nas/backup\"
  key-file    = \"~/.config/cutpoint/machine.key\"
  sources     = [\"~\", \"/etc\"]
  check       = \"5%\"
  metrics     = \"/var/lib/node-exporter/home.prom\"

  [backup]
  exclude         = [\"*.iso\", \"~/Downloads/\"]
  exclude-caches  = true

  [forget]
  keep-daily    = 7
  keep-monthly  = 12

  [prune]

  [hooks]
  before      = \"pg_dump -f ~/shop.sql shop\"
  on-failure  = \"mail -s \\\"$CUTPOINT_SUMMARY\\\" me\"

A key in the tables backup, forget and prune is the option of that name, without the two hyphens before it. A \
switch is true or false; an option that can be repeated has a value or a list. Paths are absolute or \
begin with ~/. An unknown key is an error.

A part that has no table, and no check key, is not done. The rules of forget apply to the snapshots \
of this host with these sources, unless the table has host, path or tag. A profile holds no secret: \
it names a file or a command that has it.

Hooks are executed by `sh -c`, with CUTPOINT_PROFILE, CUTPOINT_REPO, CUTPOINT_RUN_ID and \
CUTPOINT_HOOK in the environment, and `after` and `on-failure` also with CUTPOINT_EXIT_CODE, \
CUTPOINT_SNAPSHOT, CUTPOINT_SUMMARY, and the report at standard input. If `before` fails, only \
`on-failure` follows; `after` is executed in any other case.

The page Profiles of the book lists all keys, and has recipes for mail, web hooks and keyrings.";

const S3: &str = "\
--repo s3://BUCKET/PREFIX names a repository in a bucket, which must exist.

Credentials are never given on the command line. They come from AWS_ACCESS_KEY_ID and \
AWS_SECRET_ACCESS_KEY, from a profile (AWS_PROFILE, ~/.aws), from a web identity, or from the \
container or machine.

They need the permissions to list the bucket, and to get and put objects. Only prune, optimize and \
the removal of keys need the permission to delete objects; the first two ask a bucket that keeps \
versions for the locks of objects, and need the permissions for that, too.

AWS needs only the region. --s3-endpoint names another server.

`cutpoint doctor` tests a location before it holds a repository.

Examples:
  cutpoint doctor -r s3://bucket/backup
  cutpoint init -r s3://bucket/backup --s3-region eu-north-1
  cutpoint backup ~ -r s3://bucket/backup \\
    --s3-endpoint https://s3.example.org";

const CLOUDS: &str = "\
--repo azure://CONTAINER/PREFIX names a repository in Azure Blob Storage, and --repo \
gs://BUCKET/PREFIX one in Google Cloud Storage. The container or bucket must exist.

Credentials are never given on the command line. Those of Azure come from

  AZURE_STORAGE_ACCOUNT    the name of the storage account
  AZURE_STORAGE_KEY        its key, or
  AZURE_STORAGE_SAS_TOKEN  a shared access signature

or from AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or from the managed identity of the \
machine. Those of Google come from the file that GOOGLE_APPLICATION_CREDENTIALS names, from `gcloud \
auth application-default login`, or from the machine.

Objects are created atomically, so that several machines can share a repository. `cutpoint doctor` \
tests a location before it holds a repository.

Other storage services are remotes of rclone (`cutpoint help rclone`), WebDAV among them.

Examples:
  cutpoint doctor -r azure://box/backup
  cutpoint init -r gs://bucket/backup
  cutpoint backup ~ -r gs://bucket/backup";

const SFTP: &str = "\
--repo sftp://USER@HOST:PORT/PATH names a folder on an SSH server:

  sftp://me@nas/backup       the folder backup in the home folder of me
  sftp://me@nas//srv/backup  the folder /srv/backup: a second / makes the path absolute
  sftp://nas/backup          user and port as in ~/.ssh/config

The program runs `ssh`, so that keys, agents, jump hosts and known hosts are those of `ssh`. If `ssh \
HOST` works without a question, so do backups that no one watches. --ssh-command, or the variable \
CUTPOINT_SSH_COMMAND, replaces the command.

The server needs no program but SFTP, and the account no shell. `cutpoint init` creates the folder.

`cutpoint doctor` tests a location, and says what follows if a server lacks an extension of OpenSSH.

Examples:
  cutpoint doctor -r sftp://me@nas/backup
  cutpoint init -r sftp://me@nas/backup
  cutpoint backup ~ -r sftp://me@nas/backup \\
    --ssh-command 'ssh -i ~/.ssh/backup_key'";

const RCLONE: &str = "\
--repo rclone:REMOTE:PATH names a path in a remote of rclone, which `rclone config` sets up for some \
70 storage services. The program runs `rclone serve restic --stdio`; --rclone-command, or the \
variable CUTPOINT_RCLONE_COMMAND, replaces the command. If `rclone lsd REMOTE:` works without a \
question, so do backups that no one watches.

--repo rest:URL names a server that speaks restic's REST protocol: `rclone serve restic` on another \
machine. The rest-server of restic takes only objects of restic. User and password are part of the \
URL, or come from CUTPOINT_REST_USER and CUTPOINT_REST_PASSWORD. For --from of `cutpoint copy` and \
--like of `cutpoint init`, they come from CUTPOINT_FROM_REST_USER and CUTPOINT_FROM_REST_PASSWORD.

The protocol creates objects in two steps, so that prune needs --exclusive, and interrupted runs are \
not resumed. Backups of several machines may run at the same time.

The files are those of a repository in a folder, which `rclone copy` moves to a remote and back.

Examples:
  cutpoint doctor -r rclone:drive:backup
  cutpoint init -r rclone:drive:backup
  cutpoint backup ~ -r rclone:drive:backup \\
    --rclone-command 'rclone --bwlimit 5M'
  cutpoint prune --exclusive -r rest:https://me@nas:8000/a/";

const EXIT_CODES: &str = "\
Code 1 stands for files that could not be read, that changed while they were read, or that could not \
be restored, and for the findings of a check. Everything else was done.";

/// Print help for a command or a topic
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  cutpoint help backup
  cutpoint help key add
  cutpoint help options")]
pub(crate) struct Help {
    /// Command with its subcommand, or topic [default: an overview]
    #[arg(value_name = "COMMAND|TOPIC")]
    names: Vec<String>,
}

impl Help {
    /// Prints the page.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Manual::print`].
    pub(crate) fn print(&self) -> Result<Exit> {
        MANUAL.print(&self.names)
    }
}
