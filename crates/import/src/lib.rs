//! Repositories of other backup programs, from which Cutpoint imports snapshots.
//!
//! [`Restic`] reads a repository of restic or rustic, on any
//! [`Storage`](cutpoint_storage::Storage). [`Borg`] reads one of Borg 1 by the program `borg serve`,
//! and decodes the objects itself. Both implement
//! [`ForeignRepository`](cutpoint_backup::save::ForeignRepository), from which
//! [`plan_imports`](cutpoint_backup::copy::plan_imports) and
//! [`copy`](cutpoint_backup::copy::copy) save snapshots. Nothing is written to the other
//! repository, except that Borg puts its shared lock.
#![forbid(unsafe_code)]

mod borg;
mod restic;

pub use borg::{Borg, BorgOptions, BorgPlace};
pub use restic::{Restic, ResticOptions};
