//! The names of objects.

use std::fmt;

use cutpoint_storage::{Error, ObjectKind, Result, hex};

use crate::format::fingerprint::Class;

/// The identity of a writer: 12 random bytes, made unique by putting `tickets/<t>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketId(pub [u8; 12]);

impl TicketId {
    /// Parses 24 hexadecimal digits.
    pub fn parse(text: &str) -> Option<TicketId> {
        Some(TicketId(hex::parse(text)?))
    }

    /// Returns the first 8 digits, by which a snapshot is shown.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
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
    /// Encodes the name in the 16 bytes used in headers, tables of contents and segments: ticket,
    /// count (big-endian).
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
    /// `similarity/<t>-<k>`.
    Similarity(PartName),
    /// `parity/<xx>/<class>-<t><k>-<t of its writer>`.
    Parity {
        /// The class of the protected container.
        class: Class,
        /// The name of the protected container.
        container: PartName,
        /// The writer of this object, which has put no other parity object for the same container.
        writer: TicketId,
    },
    /// `views/<p>-<v>`.
    View {
        /// The position of the part in the view checkpoint, from 0.
        position: u32,
        /// The version of the part, from 0; the highest one counts.
        version: u32,
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
            ObjectName::Similarity(_) => ObjectKind::Similarity,
            ObjectName::Parity { .. } => ObjectKind::Parity,
            ObjectName::View { .. } => ObjectKind::View,
        }
    }

    /// Returns the 16 bytes of the name in the header: ticket and count, a number as u128
    /// (little-endian), the id, two numbers of 8 bytes, or the start of a hash where a name has
    /// more than 16 bytes. Both copies of an object have the same bytes.
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
            | ObjectName::Similarity(part) => part.to_bytes(),
            ObjectName::Parity { class, container, writer } => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&[u8::from(class == Class::Meta)]);
                hasher.update(&container.to_bytes()).update(&writer.0);
                let mut start = [0; 16];
                hasher.finalize_xof().fill(&mut start);
                start
            }
            ObjectName::View { position, version } => {
                (u128::from(version) << 64 | u128::from(position)).to_le_bytes()
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
                hex::write(f, id)?;
                f.write_str(suffix(*copy))
            }
            ObjectName::Ticket { ticket, renewal: 0 } => write!(f, "{ticket}"),
            ObjectName::Ticket { ticket, renewal } => write!(f, "{ticket}.{renewal}"),
            ObjectName::Commit(ticket) => write!(f, "{ticket}"),
            ObjectName::Prune(number) => write!(f, "{number:020}"),
            ObjectName::Segment(part) | ObjectName::Similarity(part) => write!(f, "{part}"),
            ObjectName::Container(_, part) => {
                write!(f, "{:02x}/{}{:08x}", spread(*part), part.ticket, part.count)
            }
            ObjectName::Parity { class, container, writer } => {
                let PartName { ticket, count } = container;
                write!(f, "{:02x}/{class}-{ticket}{count:08x}-{writer}", spread(*container))
            }
            ObjectName::View { position, version } => write!(f, "{position:08x}-{version:08x}"),
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
            ObjectName::Key { id: hex::parse(uncopied.unwrap_or(rest))?, copy: uncopied.is_some() }
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
        "index" | "similarity" => {
            let (ticket, count) = rest.split_once('-')?;
            let part = PartName { ticket: TicketId::parse(ticket)?, count: parse_count(count)? };
            if folder == "index" { ObjectName::Segment(part) } else { ObjectName::Similarity(part) }
        }
        "views" => {
            let (position, version) = rest.split_once('-')?;
            ObjectName::View { position: parse_count(position)?, version: parse_count(version)? }
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
            ObjectName::Similarity(part),
            ObjectName::Parity { class: Class::Data, container: part, writer: ticket },
            ObjectName::Parity { class: Class::Meta, container: part, writer: TicketId([3; 12]) },
            ObjectName::View { position: 0, version: 0x12ab },
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
            "views/1-2",
            "views/00000001",
            "views/+0000001-00000000",
            "tmp/x",
        ] {
            assert!(ObjectName::parse(path).is_err(), "{path:?} was taken for a name");
        }
    }
}
