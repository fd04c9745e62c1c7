//! The regions of a reader: wanted ahead, being fetched, or decoded.
//!
//! A region that a step of a [`ReadPlan`](super::ReadPlan) wants stays until it is released. Of the
//! other decoded regions, the most recently used are kept.
//!
//! - `slots.rs`: the table of regions, and the limits of what is kept.
//! - `shared.rs`: the table behind a lock, and what steps want and release.
//! - `claim.rs`: one thread at a time reads or decodes a region.
//! - `fetch.rs`: requests for regions that are wanted ahead.

mod claim;
mod fetch;
mod shared;
mod slots;
#[cfg(test)]
mod tests;

pub(super) use claim::Claim;
pub(super) use fetch::Fetch;
pub(super) use shared::{Regions, Want};
pub use slots::ReadStatistics;
pub(super) use slots::RegionName;
