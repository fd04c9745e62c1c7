//! Delta chunks that result when chunks are stored again (rules C1, C4, C5): in their present form,
//! or over one similar full chunk.

use cutpoint_delta::{Piece, Window};

use super::delta::{Delta, Part};
use crate::format::extents::{Extent, extent_count_max};
use crate::format::fingerprint::Fingerprint;

/// Expresses `extents` over those of `references` that they name.
pub(super) fn of_extents(extents: &[Extent], references: &[Fingerprint]) -> Option<Delta> {
    let mut delta = Delta::default();
    let mut numbers: Vec<u16> = Vec::new();
    for extent in extents {
        let known = numbers.iter().position(|number| *number == extent.reference);
        let source = known.unwrap_or(numbers.len());
        if known.is_none() {
            numbers.push(extent.reference);
            delta.sources.push(*references.get(usize::from(extent.reference))?);
        }
        delta.parts.push(Part::Copy { source, offset: extent.offset, len: extent.len });
    }
    Some(delta)
}

/// Expresses chunks in terms of one full chunk each. Keeps the table of a window.
#[derive(Debug)]
pub(super) struct Comparison {
    window: Window,
    pieces: Vec<Piece>,
}

impl Comparison {
    pub(super) fn new() -> Comparison {
        Comparison { window: Window::new(0), pieces: Vec::new() }
    }

    /// Expresses `chunk` in terms of `base`, the bytes of the full chunk `name`. Returns `None` if
    /// that takes too many pieces or uses nothing of `base`.
    pub(super) fn encode(&mut self, chunk: &[u8], name: Fingerprint, base: &[u8]) -> Option<Delta> {
        // Positions continue behind those in the table, so that the table need not be cleared.
        let start = self.window.end();
        self.window.restart(start);
        self.window.push(base);
        self.pieces.clear();
        self.window.find(chunk, start, &mut self.pieces);
        if self.pieces.len() > extent_count_max(chunk.len()) {
            return None;
        }
        let mut delta = Delta { sources: vec![name], ..Delta::default() };
        let mut at = 0;
        for piece in &self.pieces {
            let new = match *piece {
                Piece::Literal { len } => {
                    let new = chunk.get(at..at + len)?;
                    delta.literals.extend_from_slice(new);
                    delta.parts.push(Part::Literal { len });
                    new
                }
                Piece::Copy { position, len } => {
                    let offset = usize::try_from(position.checked_sub(start)?).ok()?;
                    let old = base.get(offset..offset + len)?;
                    // Rule C5.
                    if chunk.get(at..at + len) != Some(old) {
                        return None;
                    }
                    let (offset, len) = (u32::try_from(offset).ok()?, u32::try_from(len).ok()?);
                    delta.parts.push(Part::Copy { source: 0, offset, len });
                    old
                }
            };
            at += new.len();
        }
        (at == chunk.len() && delta.literals.len() < chunk.len()).then_some(delta)
    }
}
