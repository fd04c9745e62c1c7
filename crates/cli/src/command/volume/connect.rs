//! `volume connect`: makes a served disk a device of this machine.

use std::fs;
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::args::VolumeConnect;
use crate::event::{Connected, Event};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;

/// The interval at which the end of the command and of its children is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The maximum time until a device is there.
const START_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn run(args: &VolumeConnect, report: &Report) -> Result<Exit> {
    let default = || args.folder.join(super::serve::SOCKET);
    let socket = std::path::absolute(args.socket.clone().unwrap_or_else(default))?;
    // A killed server leaves its socket. What else is wrong with a socket is for the client to tell.
    let is_absent = UnixStream::connect(&socket)
        .is_err_and(|error| matches!(error.kind(), NotFound | ConnectionRefused));
    if is_absent {
        let (folder, shown) = (args.folder.display(), socket.display());
        let failure = Failure::failed(format!("{folder}: not served at {shown}"));
        let remedy = "`cutpoint volume serve` serves it, in another terminal; --socket names \
                      the socket of its --listen unix:PATH";
        return Err(failure.with_remedy(remedy).into());
    }
    let interrupt = Interrupt::listen_without_limit();
    let device = match free_device() {
        Some(device) if has_program("nbd-client") => Device::kernel(device, &socket, args)?,
        _ => Device::fuse(&socket, args)?,
    };
    if report.is_json() {
        let path = device.path.display().to_string();
        report.event(&Event::Connected(Connected { path: &path }))?;
    } else {
        report.line(&device.path.display().to_string())?;
        report.note("Ctrl-C disconnects. Unmount first.");
    }
    report.flush()?;
    let mut device = device;
    while !interrupt.is_asked() {
        if device.has_ended() {
            let message = format!("{}: the server has ended", device.path.display());
            return Err(Failure::failed(message).into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Exit::Well)
}

/// A device that is connected. It is disconnected with the value.
struct Device {
    path: PathBuf,
    attached: Attached,
}

enum Attached {
    Kernel,
    Fuse { child: Child, file: PathBuf, is_loop: bool, _folder: tempfile::TempDir },
}

impl Device {
    /// Connects by the kernel's own client.
    fn kernel(path: PathBuf, socket: &Path, args: &VolumeConnect) -> Result<Device> {
        let mut command = Command::new("nbd-client");
        command.arg("-unix").arg(socket).arg(&path).args(["-N", &args.disk]);
        call(command.args(args.read_only.then_some("-R")))?;
        Ok(Device { path, attached: Attached::Kernel })
    }

    /// Connects by `nbdfuse`, and makes its file a block device if this user may.
    fn fuse(socket: &Path, args: &VolumeConnect) -> Result<Device> {
        if !has_program("nbdfuse") {
            let failure = Failure::failed("neither a free /dev/nbdN nor nbdfuse was found");
            let remedy =
                "`modprobe nbd` and install nbd-client, or install nbdfuse (package libnbd-bin)";
            return Err(failure.with_remedy(remedy).into());
        }
        let folder = tempfile::tempdir().context("temporary folder")?;
        let file = folder.path().join("disk");
        fs::write(&file, b"").context("temporary folder")?;
        let mut command = Command::new("nbdfuse");
        let uri = format!("nbd+unix:///{}?socket={}", args.disk, socket.display());
        command.args(args.read_only.then_some("-r")).arg(&file).arg(uri);
        // Ctrl-C is for this process, which disconnects in order.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().context("nbdfuse")?;
        let attached =
            Attached::Fuse { child, file: file.clone(), is_loop: false, _folder: folder };
        let mut device = Device { path: file, attached };
        let started = Instant::now();
        while fs::metadata(&device.path).map_or(0, |about| about.len()) == 0 {
            if device.has_ended() || started.elapsed() > START_TIMEOUT {
                let failure = Failure::failed(format!("{}: nbdfuse cannot connect", args.disk));
                let remedy = "`cutpoint volume list` names the disks";
                return Err(failure.with_remedy(remedy).into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        device.make_loop(args.read_only);
        Ok(device)
    }

    /// Makes the file of `nbdfuse` a block device, unless this user may not.
    fn make_loop(&mut self, read_only: bool) {
        let Attached::Fuse { file, is_loop, .. } = &mut self.attached else { return };
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on"]);
        command.args(read_only.then_some("--read-only")).arg(&*file);
        let Ok(output) = command.output() else { return };
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !path.is_empty() {
            self.path = path.into();
            *is_loop = true;
        }
    }

    fn has_ended(&mut self) -> bool {
        match &mut self.attached {
            Attached::Kernel => {
                let name = self.path.file_name().unwrap_or_default();
                !Path::new("/sys/block").join(name).join("pid").exists()
            }
            Attached::Fuse { child, .. } => !matches!(child.try_wait(), Ok(None)),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // What cannot be disconnected is in use, and the system tells so.
        match &mut self.attached {
            Attached::Kernel => drop(call(Command::new("nbd-client").arg("-d").arg(&self.path))),
            Attached::Fuse { child, file, is_loop, .. } => {
                if *is_loop {
                    call(Command::new("losetup").arg("--detach").arg(&self.path)).ok();
                }
                call(Command::new("fusermount3").arg("-u").arg(&*file)).ok();
                let asked = Instant::now();
                while matches!(child.try_wait(), Ok(None)) && asked.elapsed() < START_TIMEOUT {
                    std::thread::sleep(LOOK_EVERY);
                }
                child.kill().ok();
                child.wait().ok();
            }
        }
    }
}

/// Returns a device of the kernel's NBD client that is not connected.
fn free_device() -> Option<PathBuf> {
    let numbers = (0..16).map(|number| format!("nbd{number}"));
    let mut free = numbers.filter(|name| {
        let about = Path::new("/sys/block").join(name);
        about.exists() && !about.join("pid").exists()
    });
    free.next().map(|name| Path::new("/dev").join(name))
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Runs a program to its end.
fn call(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program.clone())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format!("{program}: {}", said.trim())).into())
}
