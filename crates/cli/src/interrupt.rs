//! Ctrl-C and SIGTERM: the first asks the run to end, the second ends it at once.
//!
//! A command that has nothing to bring to an end is left at the first signal already. One that
//! listens ([`Interrupt::listen`]) ends well: its waits end ([`cutpoint_store::stop`]), and it is left
//! after [`LIMIT`], or, where stored objects are to be published, after that and
//! [`stop::PUBLISHING_MAX`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cutpoint_store::environment::{Environment, Interruptible, System};
use cutpoint_store::stop::{self, Stop};
use cutpoint_store::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::{Exit, Failure};
use crate::report::Report;

/// The maximum time that a run takes to end after a signal, where nothing is to be published.
const LIMIT: Duration = Duration::from_millis(1500);
/// The maximum time that the last message takes: the reader of a pipe may have stopped reading.
const MESSAGE_LIMIT: Duration = Duration::from_millis(300);
/// The interval at which the end of the limit is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The request to stop that signals make: there is one, as there is one process.
static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// The manner in which the run ends after a signal, a [`Manner`].
static MANNER: AtomicU8 = AtomicU8::new(Manner::AtOnce as u8);
/// Whether the last message of the run is said, or is being said.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Set where a signal ends the process in its handler: after the first one, unless a command is to be
/// ended with it.
static ENDS_AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The process group of a command that runs for this process, and ends with it.
static COMMAND: Mutex<Option<Pid>> = Mutex::new(None);
/// The settings of the terminal before a prompt has changed them.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// The manner in which a run ends after a signal.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Manner {
    /// It is left where it is.
    AtOnce,
    /// It ends by itself, within a limit.
    Well,
    /// It ends by itself: it computes, and waits for nothing.
    Unlimited,
}

/// Waits for signals from now on.
///
/// # Errors
///
/// Where the system refuses.
pub(crate) fn watch(report: &'static Report) -> Result<()> {
    let context = "cannot listen for Ctrl-C";
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        flag::register_conditional_shutdown(signal, code, ENDS_AT_ONCE.clone()).context(context)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context(context)?;
    let first = move || {
        if signals.forever().next().is_some() {
            end(signals, report);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(first).context(context)?;
    Ok(())
}

/// Notes the process group of a command that runs for this process; `None` once it has ended. The first
/// signal asks it to end (SIGTERM), the end of the process ends it (SIGKILL): in a group of its own it does not
/// hear of Ctrl-C.
pub(crate) fn set_command(group: Option<Pid>) {
    let mut command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    ENDS_AT_ONCE.store(group.is_none() && STOP.is_asked(), Ordering::SeqCst);
    *command = group;
}

/// Signals the command that runs for this process. Returns whether there is one.
fn signal_command(signal: Signal) -> bool {
    let command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(group) = *command else { return false };
    kill_process_group(group, signal).ok();
    true
}

/// Asks the run to stop, and leaves it where it has not ended in time, or at the second signal.
fn end(mut signals: Signals, report: &'static Report) {
    STOP.ask(System.elapsed_ns());
    if !signal_command(Signal::TERM) {
        ENDS_AT_ONCE.store(true, Ordering::SeqCst);
    }
    let asked = Instant::now();
    loop {
        let manner = MANNER.load(Ordering::SeqCst);
        let limit = match manner {
            _ if manner == Manner::AtOnce as u8 => Some(Duration::ZERO),
            _ if manner == Manner::Unlimited as u8 => None,
            _ if STOP.is_held() => Some(stop::PUBLISHING_MAX + LIMIT),
            _ => Some(LIMIT),
        };
        if signals.pending().next().is_some() {
            signal_command(Signal::KILL);
            signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()))
        }
        if limit.is_some_and(|limit| asked.elapsed() >= limit) {
            leave(report);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ends the process, with a message where there is time for one.
fn leave(report: &'static Report) -> ! {
    signal_command(Signal::KILL);
    if is_first_to_end() {
        let settings = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(settings), Ok(terminal)) = (settings, File::open("/dev/tty")) {
            tcsetattr(terminal, OptionalActions::Now, &settings).ok();
        }
        let (said, is_said) = mpsc::channel();
        let say = move || {
            report.fail(&Failure::new(Exit::Interrupted, "interrupted").into());
            said.send(()).ok();
        };
        // The run may hold what a message needs: it gets no more than its time.
        let speaker = std::thread::Builder::new().spawn(say);
        if speaker.is_ok() {
            is_said.recv_timeout(MESSAGE_LIMIT).ok();
        }
    } else {
        // The run is at its last message.
        std::thread::sleep(MESSAGE_LIMIT);
    }
    signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()))
}

/// Whether the caller is the one that says the last message, and ends the process.
fn is_first_to_end() -> bool {
    !IS_ENDING.swap(true, Ordering::SeqCst)
}

/// Called before the last message of a run that has ended by itself. Does not return where a signal
/// has ended it before.
pub(crate) fn begin_end() {
    if !is_first_to_end() {
        loop {
            std::thread::park();
        }
    }
}

/// The system's clocks and randomness, and the request to stop that signals make.
pub(crate) fn environment() -> Arc<dyn Environment> {
    Arc::new(Interruptible::new(System, STOP.clone()))
}

/// A guard while a prompt changes the settings of the terminal.
#[derive(Debug)]
pub(crate) struct Prompting(());

impl Prompting {
    /// Remembers the settings, so that they are set again should a signal end the run.
    pub(crate) fn begin() -> Prompting {
        let settings = File::open("/dev/tty").ok().and_then(|tty| tcgetattr(tty).ok());
        *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Prompting(())
    }
}

impl Drop for Prompting {
    fn drop(&mut self) {
        *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A run that ends by itself after a signal. Made only once nothing waits for a person to type:
/// until then, to be left at once is right.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(());

impl Interrupt {
    /// From now on a signal asks; the run ends within [`LIMIT`], or longer where something is to be
    /// published.
    pub(crate) fn listen() -> Interrupt {
        MANNER.store(Manner::Well as u8, Ordering::SeqCst);
        Interrupt(())
    }

    /// From now on a signal asks, and the run ends when it has said what it has found: it computes,
    /// and waits for nothing.
    pub(crate) fn listen_without_limit() -> Interrupt {
        MANNER.store(Manner::Unlimited as u8, Ordering::SeqCst);
        Interrupt(())
    }

    /// Whether to stop.
    pub(crate) fn is_asked(&self) -> bool {
        STOP.is_asked()
    }

    /// Waits for `time`, or until a signal ends the wait.
    pub(crate) fn sleep(&self, time: Duration) {
        wait::sleep(&*environment(), time);
    }
}

/// How long a read of [`Patient`] waits for bytes before it says that there are none.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A pipe that gives up from time to time (`TimedOut`) while nothing comes: else somebody
/// who asks to stop would wait for whoever writes into the pipe. A pipe that does not block, as
/// another program that shares it may have made it, is as good as one that does.
#[derive(Debug)]
pub(crate) struct Patient<F>(pub(crate) F);

impl<F: AsFd> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waiting = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut waiting, Some(&PATIENCE))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            // Without std's buffer, of which poll would not know.
            _ => match rustix::io::read(&self.0, buffer) {
                // Another has taken what there was.
                Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
                read => Ok(read?),
            },
        }
    }
}

/// Makes a write beyond the limit of file sizes an error, as a full disk is, instead of the end of
/// the process.
pub(crate) fn survive_file_size_limit() -> Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .context("cannot handle the signal SIGXFSZ")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Write, pipe};

    use super::*;

    /// Reads to the end, however often there is nothing.
    fn read_all(reader: PipeReader) -> io::Result<u64> {
        let mut pipe = Patient(reader);
        let mut total = 0;
        loop {
            match pipe.read(&mut [0; 16]) {
                Ok(0) => return Ok(total),
                Ok(count) => total += count as u64,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Of two that hear that there is a byte, one comes too late.
    #[test]
    fn a_pipe_that_does_not_block_is_read_to_its_end() {
        let (reader, mut writer) = pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&reader, true).expect("it does not block any more");
        let other = reader.try_clone().expect("a second reader");
        let readers = [reader, other].map(|each| std::thread::spawn(|| read_all(each)));
        for _ in 0..20_000 {
            writer.write_all(b"x").expect("somebody reads");
        }
        drop(writer);
        let read = readers.map(|each| each.join().expect("no panic").expect("no failure"));
        assert_eq!(read.iter().sum::<u64>(), 20_000, "all of it");
    }
}
