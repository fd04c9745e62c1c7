//! The keys of a repository.

use base64::Engine;
use blake2::Blake2b;
use blake2::digest::consts::U32;
use cutpoint_storage::{Error, Kind, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use aes::Aes256;
use aes::cipher::{KeyIvInit, StreamCipher};
use rmpv::Value;

use super::compression::decompressed;
use super::message::{decode, get, get_bytes, get_number, get_text, malformed};

/// The maximum number of iterations of the key derivation. Borg itself uses 100,000.
const ITERATIONS_MAX: u32 = 10_000_000;

/// The lengths of the tag and the nonce before a ciphertext.
const TAG_LEN: usize = 32;
const NONCE_LEN: usize = 8;

/// The way in which a repository is protected, which the first byte of an object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protection {
    code: u8,
    is_encrypted: bool,
    has_key: bool,
    is_blake2: bool,
    /// Set if the key lies in the repository.
    pub(super) key_is_inside: bool,
}

impl Protection {
    /// Returns the protection of the repository of which this is the manifest.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` if it is not known.
    pub(super) fn of_manifest(manifest: &[u8]) -> Result<Protection> {
        let code = *manifest.first().ok_or_else(|| malformed("an empty manifest"))?;
        let (is_encrypted, has_key, is_blake2, key_is_inside) = match code {
            0x00 => (true, true, false, false),
            // A repository that was made without a key object has one now.
            0x01 | 0x03 => (true, true, false, true),
            0x02 => (false, false, false, false),
            0x04 => (true, true, true, false),
            0x05 => (true, true, true, true),
            0x06 => (false, true, true, true),
            0x07 => (false, true, false, true),
            code => {
                let message = format!("unknown encryption {code:02x} (expected that of Borg 1)");
                return Err(Error::new(Kind::Unsupported, "manifest", message));
            }
        };
        Ok(Protection { code, is_encrypted, has_key, is_blake2, key_is_inside })
    }

    /// Returns `true` if a passphrase protects the key.
    pub(super) fn has_key(&self) -> bool {
        self.has_key
    }
}

/// The keys of a repository.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Secrets {
    encryption: Vec<u8>,
    tag: Vec<u8>,
    id: Vec<u8>,
}

/// Opens objects.
#[derive(Clone)]
pub(super) struct Opener {
    protection: Protection,
    secrets: Secrets,
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").field("protection", &self.protection).finish_non_exhaustive()
    }
}

impl Opener {
    /// Creates an opener of a repository without keys.
    pub(super) fn without_key(protection: Protection) -> Opener {
        let secrets = Secrets { encryption: Vec::new(), tag: Vec::new(), id: Vec::new() };
        Opener { protection, secrets }
    }

    /// Opens the key object `text`, in base64, by a passphrase. Returns `None` if the passphrase is
    /// a wrong one.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the object is malformed, and `Unsupported` if its form is not known.
    pub(super) fn of_key(
        protection: Protection,
        text: &[u8],
        passphrase: &[u8],
    ) -> Result<Option<Opener>> {
        let text: Vec<u8> =
            text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let sealed = base64::engine::general_purpose::STANDARD.decode(text);
        let sealed = decode(&sealed.map_err(|_| malformed("a key that is not base64"))?)?;
        let algorithm = get_text(&sealed, "algorithm").unwrap_or_default();
        if get_number(&sealed, "version") != Some(1) || algorithm != "sha256" {
            let message = format!("unknown form of a key ({algorithm:?}, expected sha256)");
            return Err(Error::new(Kind::Unsupported, "key", message));
        }
        let iterations =
            get_number(&sealed, "iterations").and_then(|count| u32::try_from(count).ok());
        let iterations = iterations.filter(|count| (1..=ITERATIONS_MAX).contains(count));
        let (Some(iterations), Some(salt), Some(hash), Some(data)) = (
            iterations,
            get_bytes(&sealed, "salt"),
            get_bytes(&sealed, "hash"),
            get_bytes(&sealed, "data"),
        ) else {
            return Err(malformed("a key without its fields"));
        };
        let mut key = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(passphrase, salt, iterations, &mut *key);
        let mut data = Zeroizing::new(data.to_vec());
        ctr::Ctr128BE::<Aes256>::new((&*key).into(), &[0; 16].into()).apply_keystream(&mut data);
        if !is_equal(&hmac_sha256(&*key, &[&data]), hash) {
            return Ok(None);
        }
        let opened = decode(&data)?;
        let part = |name: &str| get_bytes(&opened, name).map(<[u8]>::to_vec);
        let (Some(encryption), Some(tag), Some(id)) =
            (part("enc_key"), part("enc_hmac_key"), part("id_key"))
        else {
            return Err(malformed("a key without its parts"));
        };
        if encryption.len() != 32 {
            return Err(malformed("a key of a wrong length"));
        }
        Ok(Some(Opener { protection, secrets: Secrets { encryption, tag, id } }))
    }

    /// Opens and decompresses an object. `id` is its identifier, except for the manifest.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the object is damaged, or another one.
    pub(super) fn open(&self, id: Option<&[u8; 32]>, object: &[u8]) -> Result<Vec<u8>> {
        let Protection { code, is_encrypted, .. } = self.protection;
        let (first, rest) = object.split_first().ok_or_else(|| malformed("an empty object"))?;
        if *first != code && !(matches!(first, 1 | 3) && matches!(code, 1 | 3)) {
            return Err(Error::corrupt("", format!("encrypted in another way ({first:02x})")));
        }
        let compressed = match is_encrypted {
            true => self.decrypted(rest)?,
            false => rest.to_vec(),
        };
        let bytes = decompressed(compressed)?;
        if id.is_some_and(|id| !is_equal(&self.id_of(&bytes), id)) {
            return Err(Error::corrupt("", "the bytes are not those of the identifier"));
        }
        Ok(bytes)
    }

    fn decrypted(&self, object: &[u8]) -> Result<Vec<u8>> {
        let (tag, rest) =
            object.split_at_checked(TAG_LEN).ok_or_else(|| malformed("too short an object"))?;
        if !is_equal(&self.mac(&self.secrets.tag, &[rest]), tag) {
            return Err(Error::corrupt("", "authentication failed"));
        }
        let (nonce, text) =
            rest.split_at_checked(NONCE_LEN).ok_or_else(|| malformed("too short an object"))?;
        let mut counter = [0; 16];
        counter[8..].copy_from_slice(nonce);
        let key: &[u8; 32] = self.secrets.encryption[..]
            .try_into()
            .map_err(|_| malformed("a key of a wrong length"))?;
        let mut text = text.to_vec();
        ctr::Ctr128BE::<Aes256>::new(key.into(), &counter.into()).apply_keystream(&mut text);
        Ok(text)
    }

    /// Returns the identifier of an object with these bytes.
    fn id_of(&self, bytes: &[u8]) -> [u8; 32] {
        match self.protection.has_key {
            true => self.mac(&self.secrets.id, &[bytes]),
            false => Sha256::digest(bytes).into(),
        }
    }

    fn mac(&self, key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        if !self.protection.is_blake2 {
            return hmac_sha256(key, parts);
        }
        let mut hash = Blake2b::<U32>::new();
        hash.update(key);
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().into()
    }

    /// Verifies the authentication of a manifest, which no other object of the same keys has.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if it does not match. A manifest of an old repository has none.
    pub(super) fn verify_manifest(&self, packed: &[u8], manifest: &Value) -> Result<()> {
        let Some(tam) = get(manifest, "tam") else { return Ok(()) };
        let (Some(salt), Some(tag)) = (get_bytes(tam, "salt"), get_bytes(tam, "hmac")) else {
            return Err(malformed("the authentication of the manifest"));
        };
        let at = packed.windows(tag.len().max(1)).position(|window| window == tag);
        let at = at.ok_or_else(|| malformed("the authentication of the manifest"))?;
        let mut blank = packed.to_vec();
        blank[at..at + tag.len()].fill(0);
        let context = b"manifest";
        let key = match self.protection.has_key {
            true => {
                let Secrets { encryption, tag, id } = &self.secrets;
                let material = Zeroizing::new([&id[..], encryption, tag].concat());
                let extracted = Zeroizing::new(hmac_sha512(salt, &[&material]));
                hmac_sha512(&*extracted, &[b"borg-metadata-authentication-", context, &[1]])
                    .to_vec()
            }
            false => [salt, context].concat(),
        };
        match is_equal(&hmac_sha512(&key, &[&blank]), tag) {
            true => Ok(()),
            false => Err(Error::corrupt("", "the authentication of the manifest failed")),
        }
    }
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Compares two tags in a time that does not depend on their bytes.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
