//! Repositories on real servers, which `cargo xtask check --services` starts.

mod keeping;
mod rest;
mod sftp;
