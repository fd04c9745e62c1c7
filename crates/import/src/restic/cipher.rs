//! The cipher of restic: AES-256 in counter mode, authenticated by Poly1305-AES (Bernstein 2005).

use aes::cipher::{BlockCipherEncrypt, KeyInit, KeyIvInit, StreamCipher};
use aes::{Aes128, Aes256};
use cutpoint_storage::{Error, Result};
use poly1305::Poly1305;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The length of the counter block before a ciphertext.
const NONCE_LEN: usize = 16;
/// The length of the tag behind a ciphertext.
const TAG_LEN: usize = 16;
/// The number of bytes that a sealed text is longer than its plaintext.
pub(super) const OVERHEAD_LEN: usize = NONCE_LEN + TAG_LEN;

/// The length of a [`Cipher`]'s key in bytes.
pub(super) const KEY_LEN: usize = 64;

/// The keys that seal every object of a repository, or the key object itself.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct Cipher {
    encryption: [u8; 32],
    /// The key of the block cipher that turns a nonce into the second half of a Poly1305 key.
    tag_key: [u8; 16],
    /// The first half of the Poly1305 key.
    tag_r: [u8; 16],
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// Creates a cipher from its parts; `None` if one has a wrong length.
    pub(super) fn new(encryption: &[u8], tag_key: &[u8], tag_r: &[u8]) -> Option<Cipher> {
        Some(Cipher {
            encryption: encryption.try_into().ok()?,
            tag_key: tag_key.try_into().ok()?,
            tag_r: tag_r.try_into().ok()?,
        })
    }

    /// Creates a cipher from the 64 bytes that a password leads to.
    pub(super) fn of_key(key: &[u8; KEY_LEN]) -> Option<Cipher> {
        Cipher::new(&key[..32], &key[32..48], &key[48..])
    }

    fn tag(&self, nonce: &[u8; NONCE_LEN], text: &[u8]) -> [u8; TAG_LEN] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.tag_r);
        let mut block = (*nonce).into();
        Aes128::new(&self.tag_key.into()).encrypt_block(&mut block);
        key[16..].copy_from_slice(&block);
        let tag = Poly1305::new(&key.into()).compute_unpadded(text);
        key.zeroize();
        tag.into()
    }

    fn apply(&self, nonce: &[u8; NONCE_LEN], text: &mut [u8]) {
        let (key, nonce) = ((&self.encryption).into(), nonce.into());
        ctr::Ctr128BE::<Aes256>::new(key, nonce).apply_keystream(text);
    }

    /// Opens a sealed text: a nonce, the ciphertext and a tag.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the text is too short, or the tag does not match.
    pub(super) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>> {
        let parts = sealed.split_first_chunk::<NONCE_LEN>().and_then(|(nonce, rest)| {
            let (text, tag) = rest.split_last_chunk::<TAG_LEN>()?;
            Some((nonce, text, tag))
        });
        let Some((nonce, text, tag)) = parts else {
            let message = format!("too short ({} B, expected at least 32 B)", sealed.len());
            return Err(Error::corrupt("", message));
        };
        if !is_equal(&self.tag(nonce, text), tag) {
            return Err(Error::corrupt("", "authentication failed"));
        }
        let mut text = text.to_vec();
        self.apply(nonce, &mut text);
        Ok(text)
    }

    /// Seals a text.
    #[cfg(test)]
    pub(super) fn seal(&self, nonce: [u8; NONCE_LEN], text: &[u8]) -> Vec<u8> {
        let mut sealed = [&nonce[..], text].concat();
        self.apply(&nonce, &mut sealed[NONCE_LEN..]);
        let tag = self.tag(&nonce, &sealed[NONCE_LEN..]);
        sealed.extend(tag);
        sealed
    }
}

/// Compares two tags in a time that does not depend on them.
fn is_equal(a: &[u8; TAG_LEN], b: &[u8; TAG_LEN]) -> bool {
    a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher() -> Cipher {
        let key: [u8; KEY_LEN] = std::array::from_fn(|at| u8::try_from(at).expect("below 64"));
        Cipher::of_key(&key).expect("64 bytes")
    }

    #[test]
    fn sealed_text_opens_and_changed_text_does_not() {
        // The counter passes the end of its low half.
        let nonce = [0xff; 16];
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let sealed = cipher().seal(nonce, &text);
        assert_eq!(sealed.len(), text.len() + OVERHEAD_LEN, "the length");
        assert_eq!(cipher().open(&sealed).expect("it opens"), text);
        for at in [0, 15, 16, 500, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            cipher().open(&changed).expect_err("a changed byte");
        }
        for len in [0, 1, 31] {
            cipher().open(&sealed[..len]).expect_err("a short text");
        }
        let empty = cipher().seal(nonce, b"");
        assert_eq!(cipher().open(&empty).expect("it opens"), b"");
    }

    /// The first vector of the paper on Poly1305-AES, appendix B.
    #[test]
    fn tag_of_the_paper_is_reproduced() {
        let parse = |text: &str| cutpoint_storage::hex::parse::<16>(text).expect("digits");
        let cipher = Cipher::new(
            &[0; 32],
            &parse("ec074c835580741701425b623235add6"),
            &parse("851fc40c3467ac0be05cc20404f3f700"),
        );
        let nonce = parse("fb447350c4e868c52ac3275cf9d4327e");
        let tag = cipher.expect("16 bytes each").tag(&nonce, &[0xf3, 0xf6]);
        assert_eq!(tag, parse("f4c633c3044fc145f84f335cb81953de"));
    }
}
