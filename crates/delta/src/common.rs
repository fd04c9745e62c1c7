//! The length of the common prefix and suffix of two slices.

/// The number of bytes compared at once. The compiler turns the comparison into vector
/// instructions.
const BLOCK: usize = 32;

/// Returns the length of the common prefix of `a` and `b`, in bytes.
#[must_use]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let blocks = a.as_chunks::<BLOCK>().0.iter().zip(b.as_chunks::<BLOCK>().0);
    let start = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let (a, b) = (&a[start..], &b[start..]);
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let mut at = 0;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return start + at + (differing.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    start + at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// Returns the length of the common suffix of `a` and `b`, in bytes.
#[must_use]
pub fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[a.len() - len..], &b[b.len() - len..]);
    let blocks = a.as_rchunks::<BLOCK>().1.iter().rev().zip(b.as_rchunks::<BLOCK>().1.iter().rev());
    let end = len - blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let (a, b) = (&a[..end], &b[..end]);
    let words = a.as_rchunks::<8>().1.iter().rev().zip(b.as_rchunks::<8>().1.iter().rev());
    let mut at = end;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return len - at + (differing.leading_zeros() / 8) as usize;
        }
        at -= 8;
    }
    len - at + a[..at].iter().rev().zip(b[..at].iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Returns the lengths of the common prefix and the common suffix of `a` and `b`, in bytes. The
/// prefix has precedence: the suffix never overlaps the prefix, neither in `a` nor in `b`.
#[must_use]
pub fn common_edges(a: &[u8], b: &[u8]) -> (usize, usize) {
    let prefix = common_prefix(a, b);
    (prefix, common_suffix(&a[prefix..], &b[prefix..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_found_at_every_length_and_place() {
        for len in 0..200 {
            let a: Vec<u8> =
                (0..len).map(|at| u8::try_from(at * 7 % 251).expect("a byte")).collect();
            assert_eq!((common_prefix(&a, &a), common_suffix(&a, &a)), (len, len));
            for place in 0..len {
                let mut b = a.clone();
                b[place] ^= 0x80;
                assert_eq!(common_prefix(&a, &b), place, "{len} bytes");
                assert_eq!(common_suffix(&a, &b), len - place - 1, "{len} bytes");
                assert_eq!(common_prefix(&a[..place], &a), place, "{len} bytes");
                assert_eq!(common_suffix(&a, &a[place..]), len - place, "{len} bytes");
            }
        }
    }
}
