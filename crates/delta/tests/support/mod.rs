//! What the tests of the pieces of chunks share.

use cutpoint_delta::Piece;

/// Joins the pieces again. `old` begins at position 0.
pub(crate) fn join(old: &[u8], new: &[u8], pieces: &[Piece]) -> Vec<u8> {
    let mut joined: Vec<u8> = Vec::new();
    for piece in pieces {
        match *piece {
            Piece::Literal { len } => joined.extend_from_slice(&new[joined.len()..][..len]),
            Piece::Copy { position, len } => {
                let start = usize::try_from(position).expect("a small position");
                joined.extend_from_slice(&old[start..start + len]);
            }
        }
    }
    joined
}
