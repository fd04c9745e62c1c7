//! Ctrl-C and SIGTERM: the first asks the run to end well, the second ends it at once. And waiting
//! so that neither goes unheard.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit::Exit;

/// Whether somebody asked to stop. Made only once nothing waits for a person to type: until then
/// the system's own way, to end at once, is the right one.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second of two signals finds the flag that the first has set.
            let code = i32::from(Exit::Interrupted.code());
            flag::register_conditional_shutdown(signal, code, asked.clone())
                .and_then(|_| flag::register(signal, asked.clone()))
                .context("cannot listen for Ctrl-C")?;
        }
        Ok(Interrupt(asked))
    }

    /// Whether to stop.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long a read of [`Stdin`] waits for bytes before it says that there are none.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Standard input that gives up from time to time (`TimedOut`) while nothing comes: else somebody
/// who asks to stop would wait for whoever writes into the pipe. A pipe that does not block, as
/// another program that shares it may have made it, is as good as one that does.
#[derive(Debug)]
pub(crate) struct Stdin<F = io::Stdin>(F);

impl Stdin {
    pub(crate) fn new() -> Stdin {
        Stdin(io::stdin())
    }
}

impl<F: AsFd> Read for Stdin<F> {
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
        let mut stdin = Stdin(reader);
        let mut total = 0;
        loop {
            match stdin.read(&mut [0; 16]) {
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
