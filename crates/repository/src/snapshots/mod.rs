//! Operations on snapshots: forgetting, holding, retention, and the chunks that they reach.

pub mod calendar;
pub mod lifecycle;
pub(crate) mod mark;
pub mod retention;
