//! A guard: a process that unmounts the folder if this process is killed.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The script of the guard. Its input ends with this process.
const SCRIPT: &str = r#"read -r line; "$1" -uqz -- "$2" || umount -l -- "$2""#;

/// A process that unmounts a folder as soon as this process is gone. Otherwise the folder would
/// stay, and every access to it would fail. FUSE has an option for this (`auto_unmount`), but only
/// together with `allow_other`, which would let other users enter the folder.
#[derive(Debug)]
pub(super) struct Guard(Option<Child>);

impl Guard {
    /// Starts a guard of `folder`. Without `sh`, there is none.
    pub(super) fn new(folder: &Path, helper: Option<&Path>) -> Guard {
        let helper = helper.unwrap_or(Path::new("false"));
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(helper).arg(folder).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, because Ctrl-C is for this process.
        Guard(command.process_group(0).spawn().ok())
    }

    /// Ends the guard, because the folder has been unmounted.
    pub(super) fn end(self) {
        if let Some(mut child) = self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
