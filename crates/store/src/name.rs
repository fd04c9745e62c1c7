//! The names of objects.

use std::fmt;

use crate::error::{Error, Result};
use crate::fingerprint::Class;

/// The identity of a writer: 12 random bytes, made unique by putting `tickets/<t>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketId(pub [u8; 12]);

impl TicketId {
    /// Parses 24 hexadecimal digits.
    pub fn parse(text: &str) -> Option<TicketId> {
        Some(TicketId(parse_hex(text)?))
    }

    /// Returns the first 8 digits, by which a snapshot is shown.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of a container or segment: its writer and a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartName {
    /// The ticket of the writer.
    pub ticket: TicketId,
    /// The sequence number among the writer's objects of this kind, from 0.
    pub count: u32,
}

impl PartName {
    /// Encodes the name in the 16 bytes used in headers, directories and segments: ticket, count
    /// (big-endian).
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&self.ticket.0);
        bytes[12..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }

    /// The inverse of [`PartName::to_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> PartName {
        let mut ticket = [0; 12];
        ticket.copy_from_slice(&bytes[..12]);
        let count = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        PartName { ticket: TicketId(ticket), count }
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.ticket, self.count)
    }
}

impl fmt::Debug for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The kind of an object. Its code is part of the object's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// The settings of the repository.
    Config,
    /// The keyring, wrapped.
    Key,
    /// The announcement that a writer has begun.
    Ticket,
    /// The outcome of a writer.
    Commit,
    /// The containers that a prune has condemned, and the segments that it has published.
    Prune,
    /// An index segment: the locations of chunks.
    Segment,
    /// A container of file chunks.
    Data,
    /// A container of trees and recipes.
    Meta,
    /// Candidates for similarity search.
    Hints,
    /// Parity data, from which a damaged container can be rebuilt.
    Parity,
}

impl ObjectKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [ObjectKind; 10] = [
        ObjectKind::Config,
        ObjectKind::Key,
        ObjectKind::Ticket,
        ObjectKind::Commit,
        ObjectKind::Prune,
        ObjectKind::Segment,
        ObjectKind::Data,
        ObjectKind::Meta,
        ObjectKind::Hints,
        ObjectKind::Parity,
    ];

    /// Returns the code of this kind in headers.
    pub fn code(self) -> u8 {
        match self {
            ObjectKind::Config => 1,
            ObjectKind::Key => 2,
            ObjectKind::Ticket => 3,
            ObjectKind::Commit => 4,
            ObjectKind::Prune => 5,
            ObjectKind::Segment => 6,
            ObjectKind::Data => 7,
            ObjectKind::Meta => 8,
            ObjectKind::Hints => 9,
            ObjectKind::Parity => 10,
        }
    }

    /// Returns the folder that holds objects of this kind.
    pub fn folder(self) -> &'static str {
        match self {
            ObjectKind::Config => "config",
            ObjectKind::Key => "keys",
            ObjectKind::Ticket => "tickets",
            ObjectKind::Commit => "commits",
            ObjectKind::Prune => "prunes",
            ObjectKind::Segment => "index",
            ObjectKind::Data => "data",
            ObjectKind::Meta => "meta",
            ObjectKind::Hints => "hints",
            ObjectKind::Parity => "parity",
        }
    }

    /// Returns the maximum length of an object of this kind in bytes (`docs/format.md`, section 2).
    /// Writers never exceed this length, and readers refuse longer objects without reading them.
    pub fn len_max(self) -> u64 {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        match self {
            ObjectKind::Key | ObjectKind::Ticket => 16 * KIB,
            ObjectKind::Config => 64 * KIB,
            ObjectKind::Commit | ObjectKind::Prune => 64 * MIB,
            ObjectKind::Segment | ObjectKind::Data | ObjectKind::Meta | ObjectKind::Hints => {
                128 * MIB
            }
            ObjectKind::Parity => 160 * MIB,
        }
    }

    /// Returns the maximum number of names in one listing of this kind (`docs/format.md`, section
    /// 2). A longer listing ends with an error.
    pub fn count_max(self) -> usize {
        match self {
            ObjectKind::Key | ObjectKind::Config => 10_000,
            ObjectKind::Ticket | ObjectKind::Commit | ObjectKind::Prune => 1_000_000,
            ObjectKind::Segment | ObjectKind::Hints => 4_000_000,
            ObjectKind::Data | ObjectKind::Meta | ObjectKind::Parity => 16_000_000,
        }
    }

    /// Returns the kind of the objects in the folder that the path or prefix `path` begins with;
    /// `None` if that is not a folder of objects.
    pub fn of_path(path: &str) -> Option<ObjectKind> {
        let folder = path.split('/').next().unwrap_or_default();
        ObjectKind::ALL.into_iter().find(|kind| kind.folder() == folder)
    }
}

/// The name of an object, which determines its place in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectName {
    /// `config/<n>` or `config/<n>.copy`.
    Config {
        /// The sequence number of the settings; the highest number counts.
        number: u64,
        /// Set for the second copy.
        copy: bool,
    },
    /// `keys/<id>` or `keys/<id>.copy`.
    Key {
        /// A random id.
        id: [u8; 16],
        /// Set for the second copy.
        copy: bool,
    },
    /// `tickets/<t>` (renewal 0) or `tickets/<t>.<k>`.
    Ticket {
        /// The writer that announces itself.
        ticket: TicketId,
        /// The number of renewals: 0 at the beginning, and one more every hour.
        renewal: u32,
    },
    /// `commits/<t>`.
    Commit(TicketId),
    /// `prunes/<n>`.
    Prune(u64),
    /// `index/<t>-<k>`.
    Segment(PartName),
    /// `data/<xx>/<t><k>` or `meta/<xx>/<t><k>`.
    Container(Class, PartName),
    /// `hints/<t>-<k>`.
    Hints(PartName),
    /// `parity/<xx>/<class>-<t><k>-<t of its writer>`.
    Parity {
        /// The class of the protected container.
        class: Class,
        /// The name of the protected container.
        container: PartName,
        /// The writer of this object, which has put no other parity object for the same container.
        writer: TicketId,
    },
}

impl ObjectName {
    /// Returns the kind of the object.
    pub fn kind(&self) -> ObjectKind {
        match self {
            ObjectName::Config { .. } => ObjectKind::Config,
            ObjectName::Key { .. } => ObjectKind::Key,
            ObjectName::Ticket { .. } => ObjectKind::Ticket,
            ObjectName::Commit(_) => ObjectKind::Commit,
            ObjectName::Prune(_) => ObjectKind::Prune,
            ObjectName::Segment(_) => ObjectKind::Segment,
            ObjectName::Container(Class::Data, _) => ObjectKind::Data,
            ObjectName::Container(Class::Meta, _) => ObjectKind::Meta,
            ObjectName::Hints(_) => ObjectKind::Hints,
            ObjectName::Parity { .. } => ObjectKind::Parity,
        }
    }

    /// Returns the 16 bytes of the name in the header: ticket and count, a number as u128
    /// (little-endian), the id, or the start of a hash where a name has more than 16 bytes. Both
    /// copies of an object have the same bytes.
    pub fn header_bytes(&self) -> [u8; 16] {
        match *self {
            ObjectName::Config { number, .. } | ObjectName::Prune(number) => {
                u128::from(number).to_le_bytes()
            }
            ObjectName::Key { id, .. } => id,
            ObjectName::Ticket { ticket, renewal } => {
                PartName { ticket, count: renewal }.to_bytes()
            }
            ObjectName::Commit(ticket) => PartName { ticket, count: 0 }.to_bytes(),
            ObjectName::Segment(part)
            | ObjectName::Container(_, part)
            | ObjectName::Hints(part) => part.to_bytes(),
            ObjectName::Parity { class, container, writer } => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&[u8::from(class == Class::Meta)]);
                hasher.update(&container.to_bytes()).update(&writer.0);
                let mut start = [0; 16];
                hasher.finalize_xof().fill(&mut start);
                start
            }
        }
    }

    /// Parses a path; the inverse of `Display`.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if `path` is not the name of an object.
    pub fn parse(path: &str) -> Result<ObjectName> {
        parse(path).ok_or_else(|| Error::invalid(path, "not the name of an object"))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind().folder())?;
        let suffix = |copy| if copy { ".copy" } else { "" };
        match self {
            ObjectName::Config { number, copy } => write!(f, "{number:020}{}", suffix(*copy)),
            ObjectName::Key { id, copy } => {
                write_hex(f, id)?;
                f.write_str(suffix(*copy))
            }
            ObjectName::Ticket { ticket, renewal: 0 } => write!(f, "{ticket}"),
            ObjectName::Ticket { ticket, renewal } => write!(f, "{ticket}.{renewal}"),
            ObjectName::Commit(ticket) => write!(f, "{ticket}"),
            ObjectName::Prune(number) => write!(f, "{number:020}"),
            ObjectName::Segment(part) | ObjectName::Hints(part) => write!(f, "{part}"),
            ObjectName::Container(_, part) => {
                write!(f, "{:02x}/{}{:08x}", spread(*part), part.ticket, part.count)
            }
            ObjectName::Parity { class, container, writer } => {
                let PartName { ticket, count } = container;
                write!(f, "{:02x}/{class}-{ticket}{count:08x}-{writer}", spread(*container))
            }
        }
    }
}

/// Returns the sub-folder of a container: the first byte of the BLAKE3 hash of its 16-byte name.
fn spread(part: PartName) -> u8 {
    blake3::hash(&part.to_bytes()).as_bytes()[0]
}

fn parse(path: &str) -> Option<ObjectName> {
    let (folder, rest) = path.split_once('/')?;
    let uncopied = rest.strip_suffix(".copy");
    let name = match folder {
        "config" => ObjectName::Config {
            number: parse_number(uncopied.unwrap_or(rest))?,
            copy: uncopied.is_some(),
        },
        "keys" => {
            ObjectName::Key { id: parse_hex(uncopied.unwrap_or(rest))?, copy: uncopied.is_some() }
        }
        "tickets" => match rest.split_once('.') {
            None => ObjectName::Ticket { ticket: TicketId::parse(rest)?, renewal: 0 },
            Some((ticket, renewal)) => ObjectName::Ticket {
                ticket: TicketId::parse(ticket)?,
                renewal: renewal.parse().ok().filter(|&k| k > 0)?,
            },
        },
        "commits" => ObjectName::Commit(TicketId::parse(rest)?),
        "prunes" => ObjectName::Prune(parse_number(rest)?),
        "index" | "hints" => {
            let (ticket, count) = rest.split_once('-')?;
            let part = PartName { ticket: TicketId::parse(ticket)?, count: parse_count(count)? };
            if folder == "index" { ObjectName::Segment(part) } else { ObjectName::Hints(part) }
        }
        "data" | "meta" => {
            let (_, name) = rest.split_once('/')?;
            ObjectName::Container(parse_class(folder)?, parse_container(name)?)
        }
        "parity" => {
            let (_, name) = rest.split_once('/')?;
            let (class, name) = name.split_once('-')?;
            let (container, writer) = name.split_once('-')?;
            ObjectName::Parity {
                class: parse_class(class)?,
                container: parse_container(container)?,
                writer: TicketId::parse(writer)?,
            }
        }
        _ => return None,
    };
    // Only the canonical spelling, which writers use, is a name: no upper case, no leading zeros.
    (name.to_string() == path).then_some(name)
}

fn parse_class(text: &str) -> Option<Class> {
    match text {
        "data" => Some(Class::Data),
        "meta" => Some(Class::Meta),
        _ => None,
    }
}

/// Parses a ticket and a count with nothing between them.
fn parse_container(text: &str) -> Option<PartName> {
    let (ticket, count) = text.split_at_checked(24)?;
    Some(PartName { ticket: TicketId::parse(ticket)?, count: parse_count(count)? })
}

fn parse_number(text: &str) -> Option<u64> {
    if text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

fn parse_count(text: &str) -> Option<u32> {
    if text.len() == 8 { u32::from_str_radix(text, 16).ok() } else { None }
}

/// Parses exactly `2 N` hexadecimal digits.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(digits[0]).to_digit(16)?;
        let low = char::from(digits[1]).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        let ticket = TicketId([0xa5; 12]);
        let part = PartName { ticket, count: 0x1234 };
        let names = [
            ObjectName::Config { number: 7, copy: false },
            ObjectName::Config { number: u64::MAX, copy: true },
            ObjectName::Key { id: [9; 16], copy: false },
            ObjectName::Key { id: [9; 16], copy: true },
            ObjectName::Ticket { ticket, renewal: 0 },
            ObjectName::Ticket { ticket, renewal: 12 },
            ObjectName::Commit(ticket),
            ObjectName::Prune(3),
            ObjectName::Segment(part),
            ObjectName::Container(Class::Data, part),
            ObjectName::Container(Class::Meta, part),
            ObjectName::Hints(part),
            ObjectName::Parity { class: Class::Data, container: part, writer: ticket },
            ObjectName::Parity { class: Class::Meta, container: part, writer: TicketId([3; 12]) },
        ];
        for name in names {
            assert_eq!(ObjectName::parse(&name.to_string()).ok(), Some(name), "{name}");
        }
        assert_eq!(PartName::from_bytes(part.to_bytes()), part);
    }

    #[test]
    fn noncanonical_spellings_are_no_names() {
        for path in [
            "",
            "config",
            "config/7",
            "config/00000000000000000007.bak",
            "tickets/a5a5a5a5a5a5a5a5a5a5a5a5.0",
            "tickets/a5a5a5a5a5a5a5a5a5a5a5a5.01",
            "commits/A5a5a5a5a5a5a5a5a5a5a5a5",
            "commits/a5a5a5a5a5a5a5a5a5a5a5",
            "data/zz/a5a5a5a5a5a5a5a5a5a5a5a500001234",
            "data/../a5a5a5a5a5a5a5a5a5a5a5a500001234",
            "parity/zz/data-a5a5a5a5a5a5a5a5a5a5a5a500001234-a5a5a5a5a5a5a5a5a5a5a5a5",
            "parity/data-a5a5a5a5a5a5a5a5a5a5a5a500001234",
            "tmp/x",
        ] {
            assert!(ObjectName::parse(path).is_err(), "{path:?} was taken for a name");
        }
    }
}
