//! Clocks, randomness and the identity of this process: what a run takes from outside.
//!
//! Everything else in the store is a function of its arguments and of the media, so that a test
//! which supplies its own [`Environment`] repeats a run byte for byte.

use std::fmt::Debug;

use crate::error::{Error, Kind, Result};

/// What the store asks the world for.
pub trait Environment: Debug + Send + Sync {
    /// Wall-clock time in nanoseconds since 1970. Only politeness and reports depend on it.
    fn now_ns(&self) -> i64;

    /// A clock that never goes back and goes on while the machine sleeps, in nanoseconds.
    fn elapsed_ns(&self) -> u64;

    /// Fills `bytes` with random bytes that nobody can guess.
    ///
    /// # Errors
    ///
    /// `Media` where the system has no randomness to give.
    fn random(&self, bytes: &mut [u8]) -> Result<()>;

    /// Who is running.
    fn process(&self) -> Process;

    /// Whether the process that `other` describes may still be running: `false` only where this
    /// machine knows that it is not.
    fn may_be_alive(&self, other: &Process) -> bool;
}

/// Identifies a process, across machines and restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The name of the machine.
    pub host: String,
    /// Changes whenever the machine starts; empty where the system does not tell.
    pub boot_id: String,
    /// Where the process id counts: containers of one machine number their processes apart from
    /// each other. Empty where the system does not tell.
    pub namespace: String,
    /// The process id.
    pub process_id: u32,
    /// When the process started, in the system's own ticks since boot: tells apart processes that
    /// had the same id. 0 where the system does not tell.
    pub started: u64,
}

/// The real clocks and the system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

#[expect(clippy::disallowed_methods, reason = "this is where the rest of the store asks")]
impl Environment for System {
    fn now_ns(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
    }

    fn elapsed_ns(&self) -> u64 {
        // Boottime counts sleep; where there is none, monotonic is the best there is.
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        let ns = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
        u64::try_from(ns).unwrap_or(0)
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|error| {
            Error::new(Kind::Media, "randomness", format!("the system has none: {error}"))
        })
    }

    fn process(&self) -> Process {
        let process_id = u32::try_from(rustix::process::getpid().as_raw_nonzero().get());
        let process_id = process_id.unwrap_or(0);
        Process {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot_id: boot_id(),
            namespace: process_namespace(),
            process_id,
            started: process_started(process_id),
        }
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        let this = self.process();
        if other.host != this.host || other.boot_id.is_empty() || this.boot_id.is_empty() {
            return true;
        }
        // Another boot of the same machine: nothing of it runs any more.
        if other.boot_id != this.boot_id {
            return false;
        }
        // What another container runs cannot be seen from here.
        if other.namespace != this.namespace {
            return true;
        }
        other.started == 0 || process_started(other.process_id) == other.started
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The namespace of the process ids: on Linux a text such as `pid:[4026531836]`.
fn process_namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid")
        .map(|namespace| namespace.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// When a process started, in clock ticks since boot; 0 where there is no such process, or no
/// `/proc`.
fn process_started(process_id: u32) -> u64 {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process_id}/stat")) else {
        return 0;
    };
    // The command, in parentheses, may hold anything; the numbers follow the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Environment, Process, System};

    #[test]
    fn only_a_process_that_is_known_to_be_gone_is_dead() {
        let this = System.process();
        let gone = Process { started: this.started + 1, ..this.clone() };
        assert!(System.may_be_alive(&this), "this process runs");
        if !this.boot_id.is_empty() {
            assert!(!System.may_be_alive(&gone), "the id belongs to another process now");
            let rebooted = Process { boot_id: "another".to_owned(), ..this.clone() };
            assert!(!System.may_be_alive(&rebooted), "the machine has started since");
        }
        let contained = Process { namespace: "pid:[1]".to_owned(), ..gone.clone() };
        assert!(System.may_be_alive(&contained), "its container numbers processes itself");
        let elsewhere = Process { host: format!("{}-2", this.host), ..gone };
        assert!(System.may_be_alive(&elsewhere), "another machine's processes are not seen");
    }
}
