//! Prune records: the containers that a prune condemns, and the segments that it publishes instead.

use std::collections::HashSet;

use cutpoint_storage::{Error, Result};
use minicbor::{Decoder, Encoder};

use super::commit::read_ids;
use super::map::{Extra, MapWriter, at_end, malformed, read_array, read_fixed, read_map};
use crate::format::fingerprint::Class;
use crate::format::names::{PartName, TicketId};

/// The body of `prunes/<n>`. Records are never deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Segments that count from now on.
    pub published: Vec<PartName>,
    /// Segments that do not count any more.
    pub superseded: Vec<PartName>,
    /// Containers that are condemned. Readers use them as long as they exist, and writers never
    /// refer to them.
    pub condemned: Vec<(Class, PartName)>,
    /// F: the snapshots that this prune takes, and the other commits that it takes with them (P6).
    pub taken: Vec<TicketId>,
    /// The snapshots whose chunks this prune kept, besides those of the record `marked_base`.
    pub marked: Vec<TicketId>,
    /// The writer of the record.
    pub ticket: Option<TicketId>,
    /// The time of the record, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Snapshots that are held from now on, so that no rule forgets them.
    pub held: Vec<TicketId>,
    /// Snapshots that are not held any more.
    pub released: Vec<TicketId>,
    /// `forget` commits that are cancelled.
    pub unforgotten: Vec<TicketId>,
    /// Numbers of missing records that do not count any more, even if one comes back.
    pub given_up: Vec<u64>,
    /// What the published segments that were merged have taken from superseded ones.
    pub coverings: Vec<Covering>,
    /// Numbers of records that are swept, as `swept` commits said that this prune takes.
    pub swept: Vec<u64>,
    /// The commits that only taken commits had recorded as seen (P7).
    pub attested: Vec<TicketId>,
    /// The number of an earlier record whose marked snapshots this prune has marked as well, except
    /// for those in `unmarked`.
    pub marked_base: Option<u64>,
    /// Snapshots that the record `marked_base` had marked and this prune has not.
    pub unmarked: Vec<TicketId>,
    /// Index segments that lie in commits of `taken`, and all of whose containers are condemned by
    /// this record or an earlier one. They count until their commits are deleted.
    pub spent: Vec<PartName>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

/// The origin of a segment that a prune has merged from others.
///
/// Each of its hints is in a covered segment. Each container that a covered segment names, with all
/// hints that lead to it, is in a segment of the same record, unless the container was condemned
/// and gone when the record was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// The merged segment, which the same record publishes.
    pub segment: PartName,
    /// The segments that were merged, at least one.
    pub covered: Vec<PartName>,
}

impl Prune {
    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let parts = |parts: &[PartName]| parts.iter().map(|p| p.to_bytes()).collect::<Vec<_>>();
        let ids = |ids: &[TicketId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        let of = |class| {
            let each = self.condemned.iter().filter(move |(each, _)| *each == class);
            each.map(|(_, part)| part.to_bytes()).collect::<Vec<_>>()
        };
        let mut map = MapWriter::new();
        map.array_of_bytes(0, &parts(&self.published));
        map.array_of_bytes(1, &parts(&self.superseded));
        map.array_of_bytes(2, &of(Class::Data)).array_of_bytes(3, &of(Class::Meta));
        map.array_of_bytes(4, &ids(&self.taken)).array_of_bytes(5, &ids(&self.marked));
        if let Some(ticket) = self.ticket {
            map.bytes(6, &ticket.0);
        }
        map.int(7, self.time_ns).array_of_bytes(8, &ids(&self.held));
        map.array_of_bytes(9, &ids(&self.released)).array_of_bytes(10, &ids(&self.unforgotten));
        if !self.given_up.is_empty() {
            map.item(11, |e| write_numbers(e, &self.given_up));
        }
        if !self.coverings.is_empty() {
            map.item(12, |e| write_coverings(e, &self.coverings));
        }
        if !self.swept.is_empty() {
            map.item(13, |e| write_numbers(e, &self.swept));
        }
        if !self.attested.is_empty() {
            map.array_of_bytes(14, &ids(&self.attested));
        }
        if let Some(base) = self.marked_base {
            map.uint(15, base);
        }
        if !self.unmarked.is_empty() {
            map.array_of_bytes(16, &ids(&self.unmarked));
        }
        if !self.spent.is_empty() {
            map.array_of_bytes(17, &parts(&self.spent));
        }
        map.extra(&self.extra);
        map.finish()
    }

    /// Decodes the body of the object.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the body is malformed, or a covering is of a segment that the
    /// record does not publish, or has no covered segment.
    pub fn decode(bytes: &[u8]) -> Result<Prune> {
        let d = &mut Decoder::new(bytes);
        let mut prune = Prune::default();
        prune.extra = read_map(d, |key, d| {
            match key {
                0 => prune.published = read_parts(d)?,
                1 => prune.superseded = read_parts(d)?,
                2 | 3 => {
                    let class = if key == 2 { Class::Data } else { Class::Meta };
                    prune.condemned.extend(read_parts(d)?.into_iter().map(|part| (class, part)));
                }
                4 => prune.taken = read_ids(d)?,
                5 => prune.marked = read_ids(d)?,
                6 => prune.ticket = Some(TicketId(read_fixed(d)?)),
                7 => prune.time_ns = d.i64().map_err(malformed)?,
                8 => prune.held = read_ids(d)?,
                9 => prune.released = read_ids(d)?,
                10 => prune.unforgotten = read_ids(d)?,
                11 => prune.given_up = read_array(d, |d| d.u64().map_err(malformed))?,
                12 => prune.coverings = read_array(d, read_covering)?,
                13 => prune.swept = read_array(d, |d| d.u64().map_err(malformed))?,
                14 => prune.attested = read_ids(d)?,
                15 => prune.marked_base = Some(d.u64().map_err(malformed)?),
                16 => prune.unmarked = read_ids(d)?,
                17 => prune.spent = read_parts(d)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        let published: HashSet<PartName> = prune.published.iter().copied().collect();
        if prune.coverings.iter().any(|covering| !published.contains(&covering.segment)) {
            return Err(bad("covering of a segment that is not published"));
        }
        Ok(prune)
    }
}

fn write_numbers(e: &mut Encoder<Vec<u8>>, numbers: &[u64]) {
    // Writing to a vector cannot fail.
    e.array(numbers.len() as u64).ok();
    for number in numbers {
        e.u64(*number).ok();
    }
}

fn bad(problem: &str) -> Error {
    Error::corrupt("", format!("malformed prune record: {problem}"))
}

fn write_coverings(e: &mut Encoder<Vec<u8>>, coverings: &[Covering]) {
    e.array(coverings.len() as u64).ok();
    for Covering { segment, covered } in coverings {
        e.array(1 + covered.len() as u64).ok();
        for part in std::iter::once(segment).chain(covered) {
            e.bytes(&part.to_bytes()).ok();
        }
    }
}

fn read_covering(d: &mut Decoder<'_>) -> Result<Covering> {
    let parts = read_parts(d)?;
    match parts.split_first() {
        Some((segment, covered)) if !covered.is_empty() => {
            Ok(Covering { segment: *segment, covered: covered.to_vec() })
        }
        _ => Err(bad("covering without covered segments")),
    }
}

fn read_parts(d: &mut Decoder<'_>) -> Result<Vec<PartName>> {
    read_array(d, |d| Ok(PartName::from_bytes(read_fixed(d)?)))
}
