//! The two patterns of VectorCDC: extreme byte search and range scan.

use crate::vector::Vector;

/// Extreme byte search: returns the greatest of `bytes`, or the least, or `None` if there are no
/// bytes.
///
/// All vectors of the range are loaded into an array, `tree`. The halves of the array are combined
/// by their maximum (or minimum), as the levels of a tree, until one vector is left, whose bytes
/// are compared one by one. If the range is no multiple of a vector, the last vector overlaps the
/// one before. (The paper combines neighbours, with the same number of operations and levels.
/// Halves are correct for every number of vectors.)
#[inline(always)]
pub(crate) fn extreme<V: Vector, const LEAST: bool>(
    vector: V,
    tree: &mut Vec<V::Register>,
    bytes: &[u8],
) -> Option<u8> {
    if bytes.len() < V::SIZE {
        return extreme_one_by_one::<LEAST>(bytes);
    }
    let count = bytes.len().div_ceil(V::SIZE);
    if tree.len() < count {
        tree.resize(count, vector.splat(0));
    }
    let mut tree = &mut tree[..count];
    // The loop uses an index, because iterator adapters are not compiled for the instruction set,
    // and would be called each time.
    for k in 0..count - 1 {
        tree[k] = vector.load(&bytes[k * V::SIZE..]);
    }
    tree[count - 1] = vector.load(&bytes[bytes.len() - V::SIZE..]);
    while tree.len() > 1 {
        let half = tree.len().div_ceil(2);
        let (kept, others) = { tree }.split_at_mut(half);
        for k in 0..others.len() {
            let (a, b) = (kept[k], others[k]);
            kept[k] = if LEAST { vector.min(a, b) } else { vector.max(a, b) };
        }
        tree = kept;
    }
    extreme_one_by_one::<LEAST>(&vector.store(tree[0])[..V::SIZE])
}

/// Extreme byte search, byte by byte.
#[inline(always)]
fn extreme_one_by_one<const LEAST: bool>(bytes: &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    let mut extreme = first;
    for &byte in rest {
        if if LEAST { byte < extreme } else { byte > extreme } {
            extreme = byte;
        }
    }
    Some(extreme)
}

/// Range scan: returns the index of the first byte that is greater than `target`, or less if `LESS`
/// is set. If `OR_EQUAL` is set, equal bytes count as well.
///
/// One vector is loaded and compared at a time. The bytes of the last incomplete vector are
/// compared one by one, although the first code of the authors omits them.
#[inline(always)]
pub(crate) fn scan<V: Vector, const LESS: bool, const OR_EQUAL: bool>(
    vector: V,
    bytes: &[u8],
    target: u8,
) -> Option<usize> {
    let targets = vector.splat(target);
    let mut blocks = bytes.chunks_exact(V::SIZE);
    let mut at = 0;
    for block in &mut blocks {
        let block = vector.load(block);
        let (a, b) = if LESS { (targets, block) } else { (block, targets) };
        let found = if OR_EQUAL { vector.at_least(a, b) } else { vector.greater(a, b) };
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += V::SIZE;
    }
    for &byte in blocks.remainder() {
        if (if LESS { byte < target } else { byte > target }) || (OR_EQUAL && byte == target) {
            return Some(at);
        }
        at += 1;
    }
    None
}
