//! tar archives as the source of a backup: reading of members, and their order in a snapshot.
//!
//! [`Members`] reads an archive from a stream, member by member: ustar, PAX and GNU headers with all
//! that a snapshot can hold. Members come in any order, may come twice, and may name links before
//! their folders, but the trees of a snapshot are sorted. Therefore each member, once its bytes are
//! stored, goes into a [`MemberSpool`], which sorts them in bounded memory. At the end of the
//! archive, the spool delivers the steps of a walk through the tree.
//!
//! # Rules
//!
//! - Of several members with the same name, the last one counts, as if each had been extracted over
//!   the one before. Folders keep what earlier members have put into them.
//! - A name with `..` is refused. A leading `/` is removed. What lies below a member that is not a
//!   folder is refused, so no symbolic link is ever followed.
//! - A hard link is a further name of the member that had the name of its target at that point of
//!   the archive.
//! - An archive must end with a block of zeros. Otherwise it is truncated, which is an error.
//! - No length in a header is trusted: extended headers are bounded, and everything else is read as
//!   it comes.

mod acl;
mod blocks;
mod member;
mod member_path;
mod member_spool;
mod members;
mod pax_records;
mod sparse;

pub(crate) use self::member::{Member, MemberKind};
pub(crate) use self::member_spool::{MemberSpool, MemberStep, SpooledMembers};
pub(crate) use self::members::Members;
pub(crate) use self::sparse::DataExtent;
