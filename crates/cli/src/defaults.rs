//! Every default that a measurement decided, in one place.

use cutpoint_store::seal::Suite;

/// How a new repository cuts its data.
pub(crate) const DEFAULT_CUT: &str = "fastcdc:avg=44k";

/// How many bytes of chunks a region of a new repository gathers before it is compressed.
pub(crate) const REGION_SIZE: u32 = 2 * 1024 * 1024;

/// The size at which a container of a new repository is put, in bytes.
pub(crate) const CONTAINER_SIZE: u32 = 16 * 1024 * 1024;

/// The zstd level of a new repository.
pub(crate) const COMPRESSION_LEVEL: i32 = 3;

/// How much parity a new repository asks for, in percent: none.
pub(crate) const PARITY_PERCENT: u32 = 0;

/// How a new repository is sealed: what is fastest on this machine.
pub(crate) fn suite() -> Suite {
    Suite::fastest()
}

/// So many digits of a snapshot's id are asked for at least.
pub(crate) const ID_DIGITS_MIN: usize = 4;
