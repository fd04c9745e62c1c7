//! The CPU time of a thread.

use std::time::Duration;

/// Returns the CPU time that this thread has used so far.
#[cfg(unix)]
pub(crate) fn thread_cpu_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// Returns the CPU time that this thread has used so far. The system counts it in steps of up to 16 ms, so
/// only sums over many calls are meaningful.
#[cfg(windows)]
pub(crate) fn thread_cpu_time() -> Duration {
    // The system answers for the thread that asks.
    cpu_time::ThreadTime::try_now().map_or(Duration::ZERO, |time| time.as_duration())
}
