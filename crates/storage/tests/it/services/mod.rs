//! Storages on real servers, which `cargo xtask check --services` starts.

mod cloud;
mod rest;
mod sftp;
