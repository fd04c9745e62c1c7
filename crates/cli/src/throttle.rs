//! The limits of rates that all storages of this process share.

use std::sync::{Arc, OnceLock};

use cutpoint_storage::{Limited, RateLimits, Storage, Throttle};

use crate::args::LoadArgs;
use crate::interrupt;

/// The limits, once a storage was opened. All parts of a run have the same.
static SHARED: OnceLock<Throttle> = OnceLock::new();

/// Returns the limits of this process.
pub(crate) fn shared(args: &LoadArgs) -> Throttle {
    let limit = |given: Option<u64>| given.filter(|rate| *rate > 0);
    let limits =
        RateLimits { upload: limit(args.limit_upload), download: limit(args.limit_download) };
    SHARED.get_or_init(|| Throttle::new(limits, interrupt::environment())).clone()
}

/// Returns a storage that keeps the limits, on top of one that does not do so itself.
pub(crate) fn limited(storage: Arc<dyn Storage>, args: &LoadArgs) -> Arc<dyn Storage> {
    Limited::wrap(storage, &shared(args))
}
