//! Cutting a buffer chunk by chunk.

use crate::vector::{Task, Vector};

/// A rule that finds one chunk after another.
pub(crate) trait Rule {
    /// Returns the maximum chunk size in bytes, or `None` for no limit.
    fn chunk_size_max(&self) -> Option<usize>;

    /// Returns the end of the chunk at the start of `data`, or `None` if there is no cut-point in
    /// `data`. `data` is not empty and no larger than the maximum size. `tree` is working memory.
    fn find<V: Vector>(&self, vector: V, tree: &mut Vec<V::Register>, data: &[u8])
    -> Option<usize>;
}

/// The task of cutting all of `data` by `rule`.
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
