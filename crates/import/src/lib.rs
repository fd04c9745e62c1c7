//! Repositories of other backup programs, from which Cutpoint imports snapshots.
//!
//! [`Restic`] reads a repository of restic or rustic, on any
//! [`Storage`](cutpoint_storage::Storage). It implements
//! [`ForeignRepository`](cutpoint_backup::save::ForeignRepository), from which
//! [`plan_imports`](cutpoint_backup::copy::plan_imports) and
//! [`copy`](cutpoint_backup::copy::copy) save snapshots. Nothing is written to the other
//! repository, and no lock is put there.
#![forbid(unsafe_code)]

mod restic;

pub use restic::{Restic, ResticOptions};
