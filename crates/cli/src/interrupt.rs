//! Ctrl-C and SIGTERM: the first asks the run to end well, the second ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
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

/// Makes a write beyond the limit of file sizes an error, as a full disk is, instead of the end of
/// the process.
pub(crate) fn survive_file_size_limit() -> Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .context("cannot handle the signal SIGXFSZ")?;
    Ok(())
}
