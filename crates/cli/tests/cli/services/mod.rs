//! Repositories on real servers, and mounted snapshots, which `cargo xtask check --services` tests.

mod mount;
mod sftp;
