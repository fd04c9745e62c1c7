//! An open repository: its keys and settings, its objects, the commits and prune records of one
//! listing, and the writers that may be at work.
//!
//! - `repository.rs`: the [`Repository`](repository::Repository), which is opened in two steps.
//!   `unlock.rs` finds the keys that a secret opens, and `newest_config.rs` the settings that these
//!   keys open. `options.rs` has the options, and `listing.rs` the two copies of keys and settings.
//! - `init.rs` creates a repository, `set_config.rs` changes its settings, and `keys.rs` its keys.
//! - `objects.rs` reads and puts whole objects; `reserve.rs` keeps space for a full disk.
//! - `view/`: the [`View`](view::View), that is, the commits and prune records of one listing.
//! - `liveness.rs`: the evidence by which a writer is presumed dead.
//! - `remembered/`: the newest state of a repository that this machine remembers, so that an older
//!   one is refused. [`Guard`](remembered::Guard) opens a repository with this protection.
//! - `lagging.rs`: listings that do not show yet what was put; `lagging_clients.rs`: the mark of
//!   clients whose listings may do so.

mod init;
pub mod keys;
pub mod lagging;
pub mod lagging_clients;
mod listing;
pub mod liveness;
mod newest_config;
mod objects;
mod options;
pub mod remembered;
pub mod repository;
mod reserve;
mod set_config;
mod unlock;
pub mod view;

pub use newest_config::UnopenedSettings;
pub(crate) use objects::{refuse_longer, require_len};
pub use unlock::KDF_TRIALS_MAX;
