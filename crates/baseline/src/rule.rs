//! Cutting a buffer chunk by chunk.

use crate::vector::{Task, Vector};

/// A rule that looks at one chunk after the other.
pub(crate) trait Rule {
    /// The largest chunk in bytes; `None` for no limit.
    fn chunk_size_max(&self) -> Option<usize>;

    /// Where the chunk ends that `data` begins with, which is not empty and no larger than the largest
    /// size; `None` where nothing is found in it. `tree` is memory to work in.
    fn find<V: Vector>(&self, vector: V, tree: &mut Vec<V::Register>, data: &[u8])
    -> Option<usize>;
}

/// Cuts `data`, all of it, by `rule`.
pub(crate) struct Cuts<'a, R> {
    pub(crate) rule: &'a R,
    pub(crate) data: &'a [u8],
}

impl<R: Rule> Task for Cuts<'_, R> {
    type Output = Vec<usize>;

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> Vec<usize> {
        let Cuts { rule, data } = self;
        let (mut ends, mut tree) = (Vec::new(), Vec::new());
        let mut start = 0;
        while start < data.len() {
            let rest = &data[start..];
            let chunk = &rest[..rest.len().min(rule.chunk_size_max().unwrap_or(usize::MAX))];
            start += rule.find(vector, &mut tree, chunk).unwrap_or(chunk.len());
            ends.push(start);
        }
        ends
    }
}
