//! Sealing: keys, and objects as bytes that only a key opens (`docs/format.md`, "Sealing").

mod keys;
mod object;
mod wrap;

pub use keys::{KeyClass, Keyring, Keys, Secret};
pub use object::{
    Header, Opener, PADDING_CONTAINER, PADDING_OTHER, PartKind, SALT_LEN, Sealer, TAG_LEN,
    TRAILER_LEN, Trailer, VERSION, object_is_intact, open_object, seal_object,
};
pub(crate) use object::{object_as_put, with_tail_replaced};
pub use wrap::{
    KdfLimits, KeyAbout, KeyMethod, LABEL_LEN_MAX, Unlock, WRAP_LEN, unwrap_keyring, wrap_keyring,
};

pub use crate::format::HEADER_LEN;
pub use crate::format::repository_id::RepositoryId;
pub use crate::format::suite::CipherSuite;
