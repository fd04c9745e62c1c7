//! The pulse of a prune: progress reports, cancellation, and the renewal of its ticket.

use std::cell::RefCell;

use cutpoint_storage::Result;

use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::write::Writer;

/// The monitor of a running prune, and the writer whose ticket must be renewed meanwhile.
pub(super) struct Pulse<'a> {
    pub(super) monitor: &'a dyn PruneMonitor,
    writer: Option<RefCell<&'a mut Writer>>,
}

impl<'a> Pulse<'a> {
    /// Creates the pulse of a plan that nothing carries out, and which has no ticket.
    pub(super) fn without_writer(monitor: &'a dyn PruneMonitor) -> Pulse<'a> {
        Pulse { monitor, writer: None }
    }

    /// Creates the pulse of a prune whose ticket is that of `writer`.
    pub(super) fn new(monitor: &'a dyn PruneMonitor, writer: &'a mut Writer) -> Pulse<'a> {
        Pulse { monitor, writer: Some(RefCell::new(writer)) }
    }

    /// Renews the ticket if that is due, and checks for cancellation. Called often.
    ///
    /// # Errors
    ///
    /// Returns `Interrupted` if the monitor cancels.
    pub(super) fn beat(&self) -> Result<()> {
        if let Some(writer) = &self.writer {
            renew(&mut writer.borrow_mut());
        }
        stop_if_cancelled(self.monitor)
    }
}

/// Renews the ticket of a writer if that is due. A renewal that fails is ignored: the next one may
/// succeed, and the end of the prune checks (W5).
pub(super) fn renew(writer: &mut Writer) {
    writer.renew().ok();
}
