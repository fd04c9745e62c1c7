//! Storage of immutable objects, with the promises that a Cutpoint repository needs.
//!
//! A [`Storage`] puts, gets, lists and deletes whole objects by name. An object is never overwritten,
//! renamed, appended to or locked, so that a folder ([`Local`]), an object storage (`S3`) and memory
//! ([`Memory`]) are equally suitable. One more operation, [`Storage::replace`], serves only the
//! repair of damaged objects.
//!
//! ```
//! use bytes::Bytes;
//! use cutpoint_storage::{Kind, Memory, Put, Storage};
//!
//! # fn main() -> cutpoint_storage::Result<()> {
//! let storage = Memory::new();
//! let name = "commits/3c3c3c3c3c3c3c3c3c3c3c3c";
//! assert_eq!(storage.put_new(name, Bytes::from_static(b"first"))?, Put::Created);
//! assert_eq!(storage.put_new(name, Bytes::from_static(b"second"))?, Put::Exists);
//! assert_eq!(storage.get(name)?, "first");
//! assert_eq!(storage.get_range(name, 1, 2)?, "ir");
//! assert_eq!(storage.list("commits")?, [(name.to_owned(), 5)]);
//! storage.delete(name)?;
//! assert_eq!(storage.get(name).unwrap_err().kind(), Kind::Missing);
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//!
//! `docs/storage.md` of the repository defines the duties of each operation and lists the storages
//! that fulfil them. The rules that keep data safe (`docs/protocol.md`) assume three of them:
//!
//! - A put that was answered is visible to every later get and list.
//! - Of several puts of one name exactly one is answered with [`Put::Created`]. A storage without
//!   this promise can be written to, but not pruned while other clients write. [`probe`] tests a
//!   storage.
//! - A listing contains every object that existed throughout.
//!
//! # Adding a storage
//!
//! Implement [`Storage`], and run the suite of `tests/it/contract.rs` over it. [`Layer`] wraps a
//! storage and changes some of its calls; [`Faulty`] is such a layer for tests. A storage behind a
//! connection takes tokens of a [`Throttle`] for each piece that it moves; [`Limited`] does so for all
//! others.
//!
//! # Waiting
//!
//! Calls block their thread. Waits end on a request to stop ([`stop`], [`wait`]), which reaches them
//! through the [`Environment`]: the clocks, the randomness and the process of a client, all of which
//! a test may replace. A wait that a user notices is told to [`Environment::tell_wait`].
//!
//! # Features
//!
//! - `clouds` (default): Azure Blob Storage and Google Cloud Storage, over the crate `object_store`.
//! - `rest` (default): remotes of `rclone`, and servers of restic's REST protocol.
//! - `s3` (default): object storages with an S3 interface, over the crate `object_store`.
//! - `sftp` (default): folders on SSH servers, over the system's `ssh` and the crate `russh-sftp`.
//!
//! Without `clouds`, `rest` and `s3` the crate has no HTTP client, and without all four no async
//! runtime.
#![forbid(unsafe_code)]

#[cfg(feature = "clouds")]
mod cloud;
mod environment;
mod error;
mod faulty;
pub mod hex;
mod kind;
mod layer;
mod limited;
mod local;
mod memory;
mod probe;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3", feature = "sftp"))]
mod remote;
#[cfg(feature = "rest")]
mod rest;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "sftp")]
mod sftp;
pub mod stop;
mod storage;
pub mod system;
mod throttle;
pub mod wait;
mod wait_notice;

#[cfg(feature = "clouds")]
pub use cloud::{Cloud, CloudSettings};
pub use environment::{Environment, Interruptible, Process, System};
pub use error::{Error, Kind, Result};
pub use faulty::{Fault, Faulty};
pub use kind::ObjectKind;
pub use layer::Layer;
pub use limited::Limited;
pub use local::Local;
pub use memory::Memory;
pub use probe::{Probed, probe, scratch_name, try_deletion};
#[cfg(feature = "rest")]
pub use rest::{Rest, RestSettings};
#[cfg(feature = "s3")]
pub use s3::{Refusal, S3, S3Limits, S3Settings};
#[cfg(feature = "sftp")]
pub use sftp::{Sftp, SftpSettings};
pub use storage::{
    Deletion, Lock, ObjectRange, Put, Staged, Stamped, Storage, Visibility, Weakness, count_max,
    len_max, too_long,
};
pub use throttle::{RateLimits, Throttle};
pub use wait_notice::{WaitNotice, WaitReason};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
