//! Zeros.

/// Returns `true` if all bytes are zeros.
pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    // The compiler makes a vector of the loop over a part, and the first other part ends the search.
    let is_zero = |part: &[u8]| part.iter().fold(0, |all, byte| all | byte) == 0;
    words.iter().all(|part| is_zero(part)) && is_zero(rest)
}
