//! The keyring, and the keys that are derived from it.

use std::fmt;

use cutpoint_fingerprint::Blake3;
use cutpoint_storage::{Error, ObjectKind, Result};
use minicbor::{Decoder, Encoder};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zeroize::{Zeroize, Zeroizing};

use crate::format::edges::{EDGE_LEN, Edges};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::map::{at_end, malformed, read_array, read_fixed, read_map, required};
use crate::format::repository_id::RepositoryId;
use crate::format::suite::CipherSuite;

/// A secret of 32 bytes. Wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The epoch whose secret seals nothing, and from which fingerprints and cut-points are derived.
pub(crate) const CHUNK_EPOCH: u32 = 0;

/// The content of a `keys/` object: the repository's id, and one secret per epoch.
///
/// New objects are sealed with the secret of the newest epoch. The keys for fingerprints and
/// cut-points are derived from the first secret for ever, because no stored chunk would be found
/// again otherwise. In a repository that this version creates that is the secret of epoch 0, which
/// seals nothing, so that several repositories can share it ([`Keyring::chunk_secret`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    /// The id of the repository to which the keys belong.
    pub repository: RepositoryId,
    /// Pairs of (epoch, secret); epochs rise. Objects are sealed with secrets of epochs from 1 on.
    pub epochs: Vec<(u32, Secret)>,
}

impl Keyring {
    /// Returns the secret from which fingerprints and cut-points are derived, if nothing is sealed
    /// with it, so that another repository may have it as well.
    pub fn chunk_secret(&self) -> Option<&Secret> {
        self.epochs.first().filter(|(epoch, _)| *epoch == CHUNK_EPOCH).map(|(_, secret)| secret)
    }

    /// Encodes the keyring as a map, without leaving copies of secrets in memory.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // A single vector with sufficient capacity is used, because one that grows or is copied
        // leaves secrets behind.
        let room = 64 + self.epochs.len() * 48;
        let mut e = Encoder::new(Vec::with_capacity(room));
        let written = (|| {
            e.map(2)?.u32(0)?.bytes(&self.repository.0)?;
            e.u32(1)?.array(self.epochs.len() as u64 * 2)?;
            for (epoch, secret) in &self.epochs {
                e.u32(*epoch)?.bytes(&secret.0)?;
            }
            Ok::<_, minicbor::encode::Error<std::convert::Infallible>>(())
        })();
        assert!(written.is_ok(), "writing to a vector does not fail");
        Zeroizing::new(e.into_writer())
    }

    /// Decodes a keyring.
    pub fn decode(bytes: &[u8]) -> Result<Keyring> {
        let d = &mut Decoder::new(bytes);
        let (mut repository, mut epochs) = (None, None);
        read_map(d, |key, d| {
            match key {
                0 => repository = Some(RepositoryId(read_fixed(d)?)),
                1 => {
                    let mut epoch = None;
                    let mut pairs = Vec::new();
                    read_array(d, |d| {
                        match epoch.take() {
                            None => epoch = Some(d.u32().map_err(malformed)?),
                            Some(epoch) => pairs.push((epoch, Secret(read_fixed(d)?))),
                        }
                        Ok(())
                    })?;
                    epochs = Some(pairs);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        let keyring = Keyring {
            repository: required(repository, "repository id of a keyring")?,
            epochs: required(epochs, "epochs of a keyring")?,
        };
        let rising = keyring.epochs.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let seals = keyring.epochs.last().is_some_and(|(epoch, _)| *epoch > CHUNK_EPOCH);
        if !seals || !rising {
            return Err(Error::corrupt("", "malformed keyring: epochs are not ascending from 1"));
        }
        Ok(keyring)
    }
}

/// The purposes with a sealing key of their own, so that a future keyring may hold a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyClass {
    /// Settings.
    Config,
    /// Tickets, commits, prunes, and the view checkpoint.
    Commit,
    /// Index segments, and the tables of contents of containers.
    Index,
    /// Regions of trees and recipes.
    Meta,
    /// Regions of file chunks.
    Data,
    /// Candidates for similarity search.
    Similarity,
    /// Parity data, from which damaged containers can be rebuilt.
    Parity,
}

impl KeyClass {
    const ALL: [(KeyClass, &'static str); 7] = [
        (KeyClass::Config, "cutpoint v1 config"),
        (KeyClass::Commit, "cutpoint v1 commit"),
        (KeyClass::Index, "cutpoint v1 index"),
        (KeyClass::Meta, "cutpoint v1 meta"),
        (KeyClass::Data, "cutpoint v1 data"),
        (KeyClass::Similarity, "cutpoint v1 similarity"),
        (KeyClass::Parity, "cutpoint v1 parity"),
    ];

    /// Returns the class of the key that seals the body of an object of `kind`. Keyrings are sealed
    /// with keys of their own (`seal::wrap`).
    pub fn of(kind: ObjectKind) -> KeyClass {
        match kind {
            ObjectKind::Config | ObjectKind::Key => KeyClass::Config,
            ObjectKind::Ticket | ObjectKind::Commit | ObjectKind::Prune | ObjectKind::View => {
                KeyClass::Commit
            }
            ObjectKind::Segment => KeyClass::Index,
            ObjectKind::Meta => KeyClass::Meta,
            ObjectKind::Data => KeyClass::Data,
            ObjectKind::Similarity => KeyClass::Similarity,
            ObjectKind::Parity => KeyClass::Parity,
        }
    }
}

/// All keys of an unlocked repository.
#[derive(Clone)]
pub struct Keys {
    suite: CipherSuite,
    keyring: Keyring,
    epochs: Vec<(u32, [Secret; 7])>,
    fingerprint_data: Secret,
    fingerprint_meta: Secret,
    cut: Secret,
    tree_cut: Secret,
    ends_seed: u64,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("suite", &self.suite)
            .field("repository", &self.keyring.repository)
            .finish_non_exhaustive()
    }
}

impl Keys {
    /// Derives the keys of `keyring`, for objects sealed with `cipher suite`.
    pub fn derive(keyring: &Keyring, suite: CipherSuite) -> Keys {
        let epochs = keyring
            .epochs
            .iter()
            .filter(|(epoch, _)| *epoch > CHUNK_EPOCH)
            .map(|(epoch, secret)| {
                (*epoch, KeyClass::ALL.map(|(_, context)| derive(context, secret)))
            })
            .collect();
        let first = &keyring.epochs[0].1;
        Keys {
            suite,
            epochs,
            fingerprint_data: derive("cutpoint v1 fingerprint data", first),
            fingerprint_meta: derive("cutpoint v1 fingerprint meta", first),
            cut: derive("cutpoint v1 cut", first),
            tree_cut: derive("cutpoint v1 tree cut", first),
            ends_seed: first_number(&derive("cutpoint v1 match", first).0),
            keyring: keyring.clone(),
        }
    }

    /// Returns the cipher suite by which new objects are sealed.
    pub fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// Returns the id of the repository to which the keys belong.
    pub fn repository(&self) -> RepositoryId {
        self.keyring.repository
    }

    /// Returns the keyring from which the keys were derived, for another passphrase or a recovery
    /// kit.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns the newest epoch, with which new objects are sealed. A repository opens only with a
    /// keyring whose newest epoch is that of the settings.
    pub fn epoch(&self) -> u32 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// Returns the sealing key of `class` in `epoch`.
    pub(crate) fn class_key(&self, epoch: u32, class: KeyClass) -> Option<&Secret> {
        let (_, keys) = self.epochs.iter().find(|(number, _)| *number == epoch)?;
        let index = KeyClass::ALL.iter().position(|(each, _)| *each == class)?;
        keys.get(index)
    }

    /// Returns the fingerprint of a chunk.
    pub fn fingerprint(&self, class: Class, chunk: &[u8]) -> Fingerprint {
        Fingerprint(*blake3::keyed_hash(self.fingerprint_key(class), chunk).as_bytes())
    }

    /// Returns the fingerprints of many chunks, in order. Faster than [`Keys::fingerprint`] for
    /// each chunk.
    pub fn fingerprints(&self, class: Class, chunks: &[&[u8]]) -> Vec<Fingerprint> {
        let mut digests = Vec::with_capacity(chunks.len());
        Blake3::keyed(self.fingerprint_key(class)).digests(chunks, &mut digests);
        digests.into_iter().map(Fingerprint).collect()
    }

    fn fingerprint_key(&self, class: Class) -> &[u8; 32] {
        match class {
            Class::Data => &self.fingerprint_data.0,
            Class::Meta => &self.fingerprint_meta.0,
        }
    }

    /// Returns `N` bytes for a keyed chunker, which never change in this repository.
    pub fn cut_material<const N: usize>(&self) -> [u8; N] {
        let mut material = [0; N];
        blake3::Hasher::new_keyed(&self.cut.0).finalize_xof().fill(&mut material);
        material
    }

    /// Returns a number that decides whether a tree is cut before the entry with this name. It is
    /// keyed, so that names which always or never cause a cut cannot be chosen.
    pub fn name_hash(&self, name: &[u8]) -> u64 {
        first_number(blake3::keyed_hash(&self.tree_cut.0, name).as_bytes())
    }

    /// Returns hashes of the head and of the tail of a chunk, by which similar chunks are found;
    /// `None` if the chunk is too short for both.
    pub fn edges(&self, chunk: &[u8]) -> Option<Edges> {
        let (head, tail) = (chunk.first_chunk::<EDGE_LEN>()?, chunk.last_chunk::<EDGE_LEN>()?);
        (chunk.len() >= 2 * EDGE_LEN).then(|| [self.edge(head), self.edge(tail)])
    }

    /// Returns the hash of a head or tail of any length.
    pub fn edge(&self, end: &[u8]) -> u32 {
        u32::try_from(xxh3_64_with_seed(end, self.ends_seed) & u64::from(u32::MAX)).unwrap_or(0)
    }
}

fn first_number(bytes: &[u8; 32]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(first)
}

fn derive(context: &str, secret: &Secret) -> Secret {
    Secret(blake3::derive_key(context, &secret.0))
}
