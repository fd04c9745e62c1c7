//! Cutpoint's repository: the object format, the write rules, the reader, and the checker.
//!
//! A program opens a repository with a [`Guard`], which remembers the newest state in a folder of
//! this machine and refuses an older one. [`Repository::open`] cannot tell an older copy of a
//! repository from the newest one, because every object in it is genuine.
#![forbid(unsafe_code)]

pub mod crypto;
pub mod format;
pub mod gc;
pub mod index;
mod parity;
pub mod read;
pub mod repo;
pub mod rules;
pub mod snapshots;
mod util;
pub mod verify;
pub mod write;

pub use crypto::{KdfLimits, KeyMethod, Keyring, Keys, Secret, Unlock};
pub use format::commit::{Snapshot, Statistics};
pub use format::fingerprint::{Class, Fingerprint};
pub use format::names::{ObjectName, PartName, TicketId};
pub use format::recipe::Content;
pub use format::repository_id::RepositoryId;
pub use format::suite::CipherSuite;
pub use format::ticket::Purpose;
pub use format::tree::{Entry, EntryKind, Time};
pub use index::{Index, Scope};
pub use read::Reader;
pub use repo::remembered::{Guard, GuardError, GuardOptions};
pub use repo::repository::{InitOptions, OpenOptions, Repository};
pub use repo::view::View;
pub use write::{Committed, Verify, Writer};
