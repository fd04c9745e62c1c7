//! Storages on real servers, which `cargo xtask check --services` starts.

mod rest;
mod sftp;
