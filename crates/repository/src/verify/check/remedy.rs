//! Remedies: the commands that resolve a finding.

use std::fmt;

use crate::format::names::ObjectName;

/// A command that resolves a finding. Variants are ordered as several of them should be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Restores the original bytes of objects, as far as they can be derived from the remaining
    /// ones.
    Objects {
        /// Set if containers have to be read completely to find the damage.
        read_data: bool,
    },
    /// Deletes settings that no key opens.
    RemoveSettings(ObjectName),
    /// Removes a keyring that has no intact copy, and that is not the one in use. Only its own
    /// secret could show whether it still opens.
    RemoveKey([u8; 16]),
    /// Replaces the key in use by a new one.
    ReplaceKey,
    /// Gives up a missing prune record, while no other client is at work.
    GiveUpPrune(u64),
    /// Rebuilds containers from parity, and damaged parity from containers.
    Data {
        /// Set if parity has to be read completely to find the damage.
        read_data: bool,
    },
    /// Stores data again that the sources still have.
    Backup,
    /// Rebuilds the index, and ends writers whose tickets cannot be read.
    Index,
    /// Lists data that is missing for good, keeps the rest, and forgets the damaged snapshots.
    Snapshots,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Objects { read_data: false } => write!(f, "cutpoint repair objects"),
            Remedy::Objects { read_data: true } => write!(f, "cutpoint repair objects --read-data"),
            Remedy::RemoveSettings(name) => write!(f, "cutpoint repair objects --remove {name}"),
            Remedy::RemoveKey(id) => {
                write!(f, "cutpoint key remove --force ")?;
                id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Remedy::ReplaceKey => write!(f, "cutpoint key passwd"),
            Remedy::GiveUpPrune(number) => write!(f, "cutpoint repair index --give-up {number}"),
            Remedy::Data { read_data: false } => write!(f, "cutpoint repair data"),
            Remedy::Data { read_data: true } => write!(f, "cutpoint repair data --read-data"),
            Remedy::Backup => write!(f, "cutpoint backup"),
            Remedy::Index => write!(f, "cutpoint repair index"),
            Remedy::Snapshots => write!(f, "cutpoint repair snapshots --forget"),
        }
    }
}

impl Remedy {
    /// Returns the effect of the command in a few words, beginning with a verb in the third person.
    pub fn effect(&self) -> &'static str {
        match self {
            Remedy::Objects { .. } => "repairs objects whose essential content is intact",
            Remedy::RemoveSettings(_) => "deletes settings that no key opens",
            Remedy::RemoveKey(_) => {
                "removes a damaged keyring; while its secret still works, run `key passwd` with it \
                 first"
            }
            Remedy::ReplaceKey => "replaces the key in use by a new one",
            Remedy::GiveUpPrune(_) => "discards a prune record, while no other client is active",
            Remedy::Data { .. } => "rebuilds damaged containers from parity",
            Remedy::Backup => {
                "of the same sources (of copies: `cutpoint copy`): stores again what they still have"
            }
            Remedy::Index => "rebuilds the index from the containers",
            Remedy::Snapshots => {
                "lists missing data, keeps the rest, and forgets damaged snapshots"
            }
        }
    }
}
