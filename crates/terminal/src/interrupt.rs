//! Ctrl-C and SIGTERM: the first signal asks the run to end, the second one ends it at once.
//!
//! A command without anything to complete ends at the first signal already. A command that listens
//! ([`Interrupt::listen`]) ends gracefully: its waits end ([`cutpoint_storage::stop`]), and the
//! process exits after a second and a half at the latest. If stored objects are still to be published,
//! [`stop::PUBLISHING_MAX`] is added to the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cutpoint_storage::stop::{self, Stop};
use cutpoint_storage::{Environment, Interruptible, System, WaitNotice, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::{Exit, Failure};
use crate::report::{INTERRUPTED, Report};

/// The maximum time that a run takes to end after a signal if nothing is to be published.
const LIMIT: Duration = Duration::from_millis(1500);
/// The maximum time for the last message, because the reader of a pipe may have stopped reading.
const MESSAGE_LIMIT: Duration = Duration::from_millis(300);
/// The interval at which the limit is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The request to stop that signals make. There is one per process.
static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// The [`Manner`] in which the run ends after a signal.
static MANNER: AtomicU8 = AtomicU8::new(Manner::AtOnce as u8);
/// Set if the last message of the run is being printed or has been printed.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Set if a signal ends the process in its handler: after the first signal, unless a child command
/// must be ended, too.
static ENDS_AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The process group of a child command, which ends with this process, and the effect of a signal
/// on it.
static COMMAND: Mutex<Option<(Pid, AtSignal)>> = Mutex::new(None);
/// The function that shows notices of waits.
static TELLER: OnceLock<Teller> = OnceLock::new();
/// The settings of the terminal before a prompt changed them.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

type Teller = Box<dyn Fn(&WaitNotice) + Send + Sync>;

/// The effect of the first signal on a child command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtSignal {
    /// The command is asked to end (SIGTERM).
    End,
    /// The command may finish, because it cleans up.
    Finish,
}

/// The manner in which a run ends after a signal.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Manner {
    /// The process exits at once.
    AtOnce,
    /// The run ends by itself, within a limit.
    Well,
    /// The run ends by itself, without a limit, because it computes and waits for nothing.
    Unlimited,
}

/// Handles signals from now on.
///
/// # Errors
///
/// Returns an error if the system refuses to install a handler.
pub fn watch(report: &'static Report) -> Result<()> {
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

/// Sets the process group of a child command; `None` once it has ended. The first signal has the
/// given effect on it, and the end of this process ends it (SIGKILL). Because the command is in a
/// group of its own, it does not receive Ctrl-C.
pub fn set_command(group: Option<(Pid, AtSignal)>) {
    let mut command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    ENDS_AT_ONCE.store(group.is_none() && STOP.is_asked(), Ordering::SeqCst);
    *command = group;
}

/// Signals the child command, unless it may finish and is only asked to end. Returns `true` if there
/// is a command.
fn signal_command(signal: Signal) -> bool {
    let command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((group, at_signal)) = *command else { return false };
    if signal == Signal::KILL || at_signal == AtSignal::End {
        kill_process_group(group, signal).ok();
    }
    true
}

/// Asks the run to stop. Exits if the run has not ended in time, or at the second signal.
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

/// Ends the process, with a message if there is time for it.
fn leave(report: &'static Report) -> ! {
    signal_command(Signal::KILL);
    if is_first_to_end() {
        let settings = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(settings), Ok(terminal)) = (settings, File::open("/dev/tty")) {
            tcsetattr(terminal, OptionalActions::Now, &settings).ok();
        }
        let (said, is_said) = mpsc::channel();
        let say = move || {
            report.fail(&Failure::new(Exit::Interrupted, INTERRUPTED).into());
            said.send(()).ok();
        };
        // The run may hold a lock that the message needs, so the message gets a limited time.
        let speaker = std::thread::Builder::new().spawn(say);
        if speaker.is_ok() {
            is_said.recv_timeout(MESSAGE_LIMIT).ok();
        }
    } else {
        // The run is printing its last message.
        std::thread::sleep(MESSAGE_LIMIT);
    }
    signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()))
}

/// Returns `true` if the caller is the first one to print the last message and to end the process.
fn is_first_to_end() -> bool {
    !IS_ENDING.swap(true, Ordering::SeqCst)
}

/// Must be called before the last message of a run that has ended by itself. Does not return if a
/// signal has ended the run before.
pub fn begin_end() {
    if !is_first_to_end() {
        loop {
            std::thread::park();
        }
    }
}

/// Marks the process as having work to finish, even after a signal, until the guard is dropped. The
/// limit for it is [`stop::PUBLISHING_MAX`].
pub fn hold() -> stop::Hold {
    STOP.hold()
}

/// Sets the function that shows notices of waits, once for the process.
pub fn tell_waits(teller: impl Fn(&WaitNotice) + Send + Sync + 'static) {
    // Later ones are ignored, as documented.
    TELLER.set(Box::new(teller)).ok();
}

/// Returns the clocks and randomness of the system, with the request to stop that signals make, and
/// the function of [`tell_waits`].
pub fn environment() -> Arc<dyn Environment> {
    Arc::new(Interruptible::new(System, STOP.clone()).telling(|notice| {
        if let Some(teller) = TELLER.get() {
            teller(notice);
        }
    }))
}

/// A guard that exists while a prompt changes the settings of the terminal.
#[derive(Debug)]
pub struct Prompting(());

impl Prompting {
    /// Saves the settings, so that they are restored if a signal ends the run.
    pub fn begin() -> Prompting {
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

/// A run that ends by itself after a signal. Created only once no prompt waits for input, because
/// until then the process should exit at once.
#[derive(Clone, Debug)]
pub struct Interrupt(());

impl Interrupt {
    /// From now on, a signal asks the run to stop. The run ends within a second and a half, or later if
    /// objects are to be published.
    pub fn listen() -> Interrupt {
        MANNER.store(Manner::Well as u8, Ordering::SeqCst);
        Interrupt(())
    }

    /// From now on, a signal asks the run to stop. The run ends once it has printed its results,
    /// because it computes and waits for nothing.
    pub fn listen_without_limit() -> Interrupt {
        MANNER.store(Manner::Unlimited as u8, Ordering::SeqCst);
        Interrupt(())
    }

    /// Returns the request to stop without listening: a signal has the effect that it had before.
    pub fn of_process() -> Interrupt {
        Interrupt(())
    }

    /// Returns `true` if the run is to stop.
    pub fn is_asked(&self) -> bool {
        STOP.is_asked()
    }

    /// Waits for `time`, or until a signal ends the wait.
    pub fn sleep(&self, time: Duration) {
        wait::sleep(&*environment(), time);
    }
}

/// A time during which a signal asks the run to stop, as after [`Interrupt::listen`]. If there was no
/// signal, it has the effect again that it had before.
#[derive(Debug)]
pub struct Listening(u8);

impl Listening {
    /// Begins to listen.
    pub fn begin() -> Listening {
        Listening(MANNER.swap(Manner::Well as u8, Ordering::SeqCst))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !STOP.is_asked() {
            MANNER.store(self.0, Ordering::SeqCst);
        }
    }
}

/// The maximum time that a read of [`Patient`] waits for bytes before it times out.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A pipe whose reads time out (`TimedOut`) while no bytes come, because a request to stop would
/// otherwise wait for the process that writes to the pipe. A non-blocking pipe, which another
/// process that shares it may have made of it, works like a blocking one.
#[derive(Debug)]
pub struct Patient<F>(pub F);

impl<F: AsFd> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waiting = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut waiting, Some(&PATIENCE))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            // Bypasses the buffer of `std`, which poll would not know about.
            _ => match rustix::io::read(&self.0, buffer) {
                // Another process has taken the bytes.
                Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
                read => Ok(read?),
            },
        }
    }
}

/// Turns a write beyond the file size limit into an error, like that of a full disk, instead of the
/// end of the process.
pub fn survive_file_size_limit() -> Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .context("cannot handle the signal SIGXFSZ")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Write, pipe};

    use super::*;

    /// Reads to the end, across all timeouts.
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

    /// Of two readers that are told of one byte, one comes too late.
    #[test]
    fn non_blocking_pipe_is_read_to_its_end() {
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
