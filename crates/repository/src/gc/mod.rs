//! Garbage collection: finds the chunks that no snapshot needs, and deletes the containers that
//! hold nothing else.
//!
//! It takes two steps, both without locks. A *prune* ([`prune`]) condemns containers by a numbered
//! record, and deletes nothing. A *sweep* ([`sweep`]) deletes the condemned containers: at once if
//! listings of all clients show puts at once, and otherwise after a delay (in the program: 10 minutes
//! for a folder, 24 hours elsewhere). Rules P1 to P7 and S1 to S5 of `docs/protocol.md` have the
//! proof.
//!
//! # What a running backup needs is not deleted
//!
//! A backup puts its ticket before it lists the repository (W1, `Writer::begin`). There are three
//! kinds of containers that it may depend on:
//!
//! 1. *Containers that the backup has put.* A prune condemns only containers that a segment of its
//!    view names, or that belong to a writer that has ended (P1, `find_orphans` in
//!    `prune/survey.rs`). The segments of a writer count from its commit on (`View::segments`), so
//!    the containers of a running writer are neither.
//! 2. *Containers that were condemned before the backup began.* The record is in the view of the
//!    backup, and a writer does not find chunks in condemned containers (W2, `State::allows` in
//!    `index/state.rs`). It stores such chunks again.
//! 3. *Containers that are condemned while the backup runs.* The backup may refer to them, and the
//!    prune did not know its snapshot. So the sweep waits until every backup with an open ticket
//!    has committed or was ended (S1, `Waiting::look` in `sweep/wait.rs`). It then lists again (S2,
//!    `Sweeper::try_step` in `sweep/sweeper.rs`), marks the snapshots that the prune had not
//!    marked, and stores again each of their chunks that only condemned containers have (S3 and S4,
//!    `Rescuer::run` in `sweep/rescue.rs`). After checking that these copies exist
//!    (`Rescue::require_present`), it deletes (S5, `Deleter::run` in `sweep/delete.rs`).
//!
//! A dead backup does not delay a sweep for ever: `end_dead_among` puts a `void` under the name of
//! the backup's commit. If the backup is alive after all, it cannot commit and restarts (W6). A
//! backup that slept during a sweep does not commit either, because it renewed its ticket too late
//! or finds a container missing (W5, `Writer::may_commit`).
//!
//! The chunks of committed snapshots are found by marking (P2, `marking.rs`). If a tree, a recipe,
//! a segment or a live chunk cannot be found, the prune ends and nothing is condemned (P3,
//! `preconditions.rs`).
//!
//! In the order in which the files build on each other:
//!
//! - `monitor`: progress and cancellation.
//! - `locate`: finds the container in which each live chunk stays.
//! - `preconditions` and `marking`: shared by prune and sweep.
//! - `prune`: condemns, and stores again what has to move.
//! - `sweep`: deletes.
//! - `footprint`: measures what a part of a snapshot takes, by the same marking and locating.

pub mod footprint;
pub(crate) mod locate;
mod marking;
mod monitor;
mod preconditions;
pub mod prune;
pub mod sweep;
