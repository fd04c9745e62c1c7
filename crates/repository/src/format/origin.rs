//! Origins: the snapshots that others were copied or imported from.

use std::fmt;

use cutpoint_storage::{Error, Result, hex};
use minicbor::Decoder;

use super::map::{MapWriter, malformed, read_array};
use super::names::TicketId;
use super::repository_id::RepositoryId;

/// The maximum length of an identifier in an origin, in bytes.
pub const ORIGIN_ID_LEN_MAX: usize = 32;

/// The identifier that a program has given to a repository or a snapshot: 1 to 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginId {
    bytes: [u8; ORIGIN_ID_LEN_MAX],
    len: u8,
}

impl OriginId {
    /// Creates an identifier; `None` unless it has 1 to 32 bytes.
    pub fn new(id: &[u8]) -> Option<OriginId> {
        let mut bytes = [0; ORIGIN_ID_LEN_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        let len = u8::try_from(id.len()).ok().filter(|len| *len > 0)?;
        Some(OriginId { bytes, len })
    }

    /// Returns the bytes of the identifier.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the first 8 hexadecimal digits, by which a snapshot is shown.
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }

    /// Returns the identifier of a snapshot of Cutpoint; `None` if its length is another one.
    pub fn ticket(&self) -> Option<TicketId> {
        Some(TicketId(self.as_bytes().try_into().ok()?))
    }
}

impl From<TicketId> for OriginId {
    fn from(id: TicketId) -> OriginId {
        OriginId::new(&id.0).expect("1 to 32 bytes")
    }
}

impl From<RepositoryId> for OriginId {
    fn from(id: RepositoryId) -> OriginId {
        OriginId::new(&id.0).expect("1 to 32 bytes")
    }
}

impl fmt::Display for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, self.as_bytes())
    }
}

impl fmt::Debug for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The program that has made a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tool {
    /// This program.
    #[default]
    Cutpoint,
    /// Restic, or a program that uses its format.
    Restic,
    /// Borg.
    Borg,
    /// The code of a program that a newer version imports from.
    Other(u64),
}

impl Tool {
    fn code(self) -> u64 {
        match self {
            Tool::Cutpoint => 0,
            Tool::Restic => 1,
            Tool::Borg => 2,
            Tool::Other(code) => code,
        }
    }

    pub(super) fn from_code(code: u64) -> Tool {
        match code {
            0 => Tool::Cutpoint,
            1 => Tool::Restic,
            2 => Tool::Borg,
            code => Tool::Other(code),
        }
    }

    /// Returns the name of the program, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Cutpoint => "cutpoint",
            Tool::Restic => "restic",
            Tool::Borg => "borg",
            Tool::Other(_) => "another program",
        }
    }
}

/// A snapshot, by the repository in which a backup has made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OriginKey {
    /// The program that has made the snapshot.
    pub tool: Tool,
    /// The repository.
    pub repository: OriginId,
    /// The snapshot in that repository.
    pub snapshot: OriginId,
}

impl OriginKey {
    /// Returns the key of a snapshot that Cutpoint has made in `repository`.
    pub fn own(repository: RepositoryId, snapshot: TicketId) -> OriginKey {
        let (repository, snapshot) = (repository.into(), snapshot.into());
        OriginKey { tool: Tool::Cutpoint, repository, snapshot }
    }
}

/// The snapshot that was copied or imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The snapshot.
    pub key: OriginKey,
    /// The part of it that the copy has.
    pub coverage: CopyCoverage,
}

/// The part of the original that a copy has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyCoverage {
    /// Everything.
    #[default]
    Complete,
    /// What was copied until a checkpoint (rule W8). Another copy continues from it.
    Begun,
    /// Everything except entries that were left out by a rewrite, and maybe others that could not be
    /// read.
    Reduced,
    /// Everything except entries that could not be read. Another copy tries again.
    Lossy,
}

impl CopyCoverage {
    fn number(self) -> u64 {
        match self {
            CopyCoverage::Complete => 0,
            CopyCoverage::Begun => 1,
            CopyCoverage::Reduced => 2,
            CopyCoverage::Lossy => 3,
        }
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Result<CopyCoverage> {
        match d.u64().map_err(malformed)? {
            0 => Ok(CopyCoverage::Complete),
            1 => Ok(CopyCoverage::Begun),
            2 => Ok(CopyCoverage::Reduced),
            3 => Ok(CopyCoverage::Lossy),
            other => Err(Error::corrupt("", format!("unknown coverage of a copy: {other}"))),
        }
    }
}

impl Origin {
    /// Encodes the origin.
    pub(super) fn encode(&self, map: &mut MapWriter) {
        let Origin { key: OriginKey { tool, repository, snapshot }, coverage } = self;
        map.array_of_bytes(26, &[repository.as_bytes(), snapshot.as_bytes()]);
        if *coverage != CopyCoverage::Complete {
            map.uint(27, coverage.number());
        }
        if *tool != Tool::Cutpoint {
            map.uint(28, tool.code());
        }
    }
}

/// Decodes the ids of an origin: those of a repository and of a snapshot.
pub(super) fn read_ids_of_origin(d: &mut Decoder<'_>) -> Result<(OriginId, OriginId)> {
    let ids = read_array(d, |d| Ok(OriginId::new(d.bytes().map_err(malformed)?)))?;
    match &ids[..] {
        [Some(repository), Some(snapshot)] => Ok((*repository, *snapshot)),
        _ => Err(Error::corrupt(
            "",
            "malformed snapshot: an origin is the ids of a repository and a snapshot, of 1 to 32 \
             bytes",
        )),
    }
}
