//! Checks: verification that every object exists and holds what was written.
//!
//! A check takes no ticket and changes nothing; [`record`] records its findings, so that the next
//! backup stores the damaged data again. A check goes on after every finding, because one damage
//! must not hide another. Other clients may write, prune and sweep meanwhile, so an object that is
//! absent is looked for in a second listing before it is reported as missing.
//!
//! The damage that a check cannot detect by design is listed in `docs/reliability.md`, which a test
//! compares with the findings.
//!
//! `run.rs` calls the parts of a check in this order:
//!
//! 1. `settings.rs`: names, settings, keyrings and similarity objects.
//! 2. `view.rs`: tickets, commits and prune records, which make up the `inventory.rs`.
//! 3. `containers.rs`: index segments, and the containers that they name.
//! 4. `data.rs`: tables of contents and, on request, every byte (`delta_chunks.rs`, `parity.rs`).
//!    `coverage.rs` chooses the containers that are read.
//! 5. `snapshots.rs`: everything that snapshots reach (`reachable.rs`, `full_chunks.rs`,
//!    `places.rs`), and the paths that cannot be restored (`affected.rs`).
//!
//! They read objects by `objects.rs`, and report findings to `context.rs`. `remedies.rs` has the
//! commands that resolve a finding.

mod affected;
mod checkpoint;
mod containers;
mod context;
mod coverage;
mod data;
mod delta_chunks;
mod finding;
mod full_chunks;
mod inventory;
mod objects;
mod options;
mod parity;
mod places;
mod reachable;
mod remedies;
mod remedy;
mod report;
mod run;
mod settings;
mod snapshots;
mod unread;
mod view;

pub use coverage::{Coverage, CoverageTotals, Portion};
pub use finding::{CheckMonitor, Finding, FindingKind};
pub use options::CheckOptions;
pub use remedy::Remedy;
pub use report::CheckReport;
pub(crate) use run::find_missing;
pub use run::{check, record};
pub(crate) use snapshots::MissingData;
pub use unread::oldest_unread_ns;
