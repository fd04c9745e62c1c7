//! The arguments of `mount`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use cutpoint_terminal::Threads;

use super::Selection;

/// Show snapshots as a folder
#[derive(Debug, ClapArgs)]
#[command(
    long_about = "\
Show snapshots as a folder

DIR, an empty folder, shows the snapshots until the command ends, for any program that reads files. \
Nothing in it can be changed. It has these entries:

  latest        the newest snapshot
  by-time/TIME  all snapshots, by the time of their backup
  hosts/HOST/   those of a host, by time and as `latest`
  tags/TAG/     those with a tag, by time and as `latest`
  ids/ID        all snapshots, by their IDs

All but those in ids/ are symbolic links to ids/, so that a program that searches DIR reads each \
snapshot once. With a slash at its end, `latest/` is the folder itself.

New snapshots appear within a few seconds. Backups and `cutpoint prune` can run meanwhile. A \
forgotten snapshot disappears; what is open in it can be read until a prune deletes its data. A \
backup that meets DIR records an empty folder and says so, because each snapshot would contain \
the ones before it; `cutpoint backup DIR/latest/PATH` saves what is named itself.

The command runs in the foreground. Ctrl-C, SIGTERM or `fusermount3 -u DIR` unmounts the folder. If \
a program still uses the folder, the program keeps what it has open, and the command ends with it, \
or at the next Ctrl-C. A `&` behind the command puts it in the background; it needs a secret that \
need not be typed then (`cutpoint help secrets`).

Only the user who runs the command can enter DIR, and can read everything in it.

A damaged range of a file cannot be read (input/output error), is reported once, and makes the exit \
code 1. The rest of the file can be read.",
    before_help = "\
Examples:
  mkdir ~/snapshots
  cutpoint mount ~/snapshots
      In another terminal: ls ~/snapshots/latest/home
  cutpoint mount /mnt/old --key-file /etc/cut.key
      Asks for nothing, so that it can run in the background.
  cutpoint mount ~/snapshots --host laptop --tag weekly
      Shows only the snapshots that have both.
  cp -a ~/snapshots/by-time/2026-11-20*/home/me/letters .
  fusermount3 -u ~/snapshots
      Unmounts the folder."
)]
pub(crate) struct Mount {
    /// Folder that shows the snapshots; must be empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Let all users enter DIR, each with the permissions of the files
    ///
    /// Owners, permissions and ACLs are those in the snapshots, and also apply to the user who runs
    /// the command. A user other than root needs the line `user_allow_other` in /etc/fuse.conf.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// The snapshots to show.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
}
