//! Tickets, which announce that a writer has begun and, when renewed, that it is still at work.

use std::fmt;

use cutpoint_storage::{Error, Process, Result};
use minicbor::Decoder;

use super::map::{Extra, MapWriter, at_end, malformed, read_fixed, read_map, required};

/// The value of a machine in one repository: equal for all writers on that machine and its clones,
/// and meaningless in any other repository.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MachineValue(pub [u8; 16]);

impl fmt::Debug for MachineValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The purpose of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A backup, which may end in a snapshot.
    Backup,
    /// A prune, which ends in a record under `prunes/`.
    Prune,
    /// A sweep, which ends in a `rescue` or `swept` commit.
    Sweep,
    /// A change of notes, settings or the like.
    Other,
}

impl Purpose {
    fn code(self) -> u64 {
        match self {
            Purpose::Backup => 0,
            Purpose::Prune => 1,
            Purpose::Sweep => 2,
            Purpose::Other => 3,
        }
    }

    fn from_code(code: u64) -> Result<Purpose> {
        Ok(match code {
            0 => Purpose::Backup,
            1 => Purpose::Prune,
            2 => Purpose::Sweep,
            3 => Purpose::Other,
            _ => return Err(Error::corrupt("", format!("ticket with the unknown purpose {code}"))),
        })
    }
}

/// The body of `tickets/<t>` and `tickets/<t>.<k>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The purpose of the writer.
    pub purpose: Purpose,
    /// The process of the writer.
    pub process: Process,
    /// The value of the writer's machine in this repository
    /// ([`crate::repo::liveness::machine_value`]); `None` if the machine has no identity.
    pub machine: Option<MachineValue>,
    /// The time of the ticket, in nanoseconds since 1970 by the writer's clock. Only messages use
    /// it, because the writer's clock decides nothing.
    pub time_ns: i64,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl Ticket {
    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = MapWriter::new();
        map.uint(0, self.purpose.code()).text(1, &self.process.host);
        map.text(2, &self.process.boot_id).uint(3, u64::from(self.process.process_id));
        map.uint(4, self.process.started).int(5, self.time_ns);
        map.text(6, &self.process.namespace);
        if let Some(machine) = &self.machine {
            map.bytes(7, &machine.0);
        }
        map.extra(&self.extra);
        map.finish()
    }

    /// Decodes the body of the object.
    pub fn decode(bytes: &[u8]) -> Result<Ticket> {
        let d = &mut Decoder::new(bytes);
        let mut purpose = None;
        let mut process = Process::default();
        let mut machine = None;
        let mut time_ns = 0;
        let extra = read_map(d, |key, d| {
            match key {
                0 => purpose = Some(Purpose::from_code(d.u64().map_err(malformed)?)?),
                1 => process.host = d.str().map_err(malformed)?.to_owned(),
                2 => process.boot_id = d.str().map_err(malformed)?.to_owned(),
                3 => process.process_id = d.u32().map_err(malformed)?,
                4 => process.started = d.u64().map_err(malformed)?,
                5 => time_ns = d.i64().map_err(malformed)?,
                6 => process.namespace = d.str().map_err(malformed)?.to_owned(),
                7 => machine = Some(MachineValue(read_fixed(d)?)),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        let purpose = required(purpose, "purpose of a ticket")?;
        Ok(Ticket { purpose, process, machine, time_ns, extra })
    }
}
