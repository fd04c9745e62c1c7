//! Confirms by tables of contents what hints alone have decided.
//!
//! A hint that leads to the wrong container would make that container stay for a chunk which it does
//! not have, and the container that has the chunk seem dead. Either of two conditions excludes that:
//! the containers in which chunks stay have them all, or the containers that go have no chunk to
//! which no hint leads.

use std::cell::Cell;

use cutpoint_storage::{Kind, Result};

use super::container::{Container, staying};
use super::placement::Placement;
use crate::index::Index;

impl Placement {
    /// Returns the number of containers in which chunks stay.
    pub(crate) fn staying_count(&self) -> usize {
        self.containers.iter().filter(|container| container.live_count > 0).count()
    }

    /// Returns `true` if all chunks that stay are in the tables of contents of their containers. One
    /// that cannot be read confirms nothing.
    ///
    /// # Errors
    ///
    /// Returns any error of `stop_if_cancelled` and of a temporary file.
    pub(crate) fn is_confirmed(
        &self,
        index: &Index,
        stop_if_cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let is_confirmed = Cell::new(true);
        let mut live = self.live()?;
        let containers = (0..).zip(&self.containers);
        let wanted = containers
            .filter(|(_, container)| container.live_count > 0)
            .map(|(number, container)| (number, Some(container.record)))
            .take_while(|_| is_confirmed.get());
        index.each_toc(wanted, |number, toc| {
            stop_if_cancelled()?;
            let chunks = live.of(number)?;
            let has_all = match toc {
                Some(Ok(toc)) => staying(&toc.toc, &chunks).len() == chunks.len(),
                Some(Err(error)) if error.kind() == Kind::Interrupted => return Err(error),
                _ => false,
            };
            is_confirmed.set(is_confirmed.get() && has_all);
            Ok(())
        })?;
        live.end()?;
        Ok(is_confirmed.get())
    }

    /// Returns `true` if hints lead to all chunks of the containers that `is_going` selects. A table
    /// of contents that cannot be read confirms nothing.
    ///
    /// # Errors
    ///
    /// Returns any error of `stop_if_cancelled`.
    pub(crate) fn are_listed(
        &self,
        index: &Index,
        is_going: impl Fn(&Container) -> bool,
        stop_if_cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let are_listed = Cell::new(true);
        let containers = self.containers.iter().filter(|container| is_going(container));
        let wanted = containers
            .map(|container| (container, Some(container.record)))
            .take_while(|_| are_listed.get());
        index.each_toc(wanted, |container, toc| {
            stop_if_cancelled()?;
            let is_listed = match toc {
                Some(Ok(toc)) => container.require_hints(&toc.toc).is_ok(),
                Some(Err(error)) if error.kind() == Kind::Interrupted => return Err(error),
                _ => false,
            };
            are_listed.set(are_listed.get() && is_listed);
            Ok(())
        })?;
        Ok(are_listed.get())
    }
}
