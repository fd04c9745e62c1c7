//! A deduplicated, compressed, encrypted repository on any [`Storage`](cutpoint_storage::Storage).
//!
//! Any number of clients write to a repository, read it and delete from it at the same time, without
//! locks and without a server. Chunks are stored once, whoever stores them. What is damaged is found
//! ([`verify::check`]), and repaired where that is possible ([`verify::repair`]).
//!
//! This crate knows chunks, recipes, trees and snapshots. `cutpoint-backup` puts files into a
//! repository and restores them; `cutpoint-chunking` cuts them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cutpoint_repository::format::commit::Outcome;
//! use cutpoint_repository::format::recipe::Segment;
//! use cutpoint_repository::write::{Inline, TreeWriter};
//! use cutpoint_repository::{
//!     Class, Content, Entry, EntryKind, InitOptions, Purpose, Reader, Repository, Secret,
//!     Snapshot, Unlock, Verify, View, Writer,
//! };
//! use cutpoint_storage::{Memory, System};
//!
//! # fn main() -> cutpoint_storage::Result<()> {
//! // Make a repository, encrypted by a key file.
//! let unlock = Unlock::KeyFile(Secret([7; 32]));
//! let (storage, options) = (Arc::new(Memory::new()), InitOptions::default());
//! let repository = Repository::init(storage, Arc::new(System), &unlock, &options)?;
//! let repository = Arc::new(repository);
//!
//! // Fill it: a chunk, a file that consists of it, and a snapshot of the folder with that file.
//! let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
//! let mut inline = Inline::new(writer, Verify::default())?;
//! let chunk = b"Dear reader";
//! let fingerprint = inline.store_data(chunk)?;
//! let length = chunk.len() as u64;
//! let segment = Segment::Chunk { fingerprint, offset: 0, length };
//! let file = Entry {
//!     size: length,
//!     content: Content::Segments(vec![segment]),
//!     ..Entry::new(b"letter".to_vec(), EntryKind::File)
//! };
//! let mut tree = TreeWriter::new();
//! tree.push(&file, repository.keys(), &mut inline)?;
//! let snapshot = Snapshot { root: tree.finish(&mut inline)?, ..Snapshot::empty() };
//! inline.commit(Outcome::Snapshot(Box::new(snapshot)))?;
//!
//! // Read it: the newest snapshot, its tree, and the chunk of the file.
//! let reader = Reader::open(repository.clone(), View::list(&repository)?)?;
//! let view = reader.view();
//! let (_, snapshot) = view.snapshots().pop().expect("a snapshot was committed");
//! let entry = reader.tree(&snapshot.root).next().expect("the folder has a file")?;
//! assert_eq!(entry.name, b"letter");
//! assert_eq!(&*reader.chunk(Class::Data, &fingerprint)?, chunk);
//! # Ok(())
//! # }
//! ```
//!
//! # Rollback
//!
//! A program opens a repository with a [`Guard`], which remembers the newest state in a folder of
//! this machine and refuses an older one. [`Repository::open`] cannot tell an older copy of a
//! repository from the newest one, because every object in it is genuine.
//!
//! # Rooms
//!
//! Each room may use those before it (`cargo xtask layers`): [`rules`], [`format`](mod@format),
//! [`crypto`], [`repo`], [`index`], [`read`], [`write`](mod@write), [`snapshots`], [`gc`],
//! [`verify`]. `ARCHITECTURE.md` follows a byte through them, `docs/protocol.md` proves that nothing
//! is lost, and `docs/format.md` has every byte.
//!
//! # Errors
//!
//! Every error ([`cutpoint_storage::Error`]) names the object that it is about, and has a
//! [`Kind`](cutpoint_storage::Kind) by the action that it leaves to the caller.
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
pub use gc::prune::{OptimizeOptions, PruneMonitor, PruneOptions, PruneReport, optimize, prune};
pub use gc::sweep::{SweepOptions, SweepReport, Sweeper};
pub use index::{Index, Scope};
pub use read::{ReadStatistics, Reader};
pub use repo::remembered::{Guard, GuardError, GuardOptions};
pub use repo::repository::{InitOptions, OpenOptions, Repository};
pub use repo::view::View;
pub use snapshots::retention::Policy;
pub use snapshots::{forget, hold, note, release, unforget};
pub use util::display::name_text;
pub use util::memory_limit::{MemoryLimit, MemoryUse, PartSizes};
pub use util::record_sort::{KeyedRecord, RecordSort, SortedRecords};
pub use util::threads::thread_count;
pub use verify::check::{CheckMonitor, CheckOptions, CheckReport};
pub use write::{CommitResult, Verify, Writer};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
