//! Repositories on real servers, and mounted snapshots, which `cargo xtask check --services` tests.

mod cloud;
mod import;
mod keeping;
mod mount;
mod rest;
mod sftp;
