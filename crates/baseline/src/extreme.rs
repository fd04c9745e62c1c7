//! The two patterns of VectorCDC: extreme byte search and range scan.

use crate::vector::Vector;

/// Extreme byte search: the greatest of `bytes`, or the least; `None` where there are none.
///
/// All vectors of the range are loaded into an array. Neighbours are joined by their maximum (or
/// minimum), level by level, as in a tree, until one is left; its bytes are looked at one by one. The
/// last vector overlaps the one before where the range is no multiple of a vector, and an odd one goes
/// up a level as it is: the authors' first code leaves out both.
#[inline(always)]
pub(crate) fn extreme<V: Vector, const LEAST: bool>(
    vector: V,
    tree: &mut Vec<V::Register>,
    bytes: &[u8],
) -> Option<u8> {
    if bytes.len() < V::SIZE {
        return if LEAST { bytes.iter().min().copied() } else { bytes.iter().max().copied() };
    }
    tree.clear();
    let mut blocks = bytes.chunks_exact(V::SIZE);
    for block in &mut blocks {
        tree.push(vector.load(block));
    }
    if !blocks.remainder().is_empty() {
        tree.push(vector.load(&bytes[bytes.len() - V::SIZE..]));
    }
    while tree.len() > 1 {
        let count = tree.len();
        for pair in 0..count / 2 {
            let (a, b) = (tree[2 * pair], tree[2 * pair + 1]);
            tree[pair] = if LEAST { vector.min(a, b) } else { vector.max(a, b) };
        }
        if count % 2 == 1 {
            tree[count / 2] = tree[count - 1];
        }
        tree.truncate(count.div_ceil(2));
    }
    let last = vector.store(tree[0]);
    let last = last[..V::SIZE].iter();
    if LEAST { last.min().copied() } else { last.max().copied() }
}

/// Range scan: the index of the first byte that is greater than `target`, or less where `LESS`; or
/// equal, where `OR_EQUAL`.
///
/// One vector is loaded and compared at a time. What is left of less than a vector is looked at byte by
/// byte: the authors' first code leaves it out.
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
