//! Encryption of payloads.
//!
//! AES-256-GCM with a key for each segment, and a random nonce for each payload in front of it. The
//! additional data is the place of the record, so that a payload counts at its own place only. The
//! tag authenticates payloads, where the checksum of a block detects accidents only, and finds damage
//! before anything is decompressed.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::format::position::Place;

/// The number of bytes that encryption adds to a payload: the nonce and the tag.
pub(crate) const SEAL_LEN: usize = NONCE_LEN + 16;

/// Encrypts and decrypts payloads.
pub(crate) struct Cipher {
    key: [u8; 32],
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

impl Cipher {
    pub(crate) fn new(key: [u8; 32]) -> Cipher {
        Cipher { key }
    }

    /// Appends the sealed content of the record at a place to `bytes`.
    ///
    /// # Panics
    ///
    /// Panics if the system has no random numbers, which it had when the volume was created.
    pub(crate) fn seal(&self, place: Place, content: &[u8], bytes: &mut Vec<u8>) {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the system has random numbers");
        bytes.extend_from_slice(&nonce);
        let start = bytes.len();
        bytes.extend_from_slice(content);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.segment_key(place).seal_in_place_separate_tag(
            nonce,
            aad(place),
            &mut bytes[start..],
        );
        bytes.extend_from_slice(tag.expect("a block is not too long").as_ref());
    }

    /// Returns the content of a sealed payload, or `None` if the payload is not that of the place.
    pub(crate) fn open<'a>(&self, place: Place, payload: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce, sealed) = payload.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.segment_key(place).open_in_place(nonce, aad(place), sealed);
        opened.ok().map(|content| &*content)
    }

    fn segment_key(&self, place: Place) -> LessSafeKey {
        let key = blake3::keyed_hash(&self.key, &place.segment.to_le_bytes());
        let key = UnboundKey::new(&AES_256_GCM, key.as_bytes());
        LessSafeKey::new(key.expect("a key of 32 bytes"))
    }
}

fn aad(place: Place) -> Aad<[u8; 12]> {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&place.segment.to_le_bytes());
    bytes[8..].copy_from_slice(&place.offset.to_le_bytes());
    Aad::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_opens_at_its_place_with_its_key_only() {
        let cipher = Cipher::new([1; 32]);
        let place = Place { segment: 7, offset: 128 };
        for content in [[].as_slice(), &[5], &[9; 4096]] {
            let mut sealed = Vec::new();
            cipher.seal(place, content, &mut sealed);
            assert_eq!(sealed.len(), content.len() + SEAL_LEN);
            let other_segment = Place { segment: 8, ..place };
            let other_offset = Place { offset: 256, ..place };
            assert_eq!(cipher.open(place, &mut sealed.clone()), Some(content));
            assert_eq!(cipher.open(other_segment, &mut sealed.clone()), None);
            assert_eq!(cipher.open(other_offset, &mut sealed.clone()), None);
            assert_eq!(Cipher::new([2; 32]).open(place, &mut sealed.clone()), None);
            for len in 0..sealed.len().min(100) {
                assert_eq!(cipher.open(place, &mut sealed[..len].to_vec()), None);
            }
            for at in (0..sealed.len()).step_by(17) {
                let mut damaged = sealed.clone();
                damaged[at] ^= 4;
                assert_eq!(cipher.open(place, &mut damaged), None, "byte {at}");
            }
        }
    }

    #[test]
    fn equal_contents_are_sealed_differently() {
        let cipher = Cipher::new([1; 32]);
        let place = Place { segment: 7, offset: 128 };
        let [one, other] = [(); 2].map(|()| {
            let mut sealed = Vec::new();
            cipher.seal(place, &[9; 64], &mut sealed);
            sealed
        });
        assert_ne!(one, other);
    }
}
