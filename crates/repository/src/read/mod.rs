//! Reading: from a fingerprint to bytes, and from a snapshot to its trees and recipes.

mod burst;
mod plan;
mod reader;
mod regions;

pub use burst::StoredBurst;
pub use plan::{Plan, Step};
pub use reader::*;
pub use regions::ReadStatistics;
