//! What can be asked, and the help that teaches it.

#[cfg(feature = "estimate")]
mod estimate;
#[cfg(feature = "lab")]
mod lab;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use cutpoint_backup::restore::Overwrite;
use cutpoint_chunking::Level;
use cutpoint_store::check::Portion;
use cutpoint_store::format::config::BurstOptions;
use cutpoint_store::name::ObjectName;
use cutpoint_store::retention::{Grouping, Period, Policy, Span};
use cutpoint_store::seal::{KdfLimits, Suite};

#[cfg(feature = "estimate")]
pub(crate) use self::estimate::{Choice, Data, Estimate, Trace, Tune};
#[cfg(feature = "lab")]
pub(crate) use self::lab::{Lab, LabReport, LabRun, LabVerb};
use crate::defaults::{self, DEFAULT_CUT, Preset};
use crate::exit;
use crate::key_id;
use crate::units::{
    parse_count, parse_large_size, parse_percent, parse_portion, parse_size, parse_span,
    parse_wait, parse_whole_percent,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold());

const EXAMPLES: &str = "\
Examples:
  cutpoint backup ~/Documents --repo /mnt/disk/backup     make a backup; offers to make the repository
  cutpoint snapshots --repo /mnt/disk/backup              what there is
  cutpoint ls latest:/home/me -l --repo /mnt/disk/backup  look into the last one
  cutpoint restore latest --to /tmp/back --repo /mnt/disk/backup

`export CUTPOINT_REPO=/mnt/disk/backup` saves typing --repo. `cutpoint VERB --help` has examples for
each verb.

Secrets: a passphrase is asked for on a terminal, else it comes from the first of these that is
given: --key-file, --passphrase-file, --passphrase-command, the variable CUTPOINT_PASSPHRASE.

S3: --repo s3://BUCKET/PREFIX, in a bucket that exists. Credentials come from AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, from a profile (AWS_PROFILE, ~/.aws), or from the machine or container. `cutpoint
doctor` tries a place out.

";

/// Deduplicated, compressed, encrypted backups: every snapshot is whole, and costs only what changed.
#[derive(Debug, Parser)]
#[command(name = "cutpoint", version, styles = STYLES, after_help = after_help(), propagate_version = false)]
pub(crate) struct Args {
    /// For every verb.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

fn after_help() -> String {
    format!("{EXAMPLES}{}", exit::TABLE)
}

/// What holds for every verb.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Options for every verb")]
pub(crate) struct Global {
    /// The repository: a folder, file:///FOLDER, or s3://BUCKET/PREFIX
    // An empty CUTPOINT_REPO is as unset, which the usual parser of paths does not let through.
    #[arg(long, short, global = true, env = "CUTPOINT_REPO", value_name = "PLACE",
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) repo: Option<PathBuf>,
    /// Print JSON lines for programs, one object a line, and nothing else, to standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print problems, warnings and what was asked for only
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Say more: each file that is read, and the causes of errors
    #[arg(long, short, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Keep no copy of the index on this machine
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Go on although the repository is in an older state than this machine remembers, and remember
    /// that one: for when you have put back a copy yourself
    #[arg(long, global = true)]
    pub(crate) accept_rollback: bool,
    /// Go on although objects say that they are of a newer key epoch or format than this key and
    /// program know: for when such an object was planted. Nothing such an object says is used
    #[arg(long, global = true)]
    pub(crate) ignore_newer: bool,
    /// Where the secret comes from.
    #[command(flatten)]
    pub(crate) secrets: Secrets,
    /// Where an object storage is.
    #[command(flatten)]
    pub(crate) s3: S3Args,
}

/// Where an object storage is. Credentials are never given on the command line, where others see
/// them.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "S3")]
pub(crate) struct S3Args {
    /// The address of a storage that is not AWS: https://HOST, or http://HOST without TLS; else
    /// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,
    /// The region of the bucket; else AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1
    #[arg(long, global = true, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,
}

/// Sources of secrets.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Secrets")]
pub(crate) struct Secrets {
    /// Read the passphrase from this file; one line end at its end does not count
    #[arg(long, global = true, value_name = "FILE", group = "secret")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Run this with `sh -c` and take what it prints for the passphrase
    #[arg(long, global = true, value_name = "COMMAND", group = "secret")]
    pub(crate) passphrase_command: Option<OsString>,
    /// Use the key in this file, or a recovery kit; `init` makes the file if it does not exist
    #[arg(long, global = true, value_name = "FILE", group = "secret")]
    pub(crate) key_file: Option<PathBuf>,
    /// Try this key only (`cutpoint key list` shows the ids; all 32 digits); else the key that opened
    /// the repository the last time is tried first, and at most 64 with a passphrase
    #[arg(long, global = true, value_name = "ID", value_parser = parse_key_id)]
    pub(crate) key_id: Option<[u8; 16]>,
    /// Accept keys that ask for up to this multiple of the memory and passes of Argon2id that this
    /// program writes (64 MiB, 3 passes)
    #[arg(long, global = true, value_name = "TIMES", default_value_t = KdfLimits::TIMES, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) kdf_limit: u32,
    /// How a new repository is encrypted; `none` also says that an existing one is not
    #[arg(long, global = true, value_enum)]
    pub(crate) encryption: Option<Encryption>,
}

fn parse_key_id(text: &str) -> Result<[u8; 16], String> {
    key_id::parse(&text.to_ascii_lowercase())
        .ok_or_else(|| "the id of a key has 32 hexadecimal digits".to_owned())
}

/// How a repository is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encryption {
    /// What is fastest on this machine
    Auto,
    /// AES-256-GCM
    #[value(name = "aes256-gcm")]
    Aes256Gcm,
    /// ChaCha20-Poly1305
    #[value(name = "chacha20-poly1305")]
    ChaCha20Poly1305,
    /// Not at all: whoever has the repository can read it
    None,
}

impl Encryption {
    /// The suite that it stands for.
    pub(crate) fn suite(self) -> Suite {
        match self {
            Encryption::Auto => defaults::suite(),
            Encryption::Aes256Gcm => Suite::Aes256Gcm,
            Encryption::ChaCha20Poly1305 => Suite::ChaCha20Poly1305,
            Encryption::None => Suite::None,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a repository
    Init(Init),
    /// Show or change the settings of a repository
    Config(ConfigArgs),
    /// Save files and folders, or a stream, as a snapshot
    Backup(Backup),
    /// Bring files back
    Restore(Restore),
    /// List snapshots
    Snapshots(Snapshots),
    /// Forget snapshots that no rule keeps, or that are named; or bring them back
    Forget(Forget),
    /// Free what no snapshot needs any more
    Prune(Prune),
    /// Make what is stored smaller, and the newest snapshots quick to read
    Optimize(Optimize),
    /// Hold snapshots: no rule forgets them, and no prune takes them
    Hold(Hold),
    /// Change the tags and the description of snapshots
    Tag(Tag),
    /// List what a snapshot holds
    Ls(Ls),
    /// Write a file of a snapshot to standard output
    Cat(Cat),
    /// Say how large the repository is, and what made it small
    #[command(after_help = "\
Logical is what all snapshots hold together; unique what remains when each chunk counts once.

Examples:
  cutpoint stats
  cutpoint stats --json --repo /mnt/disk/backup
  cutpoint stats --bursts                   how many chunks are a prefix and a suffix of one other")]
    Stats(StatsArgs),
    /// Look for damage
    Check(Check),
    /// Try out a place for repositories: what it can be used for, and how fast it is
    #[command(after_help = "\
Needs no secret, and no repository. What is put lies in tmp/, where nothing counts, and is removed; some
34 MiB go there and back.

Several machines can share a repository, and `prune` can run while they write, where a place creates
objects atomically: of several that put one name at once, one is told that it created it. Some storages
say so and do not. Such a place does for backups; `prune` demands --exclusive there. The exit code is
then 1, as it is for anything else that is not as it should be; 2 where the place cannot be used.

Examples:
  cutpoint doctor --repo /mnt/disk/backup
  cutpoint doctor --repo s3://bucket/backup --s3-endpoint https://s3.example.org
  cutpoint doctor --json | jq 'select(.type == \"trial\") | [.trial, .elapsed_ns]'")]
    Doctor,
    /// Make good what is damaged, as far as it goes
    Repair(Repair),
    /// Say what deduplication would save, before anything is stored
    #[cfg(feature = "estimate")]
    Estimate(Estimate),
    /// Write down chunks, a row for each, for other programs to count
    #[cfg(feature = "estimate")]
    Trace(Trace),
    /// Look for the parameters that suit some data
    #[cfg(feature = "estimate")]
    Tune(Tune),
    /// Print where an algorithm cuts a file
    Cut(Cut),
    /// Explain the algorithms that cut: rules, parameters, sources
    Algorithms(Algorithms),
    /// Measure how fast the algorithms are on this machine
    Bench(Bench),
    /// Measure algorithms on data sets, and compare with what papers say
    #[cfg(feature = "lab")]
    Lab(Lab),
    /// Print an object of the repository, decoded
    Debug(Debug),
    /// Say who can open the repository: list, add, remove and change keys
    Key(Key),
}

/// `stats`.
#[derive(Debug, ClapArgs)]
pub(crate) struct StatsArgs {
    /// Read what resembles others, and count bursts: done anyway where --matching is burst
    #[arg(long)]
    pub(crate) bursts: bool,
}

/// `config`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint config                           show the settings
  cutpoint config --probe                   the repository was moved to another storage: find out
                                            whether that creates objects atomically, and note it
  cutpoint config --compression-level 1     compress less and faster from now on
  cutpoint config --parity 10%              a tenth more, so that a bad sector costs nothing;
                                            `cutpoint repair data` makes it for what is there already
  cutpoint config --cut seqcdc:avg=16k      cut new data differently. Duplicates of what was saved
                                            before are not found any more; old snapshots stay whole")]
pub(crate) struct ConfigArgs {
    /// What is to change.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Try whether the storage creates objects atomically, and note it (`creates-atomically`)
    #[arg(long)]
    pub(crate) probe: bool,
}

/// Settings of a repository; each keeps its value where it is not given.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Settings {
    /// Sizes and level for a purpose; the options below go before it
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// How data is cut, for example `fastcdc:avg=16k`, `seqcdc:avg=16k` or `fixed:size=4k`
    #[arg(long, value_name = "SPEC")]
    pub(crate) cut: Option<String>,
    /// How many bytes of chunks are compressed together: 16k to 4M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) region_size: Option<u32>,
    /// How large the files of the repository become: 4M to 48M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) container_size: Option<u32>,
    /// The zstd level: -7 (fast) to 19 (small)
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    pub(crate) compression_level: Option<i32>,
    /// Parity beside what is stored from now on, to rebuild what is damaged in places: so much of its
    /// size, 0% (none) to 100%
    #[arg(long, value_name = "PERCENT", value_parser = parse_whole_percent)]
    pub(crate) parity: Option<u32>,
    /// What becomes of chunks that resemble others: `off`, they are stored like any others; `on`, what they
    /// have in common with the former version of a file, or what resembles it, is not stored again;
    /// `burst`, one prefix and suffix in common with one chunk, as BURST's paper has it
    #[arg(long, value_name = "off|on|burst[:tau=1/8,c_max=255,variant=burst]")]
    pub(crate) matching: Option<Matching>,
}

/// What settings are for. `docs/modes.md` has the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Saves in less time: --compression-level 1
    Fast,
    /// What has no other purpose: --region-size 2M --container-size 16M --compression-level 3
    Default,
    /// Takes the least space: --region-size 4M --container-size 48M --compression-level 12
    Max,
    /// For files of which pieces are read: --region-size 128k
    Random,
}

impl Mode {
    /// The settings of the mode.
    pub(crate) fn preset(self) -> Preset {
        match self {
            Mode::Fast => defaults::FAST,
            Mode::Default => defaults::DEFAULT,
            Mode::Max => defaults::MAX,
            Mode::Random => defaults::RANDOM,
        }
    }
}

/// What becomes of chunks that resemble others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// They are stored like any others
    Off,
    /// What they have in common with former versions is not stored again
    On,
    /// What they have in common with the chunk that begins or ends alike
    Burst(BurstOptions),
}

impl FromStr for Matching {
    type Err = String;

    fn from_str(text: &str) -> Result<Matching, String> {
        match text {
            "off" => Ok(Matching::Off),
            "on" => Ok(Matching::On),
            _ if text.starts_with("burst") => {
                let options = text.parse::<BurstOptions>();
                options.map(Matching::Burst).map_err(|error| error.to_string())
            }
            _ => Err("must be off, on, or burst with options or without".to_owned()),
        }
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matching::Off => f.write_str("off"),
            Matching::On => f.write_str("on"),
            Matching::Burst(options) => options.fmt(f),
        }
    }
}

/// `init`.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("\
Defaults: --cut {DEFAULT_CUT} --region-size 2M --container-size 16M --compression-level 3 --matching on
          --parity 0%

Examples:
  cutpoint init --repo /mnt/disk/backup
      asks for a passphrase and shows a recovery kit: print it and keep it away from the computer
  cutpoint init --repo /mnt/disk/backup --key-file ~/.cutpoint-key --recovery-kit kit.txt
      for a machine: makes a key file, and writes the recovery kit to kit.txt
  cutpoint init --repo /mnt/disk/backup --encryption none
  cutpoint init --repo /tmp/burst --cut fixed:size=16k --matching burst:c_max=1,variant=head
      to repeat measurements of BURST's paper: blocks, each compared with one that begins alike
  cutpoint init --repo s3://bucket/backup --s3-region eu-north-1
      in a bucket that exists; tries whether the storage creates objects atomically, and says so if not"))]
pub(crate) struct Init {
    /// What the repository is to be like.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Write the recovery kit to this file instead of the terminal; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
    /// Let all members of the folder's group use the repository (mode 2770); else it is its owner's
    /// alone (0700). All that is put into a folder has the group and permissions of that folder
    #[arg(long)]
    pub(crate) shared: bool,
}

/// What is left out of folders.
#[derive(Debug, ClapArgs)]
pub(crate) struct Exclusion {
    /// Leave out what matches; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Leave out what matches a line of this file; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Leave out what is in folders with a CACHEDIR.TAG
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Do not go into other file systems
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,
}

/// `backup`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A file whose size, times and inode are those of the former snapshot is not read again. A file that
cannot be read, or changes while it is read, is named, and the exit code is 1; all else is saved. So
is a PATH that is not there or cannot be opened: `cutpoint snapshots` shows such a snapshot as
incomplete, and the next backup compares that PATH with the last snapshot that has it.

Patterns are those of a .gitignore file in the root folder: `*.o` and `target/` match anywhere,
`/home/me/tmp` in one place, and `!` takes back.

Examples:
  cutpoint backup ~ --exclude-caches --exclude '*.iso'
  cutpoint backup /etc /home --repo /mnt/disk/backup --init --key-file /etc/cutpoint.key
      for a script: makes the repository if there is none
  cutpoint backup --stdin-filename shop.sql --stdin-from-command -- pg_dump shop
      saves the output of a command, run without a shell; where it fails, no snapshot is made
  cutpoint backup --stdin-filename shop.gz --stdin-from-command -- \\
      bash -o pipefail -c 'pg_dump shop | gzip --rsyncable'
      the same of a pipe: without pipefail a failure of its first program is not seen
  tar -c . | cutpoint backup --stdin --stdin-filename all.tar
      a failure of `tar` cannot be seen here, and what it wrote becomes a snapshot

Ctrl-C and SIGTERM end a backup: what is on its way is stored and published, within 30 seconds; the
next run uses it. A second signal ends it at once.")]
pub(crate) struct Backup {
    /// What to save; with --stdin-from-command, the command and its arguments
    #[arg(value_name = "PATH", required_unless_present = "stdin", conflicts_with = "stdin")]
    pub(crate) paths: Vec<PathBuf>,
    /// Make the repository if there is none
    #[arg(long)]
    pub(crate) init: bool,
    /// Where a repository is made: write its recovery kit to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
    /// Save standard input, as one file; a failure of what writes there cannot be seen: better is
    /// --stdin-from-command
    #[arg(long, group = "stream")]
    pub(crate) stdin: bool,
    /// Save the output of a command, named after `--`, as one file: no snapshot where it fails
    #[arg(long, group = "stream")]
    pub(crate) stdin_from_command: bool,
    /// The name of that file
    #[arg(long, value_name = "NAME", requires = "stream", default_value = "stdin")]
    pub(crate) stdin_filename: OsString,
    /// A word to find the snapshot by; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Free text for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// The name of this machine, if not the system's
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// The snapshot to compare with, or `none`; else the newest of the same host and paths
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) parent: Option<String>,
    /// Read every file, also those that seem unchanged
    ///
    /// Without this option a file is taken over from the former snapshot if its size, times, inode and file system
    /// are the same, and if the times were a minute old when that backup began (a day on servers; longer where
    /// pages stay in memory longer). Where times are no proof (FUSE, FAT, images) every file is read. No time tells
    /// of stores through a shared mapping on tmpfs: use this option there.
    #[arg(long)]
    pub(crate) force_read: bool,
    /// Make no snapshot if nothing has changed
    #[arg(long)]
    pub(crate) skip_if_unchanged: bool,
    /// What is left out.
    #[command(flatten)]
    pub(crate) exclusion: Exclusion,
    /// How many threads fingerprint and compress; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Decode and compare all that was compressed before it is stored, not only a part
    #[arg(long)]
    pub(crate) verify_write: bool,
}

/// Which snapshots are meant, where several could be.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Filter {
    /// Only snapshots of this machine
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Only snapshots with this tag; with several, those that have all of them
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
}

/// `snapshots`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint snapshots
  cutpoint snapshots --tag database --json | jq .id
  cutpoint snapshots --forgotten           what `cutpoint forget --undo` can still bring back")]
pub(crate) struct Snapshots {
    /// List those that are forgotten, and were not taken by a prune yet, instead
    #[arg(long)]
    pub(crate) forgotten: bool,
    /// Which ones.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Which snapshots a verb is about that can be about many.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Selection {
    /// By host and tags.
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Only snapshots of this path; with several, those of all of them
    #[arg(long = "path", id = "only_path", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// `forget`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A forgotten snapshot is off the lists; nothing of it is deleted. Until a prune takes it, `--undo`
brings it back. Held snapshots are never forgotten (`cutpoint hold`).

Rules judge each group of snapshots by itself: those of one host and the same paths, or what
--group-by says. --keep-daily 7 keeps the newest snapshot of each of the newest seven days that
have any. Rules do not know of each other: a snapshot is kept if any of them keeps it. While a rule
has places left, the oldest snapshot of the group stays, too. Times within are measured from the
newest snapshot of the group, not from now, so that a machine that is gone keeps its history.

What is dated in the future is kept, and fills no place. What a run that was cut off has left fills
no place either: it is kept while no later snapshot is whole, and where its hour, day and so on has
no whole one. An incomplete snapshot, of which a path was not there, never takes the place of a complete
one: rules keep complete ones as if there were no others, and incomplete ones in addition.

Examples:
  cutpoint forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
      shows what would become of each snapshot, and by which rule
  cutpoint forget --keep-within 1m --keep-within-weekly 1y --keep-tag release
  cutpoint forget --host laptop --path /home/me --keep-last 3
  cutpoint forget 5f3a91c0 eba45d5d       these two
  cutpoint forget --undo 5f3a91c0         back again
  cutpoint forget --undo --last           all that the last forget took off the lists")]
pub(crate) struct Forget {
    /// Forget these: an id, its first digits (at least four), or `latest`
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<OsString>,
    /// Show what would be done, and do nothing
    #[arg(long, short = 'n', conflicts_with = "undo")]
    pub(crate) dry_run: bool,
    /// Bring back the snapshots that are named, or those of --last
    #[arg(long)]
    pub(crate) undo: bool,
    /// With --undo: what the last forget took off the lists
    #[arg(long, requires = "undo", conflicts_with = "snapshots")]
    pub(crate) last: bool,
    /// Which ones are judged.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// In what snapshots have to agree to be judged together; host,paths without this
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub(crate) group_by: Vec<GroupBy>,
    /// Hours, days and so on begin as in UTC, not as clocks on the wall show here
    #[arg(long)]
    pub(crate) utc: bool,
    /// Let rules forget all snapshots of a group
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// What is kept.
    #[command(flatten)]
    pub(crate) keep: Keep,
}

/// Arguments of `prune`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A prune takes the snapshots that were forgotten (they cannot be brought back then), and condemns
what nothing else needs. What is condemned is deleted once no other client can still refer to it: by
the next prune that comes late enough, or by this one with --wait. Backups may run all the while.

Examples:
  cutpoint prune --dry-run            what would be done, and what it would free
  cutpoint prune                      delete what earlier prunes have condemned, then condemn
  cutpoint prune --wait               and wait until that can be deleted, too
  cutpoint prune --exclusive          delete at once: nobody else uses the repository now
  cutpoint prune --unused-max 20%     rewrite less, and leave more unused
  cutpoint prune --rewrite-max 10g    rewrite 10 GiB of containers at most")]
pub(crate) struct Prune {
    /// Show what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// How much of what stays may be unused: containers are rewritten until it is no more
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_percent)]
    pub(crate) unused_max: f64,
    /// The size of the containers that are rewritten at most; 0 rewrites nothing
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) rewrite_max: Option<u64>,
    #[command(flatten)]
    pub(crate) clearing: Clearing,
}

/// When what was condemned is deleted.
#[derive(Debug, ClapArgs)]
pub(crate) struct Clearing {
    /// Wait for other clients, and delete what can be deleted then
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// How old a prune must be before what it condemned is deleted: twice as long as the storage's
    /// listings may lag behind. [default: 10min for a folder, 24h for other storages]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    pub(crate) settle: Option<i64>,
    /// Wait for no other client, and vouch that none is at work: what is condemned is deleted at once.
    /// Refused (15) while a run that is not known to be dead renewed its ticket within 3 hours by the
    /// storage's clock; the same command on that run's machine sees that it is dead. Storages that cannot
    /// create objects atomically are pruned in no other way
    #[arg(long, conflicts_with_all = ["dry_run", "settle"])]
    pub(crate) exclusive: bool,
    /// Ask no question on a terminal before --exclusive
    #[arg(long, short = 'y', requires = "exclusive")]
    pub(crate) yes: bool,
}

/// Arguments of `optimize`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Stores again what is not optimized yet: in larger regions, compressed more, the newest snapshots in the
order in which they are read, and what only older ones need beside what it resembles. That takes time
(decoding and compressing all of it), and room for the new containers until the old ones are deleted.
It is a prune as well: snapshots that were forgotten are taken. A second run has nothing to do, unless
there is more since, or it is asked for more.

Examples:
  cutpoint optimize --dry-run                  what would be done, and an estimate of what it saves
  cutpoint optimize                            all that is not optimized yet
  cutpoint optimize --rewrite-max 50g          at most 50 GiB now, and the rest another time
  cutpoint optimize --compression-level 19     slowly, and as small as can be")]
pub(crate) struct Optimize {
    /// Show what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// The size of the containers that are rewritten at most
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) rewrite_max: Option<u64>,
    /// How much is compressed together, at most 16M: larger compresses better, and makes reading single
    /// files slower
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub(crate) region_size: u32,
    /// The level of zstd, 1 to 19
    #[arg(long, value_name = "LEVEL", default_value_t = 12)]
    pub(crate) compression_level: i32,
    /// Store containers again, too, of which next to nothing is compressed: they become no smaller, but
    /// their chunks lie in order, and may become composites
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) clearing: Clearing,
}

/// What `forget` keeps.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "What is kept (N: a number, or `all`)")]
pub(crate) struct Keep {
    /// The last N snapshots
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_last: Option<u32>,
    /// The newest of each of the last N hours that have any
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_hourly: Option<u32>,
    /// Of the last N days
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_daily: Option<u32>,
    /// Of the last N weeks; they begin on Monday
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_weekly: Option<u32>,
    /// Of the last N months
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_monthly: Option<u32>,
    /// Of the last N years
    #[arg(long, value_name = "N", value_parser = parse_count)]
    keep_yearly: Option<u32>,
    /// All within this time before the newest, for example 1y6m, 2w, 3d12h (m: months, h: hours)
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within: Option<Span>,
    /// The newest of each hour within this time
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_hourly: Option<Span>,
    /// Of each day
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_daily: Option<Span>,
    /// Of each week
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_weekly: Option<Span>,
    /// Of each month
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_monthly: Option<Span>,
    /// Of each year
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep_within_yearly: Option<Span>,
    /// What has this tag; with several, what has any of them
    #[arg(long, value_name = "TAG")]
    keep_tag: Vec<String>,
}

impl Keep {
    /// The rules.
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

/// In what snapshots have to agree to be judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// The machine
    Host,
    /// What was saved
    Paths,
    /// All tags
    Tags,
    /// Nothing: all snapshots are one group
    None,
}

impl GroupBy {
    /// All that was given, together; what holds by default where nothing was.
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

/// `hold`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A held snapshot stays, whatever rules say: `forget` passes it over, and no prune takes it, even where
it was forgotten before. Where a prune was faster, this says so.

Examples:
  cutpoint hold latest
  cutpoint hold 5f3a91c0 eba45d5d
  cutpoint hold --release 5f3a91c0")]
pub(crate) struct Hold {
    /// Which ones: an id, its first digits (at least four), or `latest`
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) snapshots: Vec<OsString>,
    /// Hold them no more
    #[arg(long)]
    pub(crate) release: bool,
    /// For `latest`.
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// `tag`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint tag latest --add release --remove nightly
  cutpoint tag 5f3a91c0 eba45d5d --set archive
  cutpoint tag 5f3a91c0 --clear
  cutpoint tag 5f3a91c0 --description 'before the move'")]
pub(crate) struct Tag {
    /// Which ones: an id, its first digits (at least four), or `latest`
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) snapshots: Vec<OsString>,
    /// Add a tag; can be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) add: Vec<String>,
    /// Remove a tag; can be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) remove: Vec<String>,
    /// Have this tag and no other; can be repeated
    #[arg(long, value_name = "TAG", conflicts_with_all = ["add", "remove", "clear"])]
    pub(crate) set: Vec<String>,
    /// Remove all tags
    #[arg(long, conflicts_with_all = ["add", "remove"])]
    pub(crate) clear: bool,
    /// Have this description; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Only for `latest`: of this machine
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
}

/// `restore`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
SNAPSHOT is an id, its first digits (at least four), or `latest`. SNAPSHOT:PATH restores what is in
PATH directly into FOLDER, which gets the permissions, times and so on of PATH, unless it was there
before and nothing may be overwritten, or only some paths are restored. Nothing outside of FOLDER is
ever written.

A full disk ends the restore with exit code 14. A file that is only larger than the file system of
FOLDER or `ulimit -f` allows is named, the others are restored, and the exit code is 1.

Examples:
  cutpoint restore latest --to /tmp/back                       everything
  cutpoint restore latest:/home/me/photos --to ~/photos-back   one folder's content
  cutpoint restore 5f3a91c0 /etc/fstab /etc/ssh --to /tmp/back some paths, below their folders
  cutpoint restore latest --to /tmp/back --overwrite changed   go on where a restore was stopped")]
pub(crate) struct Restore {
    /// What to restore: SNAPSHOT or SNAPSHOT:PATH
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Restore only these, with all that is below them
    #[arg(value_name = "PATHS")]
    pub(crate) paths: Vec<PathBuf>,
    /// Where to; made if it does not exist
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: PathBuf,
    /// What to do where there is something already
    #[arg(long, value_enum, default_value = "never")]
    pub(crate) overwrite: OverwriteArg,
    /// Set owners by their numbers, not by their names
    #[arg(long, conflicts_with = "no_owners")]
    pub(crate) numeric_owners: bool,
    /// Set no owners; only root does so in any case
    #[arg(long)]
    pub(crate) no_owners: bool,
    /// How many threads write; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// For `latest`.
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// What a restore does where there is something already.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverwriteArg {
    /// Leave it, and count it as a problem
    Never,
    /// Replace it unless size and time are those of the snapshot
    Changed,
    /// Replace it
    Replace,
}

impl From<OverwriteArg> for Overwrite {
    fn from(arg: OverwriteArg) -> Overwrite {
        match arg {
            OverwriteArg::Never => Overwrite::Never,
            OverwriteArg::Changed => Overwrite::Changed,
            OverwriteArg::Replace => Overwrite::Replace,
        }
    }
}

/// `ls`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint ls latest                      what stands at the root of the snapshot
  cutpoint ls latest:/home/me -l          permissions, owners, sizes, times (UTC)
  cutpoint ls 5f3a91c0 -R --json          everything, for programs")]
pub(crate) struct Ls {
    /// What to list: SNAPSHOT or SNAPSHOT:PATH
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Show permissions, owners, sizes and times
    #[arg(long, short)]
    pub(crate) long: bool,
    /// List all that is below, too
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    /// For `latest`.
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// `cat`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint cat latest:/etc/fstab
  cutpoint cat 5f3a91c0 /home/me/disk.img > disk.img
  cutpoint cat latest:shop.sql --tag database | psql shop")]
pub(crate) struct Cat {
    /// The file: SNAPSHOT:PATH, or SNAPSHOT and then PATH
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// The file
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// For `latest`.
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// `check`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without --read-data every object is looked at that says what there is, and every container has to
exist with its length. With it every stored byte is read, opened, decoded and compared; with a part,
such as 5%, what was not read for longest, so that twenty such checks read everything once. What was
read when is remembered on this machine.

What is found is named, and the exit code is 1. What is damaged, but is stored again already or
needed by forgotten snapshots only, is `unneeded`, and no error.

Examples:
  cutpoint check
  cutpoint check --read-data
  cutpoint check --read-data 5%           every night, say
  cutpoint check --read-data 10GiB        at most so much")]
pub(crate) struct Check {
    /// Read and verify what is stored, every byte of it, or of a part: 5%, or 10GiB
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
    /// Write nothing: do not record what is damaged, which the next backup needs to store it again
    #[arg(long)]
    pub(crate) no_record: bool,
    /// How many threads read; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

/// `repair`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
`check` names the commands that end what it finds, and their order. Nothing that anybody can read is
ever deleted. `repair objects` is for what is damaged only in bytes that follow from others. What `check`
finds in data is repaired by the next backup first of all: what its sources still have it stores again.
Where there is parity, `repair data` needs no sources. What is left then, the others repair.

Examples:
  cutpoint repair objects --read-data     put again what is damaged where nothing is lost
  cutpoint repair data --read-data        rebuild what is damaged from parity
  cutpoint repair index --dry-run         what an index made anew would have
  cutpoint repair index
  cutpoint repair snapshots --dry-run     what snapshots have lost: files, and parts of files
  cutpoint repair snapshots --forget      keep what is left, and take off the lists what has lost something")]
pub(crate) struct Repair {
    /// What to repair.
    #[command(subcommand)]
    pub(crate) what: Repairable,
}

/// What can be repaired.
#[derive(Debug, Subcommand)]
pub(crate) enum Repairable {
    /// Put objects again of which all that counts is left: a copy, or all but padding and trailer
    Objects(RepairObjects),
    /// Rebuild what is damaged from parity, and make parity that is missing
    Data(RepairData),
    /// Make the index anew from the containers: where segments are damaged or gone
    Index {
        /// Only say what would be done
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// Give up the prune record of this number, which is lost, so that the repository can be
        /// written to again. While it does, no other client may be at work. Snapshots that the record
        /// had taken are listed again, as far as they are there; a check tells what of them is gone
        #[arg(long, value_name = "N")]
        give_up: Vec<u64>,
    },
    /// Write what is left of snapshots that have lost something, and list what is lost
    Snapshots(RepairSnapshots),
}

fn parse_object(text: &str) -> Result<ObjectName, String> {
    ObjectName::parse(text).map_err(|error| error.to_string())
}

/// `repair objects`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Settings and keys are stored twice: what is damaged or gone of one copy is put again from the other. Of
all else the content is authenticated, and the padding and the trailer behind it follow from it: where
only these are damaged, or cut off, the object is put again as it was, in its place. All other damage is
left to other commands.

Without --read-data, damage in the padding of containers is not seen.

--remove deletes settings that no key opens, and that stand in the way of others: junk that somebody has
put there, or damage in both copies. Settings that a newer key opens are not removed.

Examples:
  cutpoint repair objects --dry-run
  cutpoint repair objects --read-data
  cutpoint repair objects --remove config/18446744073709551615")]
pub(crate) struct RepairObjects {
    /// Only say what would be done
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Read what is stored before, to find out what is damaged: all, or a part
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
    /// Delete settings that no key opens, by the name that a check gives them
    #[arg(long, value_name = "NAME", value_parser = parse_object)]
    pub(crate) remove: Vec<ObjectName>,
    /// How many threads read; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

/// `repair data`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
For repositories with parity (`cutpoint config --parity 10%`). A container of which no more pieces are
damaged than it has parity for is rebuilt, and what it held is stored again, in new containers; the
damaged one stays until a prune. A container that is gone cannot be rebuilt. Then, if the settings ask
for parity, containers that have none get it: those from before it was asked for, for one.

Without --read-data, what earlier checks have found counts, and what is plainly damaged.

Examples:
  cutpoint repair data --dry-run --read-data
  cutpoint repair data --read-data
  cutpoint repair data                    after `cutpoint check --read-data`, or `config --parity`")]
pub(crate) struct RepairData {
    /// Only say what would be done
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Read what is stored before, to find out what is damaged: all, or a part
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
    /// How many threads read; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

/// `repair snapshots`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each listed snapshot that has lost something gets a second one behind it in the list, with all that is
left. Of a file that has lost a part the rest is kept as NAME.cutpoint-damaged, with holes for what is
lost. Without --read-data, what earlier checks have found counts, and what is plainly gone.

Run `cutpoint check --read-data` and a backup before: what the sources still have is stored again, and
is not lost.

Examples:
  cutpoint repair snapshots --dry-run
  cutpoint repair snapshots
  cutpoint repair snapshots --forget")]
pub(crate) struct RepairSnapshots {
    /// Only say what is lost
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Forget the snapshots that have lost something, and give up commits that cannot be read
    #[arg(long)]
    pub(crate) forget: bool,
    /// Read what is stored before, to find out what is lost: all, or a part
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "all",
        value_parser = parse_portion)]
    pub(crate) read_data: Option<Portion>,
    /// How many threads read; else as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

/// `cut`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Needs no repository and no secret. A repository that is encrypted cuts with a secret of its own: its
cut-points are others. Neither the level nor the number of threads moves a cut-point.

Examples:
  cutpoint cut --algorithm fastcdc:avg=16k disk.img
  cutpoint cut --level scalar --verbose disk.img
  tar c folder | cutpoint cut --algorithm seqcdc:avg=8k --format csv -")]
pub(crate) struct Cut {
    /// The algorithm with its parameters, for example `seqcdc:avg=16k`; `cutpoint algorithms` has all
    #[arg(long, short, value_name = "SPEC", default_value = DEFAULT_CUT)]
    pub(crate) algorithm: String,
    /// How to print; --json is --format json
    #[arg(long, value_enum, default_value = "offsets")]
    pub(crate) format: CutFormat,
    /// The instruction set that finds the cut-points, instead of the fastest that this CPU has:
    /// `scalar`, and for example `avx2`. An algorithm that has no code for it uses one below it, and
    /// --verbose and --json say which
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub(crate) level: Option<Level>,
    /// How many threads look for cut-points; 0 is as many as there are processors. Several hold 4 MiB
    /// of the file each, or 64 smallest chunks if that is more, up to 256 MiB in all, once more that
    /// for one of them, and a chunk. Where chunks have one size, one thread cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Reads the name of a level that this CPU has.
fn parse_level(name: &str) -> Result<Level, String> {
    Level::named(name).map_err(|_| {
        let names: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
        format!("this CPU has {}", names.join(", "))
    })
}

/// `algorithms`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint algorithms             all of them, with their parameters
  cutpoint algorithms seqcdc      its rule, source, parameters, short forms and dialects
  cutpoint algorithms --json      everything about all, for programs")]
pub(crate) struct Algorithms {
    /// Which one to explain; all are listed without
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `bench`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each algorithm cuts the same memory at each level (instruction set) that it has code for and this CPU
has: cut-points are the same, only speed differs, and that is checked. All take turns, with a plain
read of the memory beside them; times are CPU time of one thread. A backup takes the fastest level by
itself. What is larger than the caches shows what memory lets through; --size 1M what the CPU could do.

Data decides, too: where chunks end early or late, and how many bytes a rule may skip. Measure yours.

Examples:
  cutpoint bench                                      every algorithm, chunks of 8 KiB, random data
  cutpoint bench --file disk.img -a seqcdc:avg=16k -a fastcdc:avg=16k
  cutpoint bench --average 64k --fingerprints --html speed.html
  cutpoint bench --papers -a ram:avg=8k               beside VRAM, as its paper has it
  cutpoint bench --level avx2 --level scalar --time 60
  cutpoint bench --instructions                       popcnt, pdep, compress and others, in nanoseconds")]
pub(crate) struct Bench {
    /// An algorithm with its parameters, for example `seqcdc:avg=16k`; can be repeated. Without, all
    /// that can have a mean of --average
    #[arg(long = "algorithm", short, value_name = "SPEC", conflicts_with = "instructions")]
    pub(crate) algorithms: Vec<String>,
    /// The mean chunk size on random data of the algorithms that are taken without --algorithm
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "8k")]
    pub(crate) average: u32,
    /// Only this level: scalar, sse4.1, avx2, avx512, avx512vbmi; can be repeated
    #[arg(long = "level", value_name = "LEVEL", conflicts_with = "instructions")]
    pub(crate) levels: Vec<String>,
    /// How much data is cut; of a file at most that much
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) size: u32,
    /// What data is made
    #[arg(long, value_enum, default_value = "random", conflicts_with = "file")]
    pub(crate) data: BenchData,
    /// Cut what is in this file, read into memory before
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) file: Option<PathBuf>,
    /// How many rounds count, after one to get warm; 5 without
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: Option<u32>,
    /// As many rounds as fit into so many seconds, at least one, instead of --rounds
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["rounds", "instructions"])]
    pub(crate) time: Option<u32>,
    /// Also the vectorized forms of papers (SS-CDC, VectorCDC, VSEQ), where they cut by the same spec
    #[arg(long, conflicts_with = "instructions")]
    pub(crate) papers: bool,
    /// Also BLAKE3 of chunks of 8, 16 and 64 KiB, at each of its levels
    #[arg(long, conflicts_with = "instructions")]
    pub(crate) fingerprints: bool,
    /// Instead, what single instructions cost that look for a place in a mask, or make one
    #[arg(long)]
    pub(crate) instructions: bool,
    /// Write a chart to this file
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a page with the chart and all numbers to this file; it needs no other
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) html: Option<PathBuf>,
}

/// Data that `bench` makes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BenchData {
    /// Random bytes, from a constant seed
    Random,
    /// Zeros
    Zeros,
    /// Words and punctuation
    Text,
}

/// How cut-points are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CutFormat {
    /// The exclusive end offset of each chunk, one a line
    Offsets,
    /// A JSON object a line
    Json,
    /// Offset, size and end offset of each chunk, after a header line
    Csv,
}

/// `key`.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    after_help = "\
Who knows the secret of a removed key, and has a copy of that key from before, can still read what is
there and, with access to the storage, what comes: it is sealed with the same keys as ever. `rotate`
begins a new epoch: what comes from then on is sealed with keys that only the kept secrets open. What
was there before stays as it was.

Examples:
  cutpoint key list
  cutpoint key add --label laptop                     asks for another passphrase
  cutpoint key add --new-key-file /etc/cutpoint.key   makes a key file, for a machine
  cutpoint key add --new-recovery-kit kit.txt         writes the keys as text, to be printed
  cutpoint key passwd                                 a new passphrase in the place of the key in use
  cutpoint key remove 5f3a91c0
  cutpoint key rotate --keep-key-file /etc/cutpoint.key --new-recovery-kit kit.txt"
)]
pub(crate) struct Key {
    /// What to do with keys.
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// List the keys: what each is opened with, when it was made, which one is in use
    List,
    /// Add a key: a passphrase, a key file or a recovery kit; it is tried at once
    Add(KeyAdd),
    /// Remove a key; never the last one
    Remove(KeyRemove),
    /// Replace the key in use: adds a new one, tries it, then removes the old one
    Passwd(NewSecrets),
    /// Begin a new epoch: what comes is sealed with new keys
    Rotate(KeyRotate),
}

/// Where the secret of a new key comes from; asked for where none is given.
#[derive(Debug, ClapArgs)]
pub(crate) struct NewSecrets {
    /// Read the passphrase of the new key from this file; else CUTPOINT_NEW_PASSPHRASE may have it
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    /// Run this with `sh -c` and take what it prints for the passphrase of the new key
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub(crate) new_passphrase_command: Option<OsString>,
    /// Let this key file open the repository; it is made if it does not exist
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_key_file: Option<PathBuf>,
}

/// `key add`.
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyAdd {
    /// Where the secret comes from.
    #[command(flatten)]
    pub(crate) secrets: NewSecrets,
    /// Write a recovery kit to this file, which must not exist; `-` is standard output
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_recovery_kit: Option<PathBuf>,
    /// What the key is for, as `key list` is to show it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
}

/// `key remove`.
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyRemove {
    /// Its id as `key list` shows it, or the first digits of it (at least four)
    #[arg(value_name = "KEY")]
    pub(crate) id: String,
    /// Even if it is the key in use, or one that does not say what it is
    #[arg(long)]
    pub(crate) force: bool,
}

/// `key rotate`.
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyRotate {
    /// Keep the key that the passphrase in this file opens, beside the one in use; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) keep_passphrase_file: Vec<PathBuf>,
    /// Keep the key that this key file opens, beside the one in use; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) keep_key_file: Vec<PathBuf>,
    /// Remove all other keys; without this there must be none
    #[arg(long)]
    pub(crate) remove_others: bool,
    /// Write a new recovery kit to this file, which must not exist; `-` is standard output. Those of
    /// before open the repository no more
    #[arg(long, value_name = "FILE")]
    pub(crate) new_recovery_kit: Option<PathBuf>,
}

/// `debug`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint debug --list
  cutpoint debug config/00000000000000000000")]
pub(crate) struct Debug {
    /// The name of the object
    #[arg(value_name = "OBJECT", required_unless_present = "list", conflicts_with = "list")]
    pub(crate) object: Option<String>,
    /// List the names and sizes of all objects
    #[arg(long)]
    pub(crate) list: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_agree() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples() {
        let mut command = Args::command();
        command.build();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{} has none", verb.get_name());
        }
    }
}
