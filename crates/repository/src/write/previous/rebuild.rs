//! The check of a delta before it is stored (rule C5).

use std::ops::Range;

use cutpoint_delta::common_prefix;
use cutpoint_storage::Result;

use crate::write::delta::{Delta, Part};
use crate::write::references::References;

/// Returns `true` if the parts, read from the stored full chunks, yield the chunk.
///
/// # Errors
///
/// Returns any error of the index or the storage that is no loss.
pub(super) fn is_rebuilt(references: &References<'_>, delta: &Delta, chunk: &[u8]) -> Result<bool> {
    let mut copies: Vec<(usize, usize, Range<usize>)> = Vec::with_capacity(delta.parts.len());
    let (mut at, mut literal_at) = (0, 0);
    for part in &delta.parts {
        match *part {
            Part::Literal { len } => {
                let new = delta.literals.get(literal_at..literal_at + len);
                if !is_equal(chunk.get(at..at + len), new) {
                    return Ok(false);
                }
                literal_at += len;
                at += len;
            }
            Part::Copy { source, offset, len } => {
                let (offset, len) = (offset as usize, len as usize);
                copies.push((source, at, offset..offset + len));
                at += len;
            }
        }
    }
    // Reads one full chunk at a time, because each may be the last reference that keeps a region in
    // memory.
    copies.sort_unstable_by_key(|(source, at, _)| (*source, *at));
    for copies in copies.chunk_by(|(source, ..), (other, ..)| source == other) {
        let Some((source, ..)) = copies.first() else { continue };
        let Some((bytes, _)) = references.full_chunk(&delta.sources[*source])? else {
            return Ok(false);
        };
        for (_, at, range) in copies {
            if !is_equal(chunk.get(*at..at + range.len()), bytes.get(range.clone())) {
                return Ok(false);
            }
        }
    }
    Ok(at == chunk.len())
}

/// Returns `true` if both parts exist and are equal. The function of musl that compares memory, which
/// `==` calls, compares one byte at a time.
fn is_equal(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    one.zip(other).is_some_and(|(one, other)| {
        one.len() == other.len() && common_prefix(one, other) == one.len()
    })
}
