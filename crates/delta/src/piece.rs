//! The pieces of a chunk.

/// The difference of positions up to which the last copy of a chunk says where the next chunk
/// begins, in bytes.
const SHIFT_MAX: u64 = 16 * 1024;

/// A part of a new chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes that are not in the window.
    Literal {
        /// The length in bytes, more than 0.
        len: usize,
    },
    /// Bytes that are in the window.
    Copy {
        /// The position of the bytes in the old stream.
        position: u64,
        /// The length in bytes, more than 0.
        len: usize,
    },
}

impl Piece {
    fn len(&self) -> usize {
        match *self {
            Piece::Literal { len } | Piece::Copy { len, .. } => len,
        }
    }
}

/// Returns the position in the old stream that corresponds to the end of a chunk of these pieces,
/// or `None` if they have no copy.
///
/// The last copy decides, but only if its shift, the difference of its positions in the old stream
/// and in the chunk, is near that of the longest copy. A short copy may come from anywhere.
#[must_use]
pub fn position_behind(pieces: &[Piece]) -> Option<u64> {
    let mut longest: Option<(usize, u64)> = None;
    let mut end = 0;
    // The position of the chunk's first byte, if the whole chunk were where a copy is.
    let start_of = |position: u64, at: usize| position.wrapping_sub(at as u64);
    for piece in pieces {
        if let Piece::Copy { position, len } = *piece
            && longest.is_none_or(|(most, _)| len > most)
        {
            longest = Some((len, start_of(position, end)));
        }
        end += piece.len();
    }
    let (_, longest) = longest?;
    let mut at = end;
    for piece in pieces.iter().rev() {
        at -= piece.len();
        if let Piece::Copy { position, .. } = *piece {
            let start = start_of(position, at);
            if start.wrapping_sub(longest).min(longest.wrapping_sub(start)) < SHIFT_MAX {
                return Some(start.wrapping_add(end as u64));
            }
        }
    }
    None
}
