//! The keys of an encrypted volume: its secret, wrapped for passphrases.
//!
//! Each passphrase has a file of its own, and a copy of it, so that adding and removing one replaces no
//! file. `docs/volume-format.md` has the bytes.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};
use crate::folder::Folder;
use crate::format::cursor::Cursor;
use crate::format::names;
use crate::format::{VERSION, VolumeId};
use crate::rules;

const MAGIC: &[u8; 8] = b"CutpKey\0";
/// The length of a file of a key in bytes.
const SLOT_SIZE: usize = 256;
/// The number of bytes that are authenticated with the wrapped secret.
const HEAD: usize = 64;
/// The maximum length of a note in bytes.
const NOTE_LEN_MAX: usize = 95;

/// The cost of a passphrase: the second recommended choice of RFC 9106, 64 MiB, three passes, four
/// lanes.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// The maximum cost that a file may demand, in multiples of that. Whoever can write to the folder could
/// demand anything.
const TIMES_MAX: u32 = 4;

/// The secret of a volume, from which all keys are derived.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A passphrase of a volume, without the passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    /// The number, from 1 on. A number is not used again as long as a higher one exists.
    pub number: u64,
    /// The time of its creation in seconds since 1970.
    pub created: u64,
    /// The note of its creator.
    pub note: String,
}

/// The passphrases of a volume.
#[derive(Debug)]
pub(crate) struct KeySlots<'a> {
    folder: &'a Arc<dyn Folder>,
    volume: VolumeId,
}

/// The values of a file.
struct Slot {
    head: [u8; HEAD],
    costs: [u32; 3],
    created: u64,
    volume: VolumeId,
    salt: [u8; 16],
    nonce: [u8; NONCE_LEN],
    wrapped: [u8; 48],
    note: String,
}

impl<'a> KeySlots<'a> {
    pub(crate) fn new(folder: &'a Arc<dyn Folder>, volume: VolumeId) -> KeySlots<'a> {
        KeySlots { folder, volume }
    }

    /// Returns the numbers of all passphrases.
    fn numbers(&self) -> Result<Vec<u64>> {
        let listed = self.folder.names();
        let listed = listed.map_err(|error| Error::io("folder", "cannot be listed", error))?;
        let mut numbers: Vec<u64> = listed.iter().filter_map(|it| names::parse_key(it)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Returns all passphrases whose file or copy is whole, by rising number.
    pub(crate) fn list(&self) -> Result<Vec<KeySlot>> {
        let mut slots = Vec::new();
        for number in self.numbers()? {
            if let Ok(Slot { created, note, .. }) = self.read(number) {
                slots.push(KeySlot { number, created, note });
            }
        }
        Ok(slots)
    }

    /// Returns the secret that a passphrase opens, and the number of the passphrase.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Locked`] if no passphrase of the volume is this one.
    pub(crate) fn unlock(&self, passphrase: &[u8]) -> Result<(Secret, u64)> {
        let mut first_error = None;
        for number in self.numbers()? {
            let found = self.read(number).and_then(|slot| slot.open(passphrase));
            match found {
                Ok(Some(secret)) => return Ok((secret, number)),
                Ok(None) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Error::new(Kind::Locked, "passphrase", "is wrong")))
    }

    /// Adds a passphrase for a secret, and makes it durable. Returns its number.
    pub(crate) fn add(&self, secret: &Secret, passphrase: &[u8], note: &str) -> Result<u64> {
        if note.len() > NOTE_LEN_MAX {
            let problem = format!("has more than {NOTE_LEN_MAX} bytes");
            return Err(Error::new(Kind::Invalid, "note", problem));
        }
        let number = self.numbers()?.last().map_or(1, |last| last + 1);
        let bytes = wrap(self.volume, secret, passphrase, note)?;
        for name in names::key(number) {
            let failed = |error| Error::io(&name, "cannot be written", error);
            self.folder.create(&name).map_err(failed)?;
            self.folder.write_at(&name, 0, &bytes).map_err(failed)?;
            self.folder.sync(&name).map_err(failed)?;
        }
        self.sync_names()?;
        Ok(number)
    }

    /// Removes a passphrase, unless it is the last one.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        let slots = self.list()?;
        if !self.numbers()?.contains(&number) {
            return Err(Error::new(Kind::Missing, format!("key {number}"), "does not exist"));
        }
        if slots.iter().all(|slot| slot.number == number) {
            let problem = "is the last one, and nothing would open the volume without it";
            return Err(Error::new(Kind::Invalid, format!("key {number}"), problem));
        }
        for name in names::key(number) {
            match self.folder.delete(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(name, "cannot be deleted", error));
                }
                _ => {}
            }
        }
        self.sync_names()
    }

    fn sync_names(&self) -> Result<()> {
        let synced = self.folder.sync_names();
        synced.map_err(|error| Error::io("folder", "cannot be synced", error))
    }

    /// Reads the file of a passphrase, or its copy.
    fn read(&self, number: u64) -> Result<Slot> {
        let [name, copy] = names::key(number);
        self.read_file(&name).or_else(|error| self.read_file(&copy).map_err(|_| error))
    }

    fn read_file(&self, name: &str) -> Result<Slot> {
        let mut bytes = [0; SLOT_SIZE];
        let read = self.folder.read_at(name, 0, &mut bytes);
        read.map_err(|error| Error::io(name, "cannot be read", error))?;
        let slot = Slot::decode(&bytes).filter(|slot| slot.volume == self.volume);
        slot.ok_or_else(|| Error::new(Kind::Corrupt, name, "is no key of this volume"))
    }
}

impl Slot {
    fn decode(bytes: &[u8; SLOT_SIZE]) -> Option<Slot> {
        let (body, checksum) = bytes.split_at(SLOT_SIZE - 32);
        if !rules::is_authentic(blake3::hash(body).as_bytes() == checksum) {
            return None;
        }
        let mut rest = Cursor(body);
        let is_known = rest.array() == Some(*MAGIC) && rest.u16() == Some(VERSION);
        rest.zeros(2).filter(|()| is_known)?;
        let costs = [rest.u32()?, rest.u32()?, rest.u32()?];
        let (created, volume, salt) = (rest.u64()?, rest.array()?, rest.array()?);
        let (nonce, wrapped) = (rest.array()?, rest.array()?);
        rest.zeros(4)?;
        let len = rest.u8()?;
        let note = std::str::from_utf8(rest.take(len.into())?).ok()?.to_owned();
        rest.zeros(rest.0.len())?;
        let head = *body.first_chunk()?;
        Some(Slot { head, costs, created, volume, salt, nonce, wrapped, note })
    }

    /// Returns the secret, or `None` if the passphrase is another one.
    fn open(&self, passphrase: &[u8]) -> Result<Option<Secret>> {
        let key = wrapping_key(passphrase, &self.salt, self.costs)?;
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let mut wrapped = Zeroizing::new(self.wrapped);
        let opened = key.open_in_place(nonce, Aad::from(self.head), wrapped.as_mut_slice());
        let secret = opened.ok().and_then(|secret| <[u8; 32]>::try_from(&*secret).ok());
        Ok(secret.map(Secret::new))
    }
}

/// Returns the bytes of the file of a passphrase.
fn wrap(volume: VolumeId, secret: &Secret, passphrase: &[u8], note: &str) -> Result<Vec<u8>> {
    let mut random = [0; 16 + NONCE_LEN];
    getrandom::fill(&mut random)
        .map_err(|error| Error::new(Kind::Io, "random numbers", error.to_string()))?;
    let (salt, nonce) = random.split_at(16);
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    let mut bytes = Vec::with_capacity(SLOT_SIZE);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.resize(12, 0);
    let costs = [MEMORY_KIB, PASSES, LANES];
    costs.iter().for_each(|cost| bytes.extend_from_slice(&cost.to_le_bytes()));
    bytes.extend_from_slice(&now.map_or(0, |time| time.as_secs()).to_le_bytes());
    bytes.extend_from_slice(&volume);
    bytes.extend_from_slice(salt);
    let head = bytes[..HEAD].to_vec();
    bytes.extend_from_slice(nonce);
    let salt = salt.try_into().expect("16 bytes");
    let nonce: [u8; NONCE_LEN] = nonce.try_into().expect("the length of a nonce");
    let key = wrapping_key(passphrase, &salt, costs)?;
    let mut wrapped = Zeroizing::new(secret.bytes().to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(head), &mut *wrapped).expect("32 bytes");
    bytes.extend_from_slice(&wrapped);
    bytes.resize(bytes.len() + 4, 0);
    bytes.push(u8::try_from(note.len()).expect("at most 95 bytes"));
    bytes.extend_from_slice(note.as_bytes());
    bytes.resize(SLOT_SIZE - 32, 0);
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    Ok(bytes)
}

/// Stretches a passphrase.
fn wrapping_key(passphrase: &[u8], salt: &[u8; 16], costs: [u32; 3]) -> Result<LessSafeKey> {
    let [memory, passes, lanes] = costs;
    let limits = [MEMORY_KIB, PASSES, LANES].map(|cost| cost * TIMES_MAX);
    if costs.iter().zip(limits).any(|(cost, limit)| *cost > limit) {
        let problem = "demands more than four times the usual cost of a passphrase";
        return Err(Error::new(Kind::Unsupported, "key", problem));
    }
    let invalid = |error: argon2::Error| Error::new(Kind::Corrupt, "key", error.to_string());
    let params = Params::new(memory, passes, lanes, Some(32)).map_err(invalid)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase, salt, &mut *key)
        .map_err(invalid)?;
    let key = UnboundKey::new(&AES_256_GCM, &*key).expect("a key of 32 bytes");
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::FaultyFolder;

    #[test]
    fn secret_opens_with_its_passphrases_and_no_other() {
        let folder: Arc<dyn Folder> = Arc::new(FaultyFolder::default());
        let slots = KeySlots::new(&folder, [7; 16]);
        let secret = Secret::new([9; 32]);
        assert_eq!(slots.add(&secret, b"one", "first").expect("added"), 1);
        assert_eq!(slots.add(&secret, b"two", "").expect("added"), 2);
        let opened = slots.unlock(b"two").expect("right");
        assert_eq!((opened.0.bytes(), opened.1), (secret.bytes(), 2));
        assert_eq!(slots.unlock(b"three").expect_err("wrong").kind(), Kind::Locked);
        let notes: Vec<_> = slots.list().expect("listed").into_iter().map(|it| it.note).collect();
        assert_eq!(notes, ["first", ""]);
        slots.remove(1).expect("removed");
        assert_eq!(slots.unlock(b"one").expect_err("removed").kind(), Kind::Locked);
        assert_eq!(slots.remove(2).expect_err("the last one").kind(), Kind::Invalid);
        assert_eq!(slots.remove(5).expect_err("none").kind(), Kind::Missing);
        let other = KeySlots::new(&folder, [8; 16]);
        assert_eq!(other.unlock(b"two").expect_err("another volume").kind(), Kind::Corrupt);
        assert!(slots.add(&secret, b"x", &"n".repeat(96)).is_err(), "a long note");
    }

    #[test]
    fn damaged_key_opens_by_its_copy() {
        let original = FaultyFolder::default();
        let folder: Arc<dyn Folder> = Arc::new(original.clone());
        let slots = KeySlots::new(&folder, [7; 16]);
        slots.add(&Secret::new([9; 32]), b"one", "note").expect("added");
        original.flip("key-0000000000000001", 80, 1);
        assert!(slots.unlock(b"one").is_ok(), "the copy");
        original.flip("key-0000000000000001.copy", 80, 1);
        assert_eq!(slots.unlock(b"one").expect_err("both damaged").kind(), Kind::Corrupt);
    }

    #[test]
    fn any_other_bytes_are_no_slot() {
        let bytes = wrap([7; 16], &Secret::new([9; 32]), b"one", "note").expect("wrapped");
        let bytes: [u8; SLOT_SIZE] = bytes.try_into().expect("the size of a file");
        let slot = Slot::decode(&bytes).expect("a slot");
        assert_eq!((slot.note.as_str(), slot.costs[0]), ("note", MEMORY_KIB));
        for bit in 0..SLOT_SIZE * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Slot::decode(&bytes).is_none(), "bit {bit}");
        }
        // With a valid checksum, a file cannot demand any cost.
        for place in [12, 16, 20] {
            let mut bytes = bytes;
            bytes[place + 3] = 0xff;
            let checksum = *blake3::hash(&bytes[..SLOT_SIZE - 32]).as_bytes();
            bytes[SLOT_SIZE - 32..].copy_from_slice(&checksum);
            let error = Slot::decode(&bytes).expect("a slot").open(b"one").expect_err("too much");
            assert_eq!(error.kind(), Kind::Unsupported, "byte {place}");
        }
    }
}
