//! The parts that all storages behind a connection share.

mod batch;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) mod http;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) mod network;
mod patience;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
mod silence;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
mod throttled_body;

pub(crate) use batch::settle;
pub(crate) use patience::{Passing, Patience};
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) use silence::within;
#[cfg(feature = "rest")]
pub(crate) use throttled_body::ThrottledBody;
