//! The remembered state of a repository: its encryption, the numbers of its newest settings and
//! keys, its highest prune record, and its newest snapshots. Without it, an attacker with write
//! access to the storage could substitute an older state or another repository, and each object of
//! that state would be genuine.
//!
//! A program opens a repository with a [`Guard`], which compares, refuses and remembers by itself.
//! A program that asks its user, or continues with an older state on purpose, uses a
//! [`RememberedState`] for its opened repository instead: the results are values, from which the
//! program makes its messages.
//!
//! - `guard.rs`: the [`Guard`], the normal way to open a repository.
//! - `state.rs`: the [`RememberedState`] of one repository: loading, comparing, saving.
//! - `comparison.rs`: the [`Comparison`] of a view with the remembered state.
//! - `record.rs`: the [`StateRecord`], the content of a file.
//! - `folder.rs`: the [`StateFolder`] with one file per repository.

mod comparison;
mod folder;
mod guard;
mod record;
mod state;

pub use comparison::Comparison;
pub use folder::{StateFolder, UnreadCause, UnreadRecord};
pub use guard::{Guard, GuardError, GuardOptions};
pub use record::{Head, StateRecord};
pub use state::{Recognition, RememberedState, is_overtaken, unlisted_settings};

pub use crate::util::private_file::{create_private_file, replace_private_file};
