//! Stores the live chunks of one container again.

use std::collections::HashSet;

use super::source::{Source, SourceResult, Sources};
use super::survey::Survey;
use super::usage::is_copied;
use crate::format::fingerprint::Fingerprint;
use crate::format::toc::{ChunkRecord, Form};
use crate::gc::locate::{Container, LiveChunks, staying};
use crate::write::{EncodedRegion, Inline, RawChunk};

/// Stores again the chunks of a container that are `live`, region by region.
pub(super) fn rewrite(
    inline: &mut Inline,
    survey: &Survey,
    container: &Container,
    live: &LiveChunks,
) -> SourceResult<()> {
    let repository = inline.writer().repository().clone();
    let mut source = Sources::new(&repository, &survey.reader).open(container)?;
    let loaded = source.loaded().clone();
    let chunks = staying(&loaded.toc, live);
    if chunks.len() < live.len() {
        // A hint or the index was wrong, so the container stays.
        let found: HashSet<Fingerprint> = chunks.iter().map(|chunk| chunk.fingerprint).collect();
        let missing = live.keys().find(|chunk| !found.contains(chunk)).map(ToString::to_string);
        let message =
            format!("chunk {} differs from the table of contents", missing.unwrap_or_default());
        return source.damaged(message);
    }
    for of_region in chunks.chunk_by(|one, other| one.region == other.region) {
        rewrite_region(&mut source, inline, of_region)?;
    }
    Ok(())
}

/// Stores again the chunks `live` of one region, of which there is at least one. If they make up
/// most of the region, it is copied in its compressed form. Otherwise the chunks are stored as
/// full chunks.
fn rewrite_region(
    source: &mut Source<'_>,
    inline: &mut Inline,
    live: &[&ChunkRecord],
) -> SourceResult<()> {
    let class = source.class();
    let number = live[0].region;
    let (bytes, part) = source.decode(number)?;
    let region = &source.regions()[usize::from(number)];
    let is_full = |chunk: &ChunkRecord| chunk.form != Form::Delta;
    for chunk in live.iter().filter(|chunk| is_full(chunk)) {
        source.payload(&bytes, chunk, true)?;
    }
    if is_copied(region, live) {
        let mut references = Vec::new();
        for chunk in live.iter().filter(|chunk| !is_full(chunk)) {
            // Rule C5: the delta chunk must rebuild to its fingerprint.
            source.rebuild(chunk)?;
            references.clone_from(&region.references);
        }
        let chunks = live.iter().map(|chunk| RawChunk::from(*chunk)).collect();
        let copied = EncodedRegion::copied(class, bytes, region.codec, part, chunks, references);
        return Ok(inline.store_region(copied)?);
    }
    for chunk in live {
        if is_full(chunk) {
            // The fingerprint was compared above.
            inline.store(class, chunk.fingerprint, source.payload(&bytes, chunk, false)?)?;
        } else {
            inline.store(class, chunk.fingerprint, &source.rebuild(chunk)?)?;
        }
    }
    Ok(())
}
