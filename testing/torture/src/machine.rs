//! Machines: processes that differ in host name, boot id, machine id, memory and cache.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cutpoint_testing::skipped;

/// The host name, boot id and machine id of each machine. Two machines are clones with the same
/// name and machine id, and different boot ids.
const MACHINES: [(&str, &str, &str); 3] = [
    ("localhost", "11111111-1111-4111-8111-111111111111", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("localhost", "22222222-2222-4222-8222-222222222222", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("other", "33333333-3333-4333-8333-333333333333", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
];

/// The script that runs a command as another machine. Its first arguments are the host name, the
/// file with the boot id and the file with the machine id. If a mount fails, the command does not
/// start.
const AS_MACHINE: &str = r#"set -e
hostname "$1"
mount --bind "$2" /proc/sys/kernel/random/boot_id
if [ -e /etc/machine-id ]; then mount --bind "$3" /etc/machine-id; fi
shift 3
exec env "$@""#;

/// A machine on which processes are started.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The home folder, with caches and state.
    pub(crate) home: PathBuf,
    /// The host name, boot id file and machine id file, or `None` if this system cannot stand in
    /// for others.
    identity: Option<(&'static str, PathBuf, PathBuf)>,
}

impl Machine {
    /// Creates all machines, each with a home below `folder`.
    pub(crate) fn all(folder: &Path) -> Vec<Machine> {
        let mut machines: Vec<Machine> = MACHINES
            .iter()
            .enumerate()
            .map(|(number, (host, boot_id, machine_id))| {
                let home = folder.join(format!("machine {number}"));
                fs::create_dir(&home).expect("a home is made");
                let (boot, machine) = (home.join("boot_id"), home.join("machine-id"));
                fs::write(&boot, format!("{boot_id}\n")).expect("a boot id is written");
                fs::write(&machine, format!("{machine_id}\n")).expect("a machine id is written");
                Machine { home, identity: Some((host, boot, machine)) }
            })
            .collect();
        let mut tried = machines[0].command(Path::new("true"), &[]);
        let tried = tried.stdin(Stdio::null()).output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            skipped(
                "all processes ran on one machine: standing in for others needs root and `unshare`",
            );
            machines.iter_mut().for_each(|machine| machine.identity = None);
        }
        machines
    }

    /// Returns a command that runs `program` on this machine, with additional environment
    /// variables.
    pub(crate) fn command(&self, program: &Path, variables: &[(&str, OsString)]) -> Command {
        let home = [
            ("HOME", self.home.clone()),
            ("XDG_STATE_HOME", self.home.join("state")),
            ("XDG_CACHE_HOME", self.home.join("cache")),
        ];
        let mut command = match &self.identity {
            Some((host, boot_id, machine_id)) => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "--uts", "sh", "-c", AS_MACHINE, "sh", host]);
                command.args([boot_id, machine_id]);
                // Only the program itself runs by a shifted clock, and not the shell.
                command.args(variables.iter().map(|(name, value)| {
                    let mut assignment = OsString::from(name);
                    assignment.push("=");
                    assignment.push(value);
                    assignment
                }));
                command.arg(program);
                command
            }
            None => {
                let mut command = Command::new(program);
                command.envs(variables.iter().map(|(name, value)| (name, value)));
                command
            }
        };
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(home)
            .stdin(Stdio::null());
        command
    }
}
