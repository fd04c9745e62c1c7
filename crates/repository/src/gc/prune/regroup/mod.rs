//! Stores again what an optimization moves, in an order that compresses and reads well
//! ([`super::optimize`]).
//!
//! The first part is what the newest snapshots need, in the order of their streams, with each full
//! chunk where it is first needed. The second part is the rest, with similar chunks side by side,
//! or as delta chunks of one of them.
//!
//! Nothing relies on this order. At the end each container is checked: everything that stays of the
//! container must have been stored and published in the needed form, or is copied in the way of a
//! prune, or the container itself stays. So P4 holds whatever happens before.
//!
//! In the order in which the files build on each other:
//!
//! - `bases`: full chunks that others resemble.
//! - `mover`: stores one chunk again.
//! - `newest`: the first part.
//! - `rest`: the second part.
//! - `regrouping`: runs both parts, and checks the containers.

mod bases;
mod mover;
mod newest;
mod regrouping;
mod rest;

pub(super) use mover::Reencodings;
pub(super) use regrouping::{Regrouping, regroup};
