//! The strategy BURST: a new chunk is compared with the one old chunk that its head or its tail
//! leads to. It becomes a delta chunk of a prefix of that chunk, one literal and a suffix (rules
//! C1, C3 to C5).
//!
//! The rule of the paper selects the old chunk ([`cutpoint_delta::burst`]). HeadDT and TailDT are
//! in memory ([`Bursts`]). Similarity objects contain their state at the end of earlier backups
//! ([`crate::format::bursts`]), and the container writer adds to them ([`BurstExtra`]). DT is the
//! index. BT is the set of delta chunks: a full chunk stays as long as a delta chunk refers to it.

mod bursts;
mod extra;
mod reference_chunks;
mod statistics;

pub use bursts::Bursts;
pub(super) use extra::BurstExtra;
pub use statistics::BurstStatistics;
