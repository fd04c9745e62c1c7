//! Pruning: condemns the containers of which no snapshot needs anything. A sweep deletes them later
//! ([`crate::gc::sweep`]).
//!
//! A prune is a writer that ends by a numbered record (rules P1 to P5 of `docs/protocol.md`). It
//! surveys what exists and which chunks are live (P1 to P3), decides what becomes of each container
//! (P4), stores again what has to move (P4), and puts the record (P5). Memory does not grow with
//! the number of chunks, except for the filters of the hints and the table of containers, because
//! the live chunks are sorted in files.
//!
//! An optimization is a prune that rewrites more, in another order ([`optimize()`]).
//!
//! In the order in which the files build on each other:
//!
//! - `options`, `task`, `plan`, `outcome`: what a caller asks for, and what it gets.
//! - `pulse`: progress, cancellation and the renewal of the ticket.
//! - `source`: reads what is stored again; damage of a source differs in type from a failed put.
//! - `survey`: P1 to P3 (`Survey::new`).
//! - `usage`, `sample`, `rewriting`, `examine`: estimates by container.
//! - `dead_segments`: index segments of which nothing stays.
//! - `selection`: P4, what becomes of each container (`select`).
//! - `rewrite`, `regroup`, `merge`, `relocate`: P4, storing again (`relocate`).
//! - `history`: P6 and P7, the commits that a record takes along.
//! - `record`: P5, what the record says.
//! - `attempt`: one attempt by one writer.
//! - `checkpoint`: copies of commits and records, for clients without a cache.
//! - `run`: attempts until one succeeds ([`prune`]).
//! - `optimize`: an optimization in terms of a prune.

mod attempt;
mod checkpoint;
mod dead_segments;
mod examine;
mod history;
mod merge;
mod optimize;
mod options;
mod outcome;
mod plan;
mod pulse;
mod record;
mod regroup;
mod relocate;
mod rewrite;
mod rewriting;
mod run;
mod sample;
mod selection;
mod source;
mod survey;
mod task;
mod usage;

pub use crate::gc::monitor::{Phase, PruneMonitor};
pub use optimize::{OptimizeOptions, optimize, plan_optimize};
pub use options::PruneOptions;
pub use outcome::PruneReport;
pub use plan::PrunePlan;
pub use run::{plan, prune};
