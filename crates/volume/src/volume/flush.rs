//! Makes writes durable.

use std::sync::PoisonError;

use super::Volume;
use crate::error::{Error, Kind, Result};

impl Volume {
    /// Makes all writes durable that had returned before the call, those of other threads as well.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot promise that. Nothing can be written after such a failure, until
    /// the volume is opened again, because the system may have dropped what it could not write.
    pub fn flush(&self) -> Result<()> {
        self.end_partial_if_any()?;
        let state = self.read_state();
        state.check_failure()?;
        if self.is_read_only || state.log.begin_flush().is_none() {
            return Ok(());
        }
        drop(state);
        let _one_at_a_time = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another flush may have synced everything while this one waited.
        let state = self.read_state();
        state.check_failure()?;
        let Some(plan) = state.log.begin_flush() else { return Ok(()) };
        drop(state);
        let synced = plan.sync(&self.core);
        let mut state = self.state_mut();
        match synced {
            Ok(()) => {
                state.log.end_flush(&plan);
                Ok(())
            }
            Err(error) => {
                state.failure = Some(error.to_string());
                Err(Error::new(Kind::Io, error.object(), error.problem()))
            }
        }
    }
}
