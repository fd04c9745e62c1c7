//! The content of a file of remembered state.

use std::collections::BTreeMap;
use std::path::Path;

use cutpoint_storage::hex;
use serde::{Deserialize, Serialize};

use crate::crypto::CipherSuite;
use crate::format::names::TicketId;
use crate::repo::repository::Repository;
use crate::repo::view::View;

/// The version of the file. A file of another version is ignored.
const VERSION: u32 = 2;

/// The newest state of a repository, as one machine has seen it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    version: u32,
    /// The id of the repository, in hexadecimal.
    pub repository: String,
    /// The location where the repository was last seen.
    pub location: String,
    /// The code of the cipher suite.
    pub suite: u8,
    /// The newest key epoch.
    pub epoch: u32,
    /// The number of the newest settings.
    pub config_number: u64,
    /// The number of the highest prune record that was opened. Prune records are never deleted.
    pub prune_number: u64,
    /// The newest snapshot of each host.
    pub heads: BTreeMap<String, Head>,
    /// The `keys/` object that last opened the repository, in hexadecimal; empty if there was none.
    #[serde(default)]
    pub key_id: String,
}

/// The newest snapshot of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The id of the snapshot, in hexadecimal.
    pub snapshot: String,
    /// The start of the backup, in nanoseconds since 1970.
    pub started_ns: i64,
}

impl Head {
    pub(super) fn new(snapshot: TicketId, started_ns: i64) -> Head {
        Head { snapshot: snapshot.to_string(), started_ns }
    }

    /// Returns the id of the snapshot; `None` if the file has a text that is no id.
    pub fn id(&self) -> Option<TicketId> {
        TicketId::parse(&self.snapshot)
    }
}

impl StateRecord {
    /// Returns the state of `repository` without its snapshots and prune records.
    pub(super) fn of(repository: &Repository, location: &Path) -> StateRecord {
        StateRecord {
            version: VERSION,
            repository: repository.keys().repository().to_string(),
            location: canonical(location),
            suite: repository.config().suite.code(),
            epoch: repository.keys().epoch(),
            config_number: repository.config_number(),
            prune_number: 0,
            heads: BTreeMap::new(),
            key_id: key_id_of(repository),
        }
    }

    /// Returns the state with the snapshots and prune records of `view`.
    pub(super) fn with_view(&self, view: &View) -> StateRecord {
        StateRecord {
            prune_number: view.prunes.keys().next_back().copied().unwrap_or(0),
            heads: heads_of(view),
            ..self.clone()
        }
    }

    /// Returns `true` if the repository is not encrypted.
    pub fn is_unencrypted(&self) -> bool {
        self.suite == CipherSuite::None.code()
    }

    /// Returns the newest snapshot of all hosts, with its host.
    pub fn newest_head(&self) -> Option<(&String, &Head)> {
        newest(&self.heads)
    }

    /// Returns the id of the `keys/` object that last opened the repository.
    pub(super) fn parsed_key_id(&self) -> Option<[u8; 16]> {
        hex::parse(&self.key_id)
    }

    /// Sets the settings, the key epoch and the key to those of `repository`.
    pub(super) fn set_settings(&mut self, repository: &Repository) {
        self.config_number = repository.config_number();
        self.epoch = repository.keys().epoch();
        self.key_id = key_id_of(repository);
    }

    /// Merges the state that another process has written meanwhile. For each item, the newer one is
    /// kept.
    pub(super) fn merge(&mut self, other: &StateRecord) {
        self.epoch = self.epoch.max(other.epoch);
        self.config_number = self.config_number.max(other.config_number);
        self.prune_number = self.prune_number.max(other.prune_number);
        for (host, head) in &other.heads {
            let own = self.heads.entry(host.clone()).or_insert_with(|| head.clone());
            if own.started_ns < head.started_ns {
                own.clone_from(head);
            }
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<StateRecord, String> {
        let record: StateRecord =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match record.version {
            VERSION => Ok(record),
            version => Err(format!("unknown version (expected {VERSION}, found {version})")),
        }
    }
}

fn key_id_of(repository: &Repository) -> String {
    let digits = |id: [u8; 16]| id.iter().map(|byte| format!("{byte:02x}")).collect();
    repository.key_id().map(digits).unwrap_or_default()
}

/// Returns the text by which a location is remembered.
pub(super) fn canonical(location: &Path) -> String {
    let location = std::fs::canonicalize(location).unwrap_or_else(|_| location.to_path_buf());
    location.to_string_lossy().into_owned()
}

/// Returns the newest of some snapshots, with its host.
pub(super) fn newest(heads: &BTreeMap<String, Head>) -> Option<(&String, &Head)> {
    heads.iter().max_by_key(|(_, head)| head.started_ns)
}

/// Returns the newest snapshot of each host in `view`.
fn heads_of(view: &View) -> BTreeMap<String, Head> {
    let snapshots = view.snapshots().into_iter();
    // The snapshots come in the order of their times.
    snapshots
        .map(|(id, snapshot)| (snapshot.host.clone(), Head::new(id, snapshot.started_ns)))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the record of a repository without settings, snapshots and prune records.
    pub(in super::super) fn empty() -> StateRecord {
        StateRecord { version: VERSION, ..StateRecord::default() }
    }

    /// A damaged file counts either completely or not at all.
    #[test]
    fn damaged_state_files_are_ignored() {
        let mut record = empty();
        record.heads.insert("host".to_owned(), Head::new(TicketId([1; 12]), i64::MIN));
        let full = record.encode().expect("it is plain data");
        assert_eq!(StateRecord::decode(&full), Ok(record), "what is written is read");
        let palette = b"\"\\{}[],:-0129eE.un\xff\xf0\0a";
        let mut random = cutpoint_testing::SplitMix64::new(1);
        for len in 0..full.len() {
            assert!(StateRecord::decode(&full[..len]).is_err(), "the first {len} bytes");
        }
        for _ in 0..20_000 {
            let mut bytes = full.clone();
            for _ in 0..=random.below(3) {
                let position = random.below(bytes.len());
                bytes[position] = palette[random.below(palette.len())];
            }
            let Ok(record) = StateRecord::decode(&bytes) else { continue };
            record.newest_head();
            let again = record.encode().expect("it is plain data");
            assert_eq!(StateRecord::decode(&again), Ok(record), "what is read is written the same");
        }
    }
}
