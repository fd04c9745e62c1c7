//! Views: the commits and prune records that a writer or reader has seen. Only objects in a view
//! count.
//!
//! - `listing.rs`: the [`View`], and how it is listed and read.
//! - `cache.rs`: commits and prune records that were read before (`ViewCache`).
//! - `checkpoint.rs`: copies of many commits and prune records in few objects.
//! - `completeness.rs`: the objects that a view lacks; rule E1.
//! - `snapshots.rs`: the snapshots of a view, and their notes; rules W3 and E2.
//! - `data.rs`: segments, condemned containers, and damaged chunks.

mod cache;
pub(crate) mod checkpoint;
mod completeness;
mod data;
mod listing;
mod snapshots;
#[cfg(test)]
mod tests;

pub(crate) use cache::ViewCache;
pub(crate) use data::Hidden;
pub use listing::View;
