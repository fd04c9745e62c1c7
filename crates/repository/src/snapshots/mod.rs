//! Operations on snapshots: forgetting, holding, notes, retention, and the chunks that they reach.
//! Nothing in this room deletes an object.
//!
//! In the order in which the files build on each other:
//!
//! - `small_writer`: a writer of one small commit or record.
//! - `forget`: [`forget()`] and [`unforget`].
//! - `hold`: [`hold()`] and [`release`].
//! - `note`: tags and descriptions ([`note()`]).
//! - `calendar`: days, weeks and months.
//! - `retention`: the rules that decide which snapshots are kept ([`retention::judge`]).
//! - `mark`: finds everything that snapshots reach.

pub mod calendar;
mod forget;
mod hold;
pub(crate) mod mark;
mod note;
pub mod retention;
mod small_writer;

pub use forget::{forget, unforget};
pub use hold::{hold, release};
pub use note::note;
pub(crate) use small_writer::commit_alone;
