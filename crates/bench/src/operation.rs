//! An instruction in the form in which it is timed.

/// The number of steps that an operation does for each that is counted.
pub(crate) const UNROLLED: u64 = 16;

/// An instruction as it is timed. Only a CPU that has the instruction makes one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Does as many times [`UNROLLED`] steps that wait for each other.
    pub(crate) chained: fn(u64),
    /// The same, in eight chains.
    pub(crate) side_by_side: fn(u64),
}
