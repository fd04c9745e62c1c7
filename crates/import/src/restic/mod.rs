//! Repositories of restic.
//!
//! The format is that of restic's design document ("Repository Format", versions 1 and 2). Packs
//! hold blobs, each sealed by AES-256-CTR and Poly1305-AES and named by the SHA-256 of its bytes. An
//! index says where each blob lies. A tree blob lists the nodes of a folder in JSON.

mod blob;
mod cipher;
mod index;
mod json;
mod key;
mod node;
mod repository;
mod snapshot;

pub use repository::{Restic, ResticOptions};
