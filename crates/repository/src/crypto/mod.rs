//! Sealing: keys, and objects as bytes that only a key opens (`docs/format.md`, "Sealing").
//!
//! An object is a header, sealed parts, padding and a trailer. The files in the order in which a
//! reader needs them:
//!
//! 1. `keys.rs`: the keyring, and the keys that are derived from it.
//! 2. `header.rs`, `trailer.rs`: the unencrypted beginning and end of an object.
//! 3. `cipher.rs`: the cipher of one object.
//! 4. `sealer.rs`, `opener.rs`: from parts to the bytes of an object, and back.
//! 5. `original.rs`: the original bytes of a damaged object.
//! 6. `wrap.rs`: keyrings, wrapped for a passphrase or a key file.

mod cipher;
mod header;
mod keys;
mod opener;
mod original;
mod sealer;
mod trailer;
mod wrap;

pub use cipher::{PartKind, TAG_LEN};
pub(crate) use header::claimed_view_name;
pub use header::{Header, SALT_LEN, VERSION};
pub(crate) use keys::CHUNK_EPOCH;
pub use keys::{KeyClass, Keyring, Keys, Secret};
pub use opener::{Opener, open_object};
pub(crate) use original::{object_as_put, with_tail_replaced};
pub use sealer::{Sealer, seal_object};
pub use trailer::{PADDING_OTHER, TRAILER_LEN, Trailer, object_is_intact, padded_container_len};
pub use wrap::{
    KdfLimits, KeyAbout, KeyMethod, LABEL_LEN_MAX, Unlock, WRAP_LEN, unwrap_keyring, wrap_keyring,
};

pub use crate::format::HEADER_LEN;
pub use crate::format::repository_id::RepositoryId;
pub use crate::format::suite::CipherSuite;
