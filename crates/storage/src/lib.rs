//! Storages: the storage of objects.
//!
//! The store needs only ten operations. None of them overwrites, renames, appends or locks, so that
//! a folder, an object storage and memory are equally suitable. An eleventh operation, which
//! replaces an object, serves only the repair of damaged objects. `docs/storage.md` defines the
//! duties of each operation, and lists the storages that fulfil them.
//!
//! The assumptions (`docs/protocol.md`, "Assumptions about the storage"): a put that was answered is
//! visible to every later get and list; of several puts of one name exactly one is answered with
//! `Created` (storages that cannot promise this can still be written to, but not be pruned); a listing
//! contains every object that existed throughout.

#![forbid(unsafe_code)]

mod environment;
mod error;
mod faulty;
pub mod hex;
mod kind;
mod layer;
mod object;
mod probe;
mod s3;
pub mod stop;
mod storage;
pub mod wait;

pub use environment::{Environment, Interruptible, Process, System};
pub use error::{Error, Kind, Result};
pub use faulty::{Fault, Faulty};
pub use kind::ObjectKind;
pub use layer::Layer;
pub use object::{Local, Memory};
pub use probe::{Probed, probe, scratch_name};
pub use s3::{Refusal, S3, S3Limits, S3Settings};
pub use storage::{Put, Staged, Storage, count_max, len_max, too_long};
