//! The contents of payloads: compression, encryption, and blocks as differences to others.

pub(crate) mod cipher;
pub(crate) mod compress;
pub(crate) mod delta;
