//! Repositories of Borg 1.
//!
//! The program `borg` itself reads the objects, as it does for a client on another machine: `borg
//! serve` answers requests in MessagePack on its standard input and output, here or at the other end
//! of `ssh`. The objects are opened here. The format is that of Borg's documentation ("Internals:
//! Data structures and file formats"): a manifest lists archives, an archive has a stream of items,
//! and an item lists the chunks of a file.

mod acl;
mod archive;
mod client;
mod compression;
mod item;
mod key;
mod message;
mod repository;
mod tree;

pub use repository::{Borg, BorgOptions, BorgPlace};
