//! Writes the tree of a snapshot as an archive, to a stream that cannot seek.
//!
//! A tar archive has everything that a snapshot has except sockets: PAX records hold times in
//! nanoseconds, extended attributes, POSIX ACLs (also as text, as GNU tar does) and whatever exceeds
//! the fields of a tar header. Holes are written as zeros. A zip archive has files, folders and symbolic links, with
//! their permissions and with times in seconds; each name of a file with several names is a file of
//! its own.
//!
//! An archive stays valid whatever cannot be read. A file of up to 4 MiB that cannot be read is left
//! out. Of a larger one, whose header is written before all of it is read, the unreadable parts
//! become zeros. Either is reported as a problem.

mod acl;
mod content;
mod format;
mod links;
mod options;
mod pax;
mod tar;
mod write;
mod zip;

pub use options::{ArchiveFormat, ArchiveOptions, ArchiveReport};
pub use write::write_archive;
