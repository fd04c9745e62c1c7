//! Descriptions of any object as text, for diagnosis and for learning the format.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;
use zstd::bulk::Decompressor;

use crate::crypto::{
    Header, KeyAbout, KeyMethod, Opener, PartKind, Trailer, claimed_view_name, object_is_intact,
    open_object,
};
use crate::format::bursts::BurstHints;
use crate::format::commit::Commit;
use crate::format::config::Config;
use crate::format::edges::{ContainerEdges, SimilarityObject};
use crate::format::extents::{self, Extent};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::ObjectName;
use crate::format::prune::Prune;
use crate::format::recipe::RecipeChunk;
use crate::format::region::decode_region;
use crate::format::segment::Segment;
use crate::format::ticket::Ticket;
use crate::format::toc::{ChunkRecord, Form, RegionRecord, Toc};
use crate::format::tree::Entry;
use crate::format::view_part::ViewPart;
use crate::index::Scope;
use crate::parity::Parity;
use crate::read::{ChunkBytes, Reader};
use crate::repo::lagging_clients::is_mark;
use crate::repo::repository::Repository;

/// Maximum number of extents of a delta chunk that are shown.
const EXTENTS_SHOWN_MAX: usize = 32;

/// Maximum number of characters of a mark that are shown.
const MARK_SHOWN_MAX: usize = 1000;

/// The description of an object.
#[derive(Clone, Debug)]
pub struct Description {
    /// The stored length in bytes.
    pub length: u64,
    /// The key epoch in the header.
    pub epoch: u32,
    /// All fields of the object. The text is for reading; its form may change.
    pub text: String,
}

/// Describes the mark at `path`, which is no object: a file beside the tickets, whose content is text.
/// Returns `None` if no mark has this name.
///
/// # Errors
///
/// Returns the `Missing` error if there is no such mark.
pub fn describe_mark(repository: &Repository, path: &str) -> Result<Option<Description>> {
    if !is_mark(path) {
        return Ok(None);
    }
    let bytes = repository.storage().get(path)?;
    let length = bytes.len() as u64;
    let shown: String = String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .take(MARK_SHOWN_MAX)
        .collect();
    let text = format!(
        "object      {path}\nlength      {length} B\nkind        mark (not sealed)\n\n{shown}\n"
    );
    Ok(Some(Description { length, epoch: 0, text }))
}

/// Describes the object `name`.
///
/// # Errors
///
/// Returns the `Missing`, `Corrupt` or `WrongKey` error of reading the object.
pub fn describe(repository: &Repository, name: ObjectName) -> Result<Description> {
    let bytes = repository.storage().get(&name.to_string())?;
    let header = Header::decode(&name, &bytes)?;
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        writeln!(text, "{key:<12}{value}").ok();
    };
    line("object", &name);
    line("length", &format!("{} B", bytes.len()));
    line("kind", &format!("{:?}", name.kind()));
    line("suite", &header.suite);
    line("epoch", &header.epoch);
    line("salt", &hex(&header.salt));
    line("commitment", &hex(&header.commitment));
    line("checksum", &if object_is_intact(&bytes) { "matches" } else { "DOES NOT MATCH" });
    let body = || open_object(repository.keys(), name, &bytes);
    let body = match name {
        ObjectName::Config { .. } => pretty(&Config::decode(&body()?)?),
        ObjectName::Key { .. } => key(repository, name, &bytes)?,
        ObjectName::Ticket { .. } => pretty(&Ticket::decode(&body()?)?),
        ObjectName::Commit(_) => pretty(&Commit::decode(&body()?)?),
        ObjectName::Prune(_) => pretty(&Prune::decode(&body()?)?),
        ObjectName::Segment(_) => {
            let segment = Segment::decode(&body()?)?;
            let mut text = format!("hints       {}\n", segment.hints.len());
            text.push_str(&pretty(&segment.containers));
            text
        }
        ObjectName::Similarity(_) => {
            let hints = SimilarityObject::decode(&body()?)?;
            let line = |it: &ContainerEdges| format!("{:<12}{}\n", it.edges.len(), it.container);
            let mut text: String = hints.containers.iter().map(line).collect();
            if let Some(bursts) = BurstHints::decode(&hints.extra) {
                let count: usize = bursts.edges.iter().map(Vec::len).sum();
                text.push_str(&format!("{count:<12}for bursts, tau {}\n", bursts.tau));
                text.push_str(&format!("{:<12}have bursts\n", bursts.counts.len()));
            }
            text
        }
        ObjectName::Parity { .. } => parity(repository, name, &bytes)?,
        ObjectName::View { .. } => view_part(&ViewPart::decode(&body()?.into())?),
        ObjectName::Container(..) => container(repository, name, &bytes)?,
    };
    text.push_str(&body);
    Ok(Description { length: bytes.len() as u64, epoch: header.epoch, text })
}

/// Describes a chunk: a recipe or a tree decoded, file data as its length. The text is for reading;
/// its form may change.
///
/// # Errors
///
/// Returns any error of [`Reader::chunk`].
pub fn describe_chunk(reader: &Reader, class: Class, fingerprint: &Fingerprint) -> Result<String> {
    let bytes = reader.chunk(class, fingerprint)?;
    let mut text = format!("{:<12}{class} chunk {fingerprint}\n", "object");
    text.push_str(&format!("{:<12}{} B\n", "length", bytes.len()));
    if let Ok(Some(location)) = reader.index().find(class, fingerprint, Scope::Read) {
        let (container, record) = (location.container.name, location.chunk());
        let container = ObjectName::Container(class, container);
        let (form, region) = (record.form, record.region);
        let place = format!("{container}, region {region}, byte {}, {form:?}", record.offset);
        text.push_str(&format!("{:<12}{place}\n", "place"));
    }
    if class == Class::Data {
        return Ok(text);
    }
    // A chunk does not record its type, but a recipe is a single map that no entry could be.
    if let Ok(recipe) = RecipeChunk::decode(&bytes) {
        text.push_str(&pretty(&recipe));
        return Ok(text);
    }
    let d = &mut Decoder::new(&bytes);
    while d.position() < bytes.len() {
        match Entry::decode(d) {
            Ok(entry) => text.push_str(&pretty(&entry)),
            Err(error) => {
                text.push_str(&format!("at byte {}: {error}\n", d.position()));
                break;
            }
        }
    }
    Ok(text)
}

fn pretty(value: &impl Debug) -> String {
    format!("{value:#?}\n")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the public part of a `keys/` object; its keyring is secret.
fn key(repository: &Repository, name: ObjectName, bytes: &[u8]) -> Result<String> {
    let mut text = format!("method      {:?}\n", KeyMethod::of_object(name, bytes)?);
    match KeyAbout::of_object(repository.keys(), name, bytes) {
        Ok(Some(about)) => text.push_str(&pretty(&about)),
        Ok(None) => text.push_str("no description\n"),
        Err(error) => text.push_str(&format!("unreadable description: {error}\n")),
    }
    text.push_str("a wrapped keyring; its contents are secret\n");
    Ok(text)
}

fn view_part(part: &ViewPart) -> String {
    let line = |object: &bytes::Bytes| match claimed_view_name(object) {
        Some(name) => format!("{:<12}{name}\n", object.len()),
        None => format!("{:<12}not a commit or prune record\n", object.len()),
    };
    part.objects.iter().map(line).collect()
}

fn parity(repository: &Repository, name: ObjectName, bytes: &[u8]) -> Result<String> {
    let Parity { table, shards } = Parity::open(repository.keys(), name, bytes)?;
    let mut text = String::new();
    let container = ObjectName::Container(table.class, table.container);
    let damaged = shards.iter().filter(|shard| shard.is_none()).count();
    writeln!(text, "container   {container}, {} bytes", table.container_len).ok();
    writeln!(text, "shards      {} of {} bytes", table.checksums.len(), table.shard_len).ok();
    writeln!(text, "parity      {} shards, {damaged} of them damaged", table.parity_count).ok();
    Ok(text)
}

fn container(repository: &Repository, name: ObjectName, bytes: &[u8]) -> Result<String> {
    let opener = Opener::new(repository.keys(), name, bytes)?;
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
    let start = usize::try_from(trailer.offset)
        .map_err(|_| Error::corrupt(name, "table of contents larger than memory"))?;
    let mut part = bytes[start..start + trailer.length as usize].to_vec();
    opener.open(PartKind::Toc, &mut part)?;
    let toc = Toc::decode(&part, trailer.offset)?;
    let mut text = String::new();
    writeln!(text, "contents    {} bytes at {}", trailer.length, trailer.offset).ok();
    writeln!(
        text,
        "\n{:>6} {:>10} {:>10} {:>10} {:>6}",
        "region", "offset", "stored", "raw", "codec"
    )
    .ok();
    for (number, region) in toc.regions.iter().enumerate() {
        let codec = format!("{:?}", region.codec);
        let (offset, stored_len, raw_len) = (region.offset, region.stored_len, region.raw_len);
        writeln!(text, "{number:>6} {offset:>10} {stored_len:>10} {raw_len:>10} {codec:>6}").ok();
        for (number, reference) in region.references.iter().enumerate() {
            writeln!(text, "{:>6} reference {number:>5}  {reference}", "").ok();
        }
    }
    writeln!(
        text,
        "\n{:>6} {:>10} {:>10}  {:<9} fingerprint",
        "region", "offset", "length", "form"
    )
    .ok();
    let mut decoded: Option<(u16, Result<Arc<Vec<u8>>>)> = None;
    for chunk in &toc.chunks {
        let form = format!("{:?}", chunk.form);
        writeln!(
            text,
            "{:>6} {:>10} {:>10}  {form:<9} {}",
            chunk.region, chunk.offset, chunk.payload_len, chunk.fingerprint
        )
        .ok();
        let number = chunk.region;
        if chunk.form != Form::Delta {
            continue;
        }
        if decoded.as_ref().is_none_or(|(of, _)| *of != number) {
            let region = &toc.regions[usize::from(number)];
            decoded = Some((number, decode(&opener, number, region, bytes).map(Arc::new)));
        }
        if let Some((_, region)) = &decoded {
            let references = &toc.regions[usize::from(number)].references;
            describe_extents(chunk, region, references, &mut text);
        }
    }
    Ok(text)
}

/// Opens and decodes a region of the container `bytes`.
fn decode(opener: &Opener, number: u16, region: &RegionRecord, bytes: &[u8]) -> Result<Vec<u8>> {
    let start = region.offset as usize;
    let part = bytes.get(start..start + region.stored_len as usize);
    let mut part =
        part.ok_or_else(|| Error::corrupt("", "beyond the end of the container"))?.to_vec();
    opener.open(PartKind::Region(u32::from(number)), &mut part)?;
    let decompressor = Decompressor::new();
    let mut decompressor = decompressor.map_err(|error| Error::invalid("zstd", error))?;
    decode_region(&mut decompressor, region.codec, part, region.raw_len)
}

/// Describes the first extents of a delta chunk.
fn describe_extents(
    chunk: &ChunkRecord,
    region: &Result<Arc<Vec<u8>>>,
    references: &[Fingerprint],
    text: &mut String,
) {
    let extents = match region {
        Ok(region) => ChunkBytes::of_record(region, chunk)
            .ok_or_else(|| Error::corrupt("", "outside its region"))
            .and_then(|payload| extents::decode(&payload, chunk.chunk_len, references.len())),
        Err(error) => Err(Error::new(error.kind(), "", error)),
    };
    let indent = "";
    match extents {
        Ok(extents) => {
            writeln!(text, "{indent:>18} {:>10} bytes", chunk.chunk_len).ok();
            for Extent { reference, offset, len } in extents.iter().take(EXTENTS_SHOWN_MAX) {
                let place = format!("of reference {reference} from {offset}");
                writeln!(text, "{indent:>18} {len:>10}  {place}").ok();
            }
            if let Some(more) = extents.len().checked_sub(EXTENTS_SHOWN_MAX).filter(|it| *it > 0) {
                writeln!(text, "{indent:>18} and {more} more").ok();
            }
        }
        Err(error) => {
            writeln!(text, "{indent:>18} unreadable extents: {error}").ok();
        }
    }
}
