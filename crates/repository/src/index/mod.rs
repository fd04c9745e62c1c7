//! The index, which leads from fingerprints to the places of chunks.
//!
//! Only tables of contents are trusted. The index holds hints, which are 8 bytes of a fingerprint,
//! and filters that avoid most lookups of them. A hint leads to a container, whose table of
//! contents is read and counts only if all 32 bytes of the fingerprint agree. A hint that is wrong,
//! outdated or forged therefore costs a lookup or a second copy, but no data. The cache of this
//! machine is not trusted either: a damaged run is rebuilt from the segments.
//!
//! In the order in which the files build on each other:
//!
//! - `runs`: the hints of segments, sorted, in memory or in files of this machine.
//! - `container_toc`: the table of contents of one container ([`ContainerToc`]).
//! - `location`: the place of a chunk ([`Location`]) and which places count ([`Scope`]).
//! - `toc_batch`: reading the tables of contents of many containers.
//! - `tocs`: a cache of tables of contents.
//! - `fronts`: a cache of small containers.
//! - `unnamed`: containers that no readable segment names, for readers.
//! - `segments`: the segments of a view, and the older ones that they cover.
//! - `reading`: reads the segments that an index lacks.
//! - `cached`: opens the runs of earlier processes.
//! - `state`: what an index knows at one moment.
//! - `chunk_index`: the index itself ([`Index`]), which follows the segments of views.
//! - `ahead`: tables of contents that are read before lookups need them.
//! - `find`: the lookups of one chunk ([`Index::find`]).
//! - `hints`: all hints in rising order, for a prune.
//! - `copies`: chunks that lie in several containers.

mod ahead;
mod cached;
mod chunk_index;
mod container_toc;
mod copies;
mod find;
mod fronts;
mod hints;
mod location;
mod reading;
mod runs;
mod segments;
mod state;
mod toc_batch;
mod tocs;
mod unnamed;

pub use chunk_index::{Index, IndexStatistics};
pub(crate) use container_toc::read_record;
pub use container_toc::{ContainerToc, load_toc};
pub use copies::Copies;
pub use location::{Location, Scope};
pub(crate) use toc_batch::read_unlisted;
