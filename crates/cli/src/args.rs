//! What can be asked, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use cutpoint_backup::restore::Overwrite;
use cutpoint_chunking::Level;
use cutpoint_store::seal::Suite;

use crate::defaults::{self, DEFAULT_CUT};
use crate::exit;
use crate::units::parse_size;

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
    /// The repository: a folder
    #[arg(long, short, global = true, env = "CUTPOINT_REPO", value_name = "FOLDER")]
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
    /// Where the secret comes from.
    #[command(flatten)]
    pub(crate) secrets: Secrets,
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
    /// How a new repository is encrypted; `none` also says that an existing one is not
    #[arg(long, global = true, value_enum)]
    pub(crate) encryption: Option<Encryption>,
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
    Config(Settings),
    /// Save files and folders, or a stream, as a snapshot
    Backup(Backup),
    /// Bring files back
    Restore(Restore),
    /// List snapshots
    #[command(after_help = "\
Examples:
  cutpoint snapshots
  cutpoint snapshots --tag database --json | jq .id")]
    Snapshots(Filter),
    /// List what a snapshot holds
    Ls(Ls),
    /// Write a file of a snapshot to standard output
    Cat(Cat),
    /// Say how large the repository is, and what made it small
    #[command(after_help = "\
Logical is what all snapshots hold together; unique what remains when each chunk counts once.

Examples:
  cutpoint stats
  cutpoint stats --json --repo /mnt/disk/backup")]
    Stats,
    /// Look for damage
    Check(Check),
    /// Print where an algorithm cuts a file
    Cut(Cut),
    /// Explain the algorithms that cut: rules, parameters, sources
    Algorithms(Algorithms),
    /// Measure how fast the algorithms are on this machine
    Bench(Bench),
    /// Print an object of the repository, decoded
    Debug(Debug),
}

/// Settings of a repository; each keeps its value where it is not given.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = "\
Examples:
  cutpoint config                           show the settings
  cutpoint config --compression-level 1     compress less and faster from now on
  cutpoint config --cut seqcdc:avg=16k      cut new data differently. Duplicates of what was saved
                                            before are not found any more; old snapshots stay whole")]
pub(crate) struct Settings {
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
}

/// `init`.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("\
Defaults: --cut {DEFAULT_CUT} --region-size 2M --container-size 16M --compression-level 3

Examples:
  cutpoint init --repo /mnt/disk/backup
      asks for a passphrase and shows a recovery kit: print it and keep it away from the computer
  cutpoint init --repo /mnt/disk/backup --key-file ~/.cutpoint-key --recovery-kit kit.txt
      for a machine: makes a key file, and writes the recovery kit to kit.txt
  cutpoint init --repo /mnt/disk/backup --encryption none"))]
pub(crate) struct Init {
    /// What the repository is to be like.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Write the recovery kit to this file instead of the terminal; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
}

/// `backup`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A file whose size, times and inode are those of the former snapshot is not read again. A file that
cannot be read, or changes while it is read, is named, and the exit code is 1; all else is saved.

Patterns are those of a .gitignore file in the root folder: `*.o` and `target/` match anywhere,
`/home/me/tmp` in one place, and `!` takes back.

Examples:
  cutpoint backup ~ --exclude-caches --exclude '*.iso'
  cutpoint backup /etc /home --repo /mnt/disk/backup --init --key-file /etc/cutpoint.key
      for a script: makes the repository if there is none
  pg_dump shop | cutpoint backup --stdin --stdin-filename shop.sql --tag database")]
pub(crate) struct Backup {
    /// What to save
    #[arg(value_name = "PATH", required_unless_present = "stdin", conflicts_with = "stdin")]
    pub(crate) paths: Vec<PathBuf>,
    /// Make the repository if there is none
    #[arg(long)]
    pub(crate) init: bool,
    /// Where a repository is made: write its recovery kit to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
    /// Save standard input, as one file
    #[arg(long)]
    pub(crate) stdin: bool,
    /// The name of that file
    #[arg(long, value_name = "NAME", requires = "stdin", default_value = "stdin")]
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
    #[arg(long)]
    pub(crate) force_read: bool,
    /// Make no snapshot if nothing has changed
    #[arg(long)]
    pub(crate) skip_if_unchanged: bool,
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
exist with its length. With it every stored byte is read, opened, decoded and compared.

What is found is named, and the exit code is 1.

Examples:
  cutpoint check
  cutpoint check --read-data")]
pub(crate) struct Check {
    /// Read and verify every byte that is stored
    #[arg(long)]
    pub(crate) read_data: bool,
    /// Write nothing: do not record what is damaged, which the next backup needs to store it again
    #[arg(long)]
    pub(crate) no_record: bool,
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
