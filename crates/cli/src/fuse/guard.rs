//! A guard: a process that unmounts the folder if this process is killed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The script of the guard. Its input ends with this process. What was mounted at the folder later is
/// left alone: its device is another one.
const SCRIPT: &str = r#"
read -r line
now=none
while read -r _ _ device _ point _; do
    if [ "$point" = "$3" ]; then now=$device; fi
done </proc/self/mountinfo
if [ "$now" = "$4" ]; then "$1" -uqz -- "$2" || umount -l -- "$2"; fi
"#;

/// A process that unmounts a folder as soon as this process is gone. Otherwise the folder would
/// stay, and every access to it would fail. FUSE has an option for this (`auto_unmount`), but only
/// together with `allow_other`, which would let other users enter the folder.
#[derive(Debug)]
pub(super) struct Guard(Mutex<Option<Child>>);

impl Guard {
    /// Starts a guard of `folder`, which is mounted. Without `sh`, there is none.
    pub(super) fn new(folder: &Path, helper: Option<&Path>) -> Guard {
        let helper = helper.unwrap_or(Path::new("false"));
        let mut command = Command::new("sh");
        let point = escaped(folder);
        command.args(["-c", SCRIPT, "sh"]).arg(helper).arg(folder).current_dir("/");
        command.arg(OsStr::from_bytes(&point)).arg(device(&point).unwrap_or_default());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, because Ctrl-C is for this process.
        Guard(Mutex::new(command.process_group(0).spawn().ok()))
    }

    /// Ends the guard, because the folder has been unmounted.
    pub(super) fn end(&self) {
        let child = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Returns the device that is mounted at `point`, a path as `mountinfo` has it.
fn device(point: &[u8]) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let fields = |line: &[u8]| -> Option<(Vec<u8>, String)> {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = String::from_utf8(fields.nth(2)?.to_vec()).ok()?;
        Some((fields.nth(1)?.to_vec(), device))
    };
    let mut mounts = mounts.split(|byte| *byte == b'\n').filter_map(fields);
    // A later mount covers an earlier one.
    mounts.rfind(|(found, _)| found == point).map(|(_, device)| device)
}

/// Returns a path as `mountinfo` has it (`proc_pid_mountinfo(5)`).
fn escaped(path: &Path) -> Vec<u8> {
    let escape = |&byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![byte],
    };
    path.as_os_str().as_bytes().iter().flat_map(escape).collect()
}
