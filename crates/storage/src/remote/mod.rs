//! The parts that all storages behind a connection share.

mod batch;
#[cfg(any(feature = "rest", feature = "sftp"))]
mod command;
#[cfg(any(feature = "clouds", feature = "rest", feature = "sftp"))]
mod failure;
#[cfg(any(feature = "clouds", feature = "s3"))]
mod hedge;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) mod http;
mod link;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) mod network;
mod patience;
#[cfg(all(
    feature = "bundled-roots",
    target_os = "linux",
    any(feature = "clouds", feature = "rest", feature = "s3")
))]
mod roots;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
mod silence;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
mod throttled_body;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) mod unanswered;
#[cfg(any(feature = "clouds", feature = "s3"))]
pub(crate) mod watched;

pub(crate) use batch::settle;
#[cfg(any(feature = "rest", feature = "sftp"))]
pub(crate) use command::{RunningCommand, lock};
#[cfg(any(feature = "clouds", feature = "rest", feature = "sftp"))]
pub(crate) use failure::{Failure, Meaning};
pub(crate) use link::Link;
pub(crate) use patience::Passing;
use patience::Patience;
#[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
pub(crate) use silence::within;
#[cfg(feature = "rest")]
pub(crate) use throttled_body::ThrottledBody;
