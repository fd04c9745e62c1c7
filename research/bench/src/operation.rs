//! An instruction in the form in which it is timed.

/// The number of steps in an iteration of an operation.
pub(crate) const UNROLLED: u64 = 16;

/// A timed instruction. A value exists only on a CPU that has the instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Does the given number of iterations of [`UNROLLED`] steps in one dependent chain.
    pub(crate) chained: fn(u64),
    /// Does the given number of iterations of [`UNROLLED`] steps in eight independent chains.
    pub(crate) side_by_side: fn(u64),
}
