//! The inputs that a run takes from outside: clocks, randomness, and the identity of this process.
//!
//! Everything else in the store is a function of its arguments and of the storages, so that a test
//! with its own [`Environment`] repeats a run byte for byte.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::stop::Stop;
use crate::system::{self, Existence};
use crate::wait_notice::WaitNotice;

/// The source of time, randomness, and process identity.
pub trait Environment: Debug + Send + Sync {
    /// Returns the wall-clock time in nanoseconds since 1970. Only courtesy between clients and
    /// reports depend on it.
    fn now_ns(&self) -> i64;

    /// Returns the time of a clock that never goes back and keeps running while the machine sleeps,
    /// in nanoseconds.
    fn elapsed_ns(&self) -> u64;

    /// Returns the time of a clock like [`Environment::elapsed_ns`] that stops while the machine
    /// sleeps, on systems that have one.
    fn awake_ns(&self) -> u64 {
        self.elapsed_ns()
    }

    /// Blocks this thread for `time`. Waits consist of many short calls.
    fn block(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Fills `bytes` with unpredictable random bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the system cannot provide randomness.
    fn random(&self, bytes: &mut [u8]) -> Result<()>;

    /// Returns the identity of this process.
    fn process(&self) -> Process;

    /// Returns the request to stop that ends waits; `None` if this environment cannot be asked to
    /// stop.
    fn stop(&self) -> Option<&Stop> {
        None
    }

    /// Receives the notice of a wait, at its beginning and repeatedly while it lasts, from any
    /// thread. Ignored unless the environment belongs to a program that has a user.
    fn tell_wait(&self, notice: &WaitNotice) {
        let _ = notice;
    }

    /// Returns the random identity of this machine's installation (`/etc/machine-id`), which
    /// survives restarts and is shared by clones. `None` if the system has none; then no
    /// other process is ever known to be dead.
    ///
    /// The identity is confidential: only the value that `repo::liveness::machine_value` of the repository derives
    /// from it leaves the machine.
    fn machine_id(&self) -> Option<[u8; 16]> {
        None
    }

    /// Returns the time since this machine started, in nanoseconds, sleep included. `None` if the
    /// system does not provide it; then a process from before the last start is not known to be
    /// dead.
    fn since_boot_ns(&self) -> Option<u64> {
        None
    }

    /// Returns `true` if `other` may still be running, and `false` if this machine knows that it is
    /// gone. The answer is exact only for a process that has run on this machine since its last
    /// start, as its machine value and boot id show; it is `true` for any other process.
    fn may_be_alive(&self, other: &Process) -> bool;
}

/// A function that shows notices of waits.
type Teller = Arc<dyn Fn(&WaitNotice) + Send + Sync>;

/// An environment in which a request to stop can be made, and which tells waits.
#[derive(Clone)]
pub struct Interruptible<E> {
    inner: E,
    stop: Stop,
    teller: Option<Teller>,
}

impl<E> Interruptible<E> {
    /// Wraps `inner` with the request `stop`.
    pub fn new(inner: E, stop: Stop) -> Interruptible<E> {
        Interruptible { inner, stop, teller: None }
    }

    /// Returns this environment with `teller`, which receives the notices of waits instead of
    /// `inner`.
    #[must_use]
    pub fn telling(self, teller: impl Fn(&WaitNotice) + Send + Sync + 'static) -> Interruptible<E> {
        Interruptible { teller: Some(Arc::new(teller)), ..self }
    }
}

impl<E: Debug> Debug for Interruptible<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Interruptible { inner, stop, teller: _ } = self;
        f.debug_struct("Interruptible").field("inner", inner).field("stop", stop).finish()
    }
}

// A method that is added to the trait with a default has to be forwarded here, too.
#[deny(clippy::missing_trait_methods)]
impl<E: Environment> Environment for Interruptible<E> {
    fn now_ns(&self) -> i64 {
        self.inner.now_ns()
    }

    fn awake_ns(&self) -> u64 {
        self.inner.awake_ns()
    }

    fn elapsed_ns(&self) -> u64 {
        self.inner.elapsed_ns()
    }

    fn block(&self, time: Duration) {
        self.inner.block(time);
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        self.inner.random(bytes)
    }

    fn process(&self) -> Process {
        self.inner.process()
    }

    fn stop(&self) -> Option<&Stop> {
        Some(&self.stop)
    }

    fn tell_wait(&self, notice: &WaitNotice) {
        match &self.teller {
            Some(teller) => teller(notice),
            None => self.inner.tell_wait(notice),
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        self.inner.machine_id()
    }

    fn since_boot_ns(&self) -> Option<u64> {
        self.inner.since_boot_ns()
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        self.inner.may_be_alive(other)
    }
}

/// The identity of a process, across machines and restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The name of the machine.
    pub host: String,
    /// A value that changes whenever the machine starts; empty if the system has none.
    pub boot_id: String,
    /// The namespaces of the process id and the start time, because containers of one machine
    /// number their processes independently. Empty if the system has none.
    pub namespace: String,
    /// The process id.
    pub process_id: u32,
    /// The start of the process, in the system's own ticks since boot. It distinguishes processes
    /// that had the same id. 0 if the system does not provide it.
    pub started: u64,
}

/// The real clocks and the system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

#[expect(clippy::disallowed_methods, reason = "this is where the rest of the store asks")]
impl Environment for System {
    fn now_ns(&self) -> i64 {
        system::now_ns()
    }

    fn elapsed_ns(&self) -> u64 {
        system::elapsed_ns()
    }

    fn awake_ns(&self) -> u64 {
        system::awake_ns()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|error| {
            Error::new(Kind::Storage, "randomness", format!("the system has none: {error}"))
        })
    }

    fn process(&self) -> Process {
        let process_id = system::process_id();
        Process {
            host: system::host_name(),
            boot_id: boot_id(),
            namespace: process_namespace(),
            process_id,
            started: process_started(process_id),
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        parse_machine_id(&std::fs::read_to_string("/etc/machine-id").ok()?)
    }

    fn since_boot_ns(&self) -> Option<u64> {
        // On other systems the clock may stand still while the machine sleeps.
        cfg!(target_os = "linux").then(|| self.elapsed_ns())
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        let this = self.process();
        let is_of_this_boot = !this.boot_id.is_empty() && other.boot_id == this.boot_id;
        // The processes of another container cannot be seen from here.
        if !is_of_this_boot || other.host != this.host || other.namespace != this.namespace {
            return true;
        }
        !is_gone(other, system::existence(other.process_id), || process_started(other.process_id))
    }
}

/// Returns `true` if `other`, a process of this start and this namespace, is gone. Its existence
/// decides, and if the id exists, the start of the process that has it now (0: unknown). `/proc`
/// may hide the processes of other users or belong to another namespace, so that its silence proves
/// nothing.
fn is_gone(other: &Process, existence: Existence, started: impl FnOnce() -> u64) -> bool {
    match existence {
        Existence::Absent => true,
        Existence::Unknown => false,
        Existence::Exists => {
            let started = if other.started == 0 { 0 } else { started() };
            started != 0 && started != other.started
        }
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Parses the text of `/etc/machine-id`: 32 hexadecimal digits. Returns `None` for anything else,
/// such as an empty text or `uninitialized`, and for all zeros.
fn parse_machine_id(text: &str) -> Option<[u8; 16]> {
    let id = crate::hex::parse(text.trim())?;
    (id != [0; 16]).then_some(id)
}

/// Returns the namespaces of the process ids and of the clock for their start times: on Linux a
/// text such as `pid:[4026531836] time:[4026531834]`.
fn process_namespace() -> String {
    let namespace = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}"));
    let Ok(pid) = namespace("pid") else { return String::new() };
    let mut text = pid.to_string_lossy().into_owned();
    // Older kernels have no time namespaces.
    if let Ok(time) = namespace("time") {
        text = format!("{text} {}", time.to_string_lossy());
    }
    text
}

/// Returns the start of a process in clock ticks since boot; 0 if there is no such process, or no
/// `/proc` of this namespace that shows it.
fn process_started(process_id: u32) -> u64 {
    // A new namespace may still see the `/proc` of the old one, whose ids mean other processes.
    let own = std::fs::read_link("/proc/self").ok();
    let own = own.and_then(|own| own.to_str()?.parse::<u32>().ok());
    if own != Some(system::process_id()) {
        return 0;
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process_id}/stat")) else {
        return 0;
    };
    // The command, in parentheses, may contain any character; the numbers follow the last
    // parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Environment, Existence, Process, System, is_gone, parse_machine_id};

    #[test]
    fn only_a_process_that_is_known_to_be_gone_is_dead() {
        let this = System.process();
        assert!(System.may_be_alive(&this), "this process runs");
        let gone = Process { started: this.started + 1, ..this.clone() };
        if this.started != 0 {
            assert!(!System.may_be_alive(&gone), "the id belongs to another process now");
        }
        let rebooted = Process { boot_id: "another".to_owned(), ..gone.clone() };
        assert!(System.may_be_alive(&rebooted), "clones have other boots at the same time");
        let contained = Process { namespace: "pid:[1]".to_owned(), ..gone.clone() };
        assert!(System.may_be_alive(&contained), "its container numbers processes itself");
        let elsewhere = Process { host: format!("{}-2", this.host), ..gone };
        assert!(System.may_be_alive(&elsewhere), "another machine's processes are not seen");
    }

    /// A `/proc` that is mounted with `hidepid=2` shows no process of another user.
    #[test]
    fn process_hidden_in_proc_is_alive() {
        let other = Process { process_id: 7, started: 100, ..Process::default() };
        let hidden = || 0;
        assert!(!is_gone(&other, Existence::Exists, hidden), "it exists, and is hidden");
        assert!(!is_gone(&other, Existence::Exists, || 100), "it is shown");
        assert!(is_gone(&other, Existence::Exists, || 101), "another has its id now");
        assert!(is_gone(&other, Existence::Absent, || 100), "nothing has that id");
        assert!(!is_gone(&other, Existence::Unknown, hidden), "the system does not say");
        let untold = Process { started: 0, ..other };
        assert!(!is_gone(&untold, Existence::Exists, || 101), "its start was not told");
    }

    #[test]
    fn machine_id_is_32_digits_or_absent() {
        let text = "0123456789abcdef0123456789abcdef\n";
        let id = parse_machine_id(text).expect("a machine's id");
        assert_eq!((id[0], id[15]), (0x01, 0xef), "its bytes");
        for none in ["", "\n", "uninitialized\n", "0123", &"0".repeat(32), &"g".repeat(32)] {
            assert_eq!(parse_machine_id(none), None, "{none:?}");
        }
    }
}
