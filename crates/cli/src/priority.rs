//! The priority of this process among others of the machine.

use std::process::{Command, Stdio};

use crate::report::Report;

/// The lowest priority for processors (`nice`).
const NICE: i32 = 19;
/// The class of `ionice` of which requests wait for those of all others.
const IDLE_CLASS: &str = "3";

/// Lowers the priority of this thread, and of those and of the processes that it starts from now on.
///
/// The system call for the priority of I/O has no safe binding that is kept up, so that `ionice` makes
/// it. Without that program, Linux derives a low priority for I/O from the one for processors.
pub(crate) fn lower() -> Lowered {
    let is_nice = rustix::process::setpriority_process(None, NICE).is_ok();
    let is_idle = cfg!(target_os = "linux") && set_idle_class();
    Lowered { is_nice, is_idle }
}

fn set_idle_class() -> bool {
    let id = std::process::id().to_string();
    let mut ionice = Command::new("ionice");
    ionice.args(["-c", IDLE_CLASS, "-p", &id]);
    ionice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ionice.status().is_ok_and(|status| status.success())
}

/// The priorities that were lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowered {
    is_nice: bool,
    is_idle: bool,
}

impl Lowered {
    /// Notes which priority could not be lowered.
    pub(crate) fn tell(self, report: &Report) {
        if !self.is_nice {
            report.note("--low-priority: the system does not lower the priority for processors.");
        }
        if !self.is_idle {
            report.detail(|| {
                "--low-priority: `ionice` is not available; the priority for disks follows that \
                 for processors"
                    .to_owned()
            });
        }
    }
}
