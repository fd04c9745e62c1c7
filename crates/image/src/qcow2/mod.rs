//! qcow2 images, versions 2 and 3.
//!
//! Specification: `docs/interop/qcow2.rst` of QEMU. The L1 table leads to L2 tables, which lead to
//! clusters. A cluster can be absent (its bytes are those of the backing file, or zeros), zeros,
//! plain, or compressed by deflate or zstd. With extended L2 entries, a cluster has 32 subclusters,
//! each of which is absent, zeros or plain.
//!
//! The reader is strict: reserved bits, misaligned offsets and places behind the end of the file are
//! errors. It does not read reference counts, snapshots and bitmaps, and refuses encryption and
//! external data files.

mod compressed;
mod entry;
mod header;
mod reader;

pub(crate) use header::{Header, MAGIC};
pub(crate) use reader::Qcow2Image;
