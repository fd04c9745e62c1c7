//! VectorCDC: RAM, AE and MAXP made of extreme byte searches and range scans.

use cutpoint_chunking::Spec;

use crate::BaselineError;
use crate::extreme::{extreme, scan};
use crate::keys::Keys;
use crate::rule::Rule;
use crate::vector::Vector;

/// VRAM: one extreme byte search of the window, and one range scan after it.
pub(crate) struct Ram {
    window: usize,
    is_equal_found: bool,
    step: usize,
    chunk_size_max: Option<usize>,
}

impl Ram {
    pub(crate) fn new(spec: &Spec) -> Result<Ram, BaselineError> {
        let keys = Keys::new(spec, &["window", "cut", "equal", "max"])?;
        Ok(Ram {
            window: keys.number("window")?,
            is_equal_found: !keys.is("equal", "pass"),
            step: keys.step(),
            chunk_size_max: keys.optional("max")?,
        })
    }
}

impl Rule for Ram {
    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    #[inline(always)]
    fn find<V: Vector>(
        &self,
        vector: V,
        tree: &mut Vec<V::Register>,
        data: &[u8],
    ) -> Option<usize> {
        let (window, rest) = data.split_at_checked(self.window)?;
        let greatest = extreme::<V, false>(vector, tree, window)?;
        let found = if self.is_equal_found {
            scan::<V, false, true>(vector, rest, greatest)
        } else {
            scan::<V, false, false>(vector, rest, greatest)
        };
        Some(self.window + found? + self.step)
    }
}

/// VAE: range scans for a more extreme byte, and an extreme byte search of the window after each
/// such byte.
pub(crate) struct Ae {
    is_minimum: bool,
    window: usize,
    step: usize,
    chunk_size_max: Option<usize>,
}

impl Ae {
    pub(crate) fn new(spec: &Spec) -> Result<Ae, BaselineError> {
        let keys = Keys::new(spec, &["mode", "window", "cut", "max"])?;
        Ok(Ae {
            is_minimum: keys.is("mode", "min"),
            window: keys.number("window")?,
            step: keys.step(),
            chunk_size_max: keys.optional("max")?,
        })
    }

    /// Finds the cut-point. The extreme byte search is redundant with the next scan, but the paper
    /// has it.
    #[inline(always)]
    fn find_by<V: Vector, const MINIMUM: bool>(
        &self,
        vector: V,
        tree: &mut Vec<V::Register>,
        data: &[u8],
    ) -> Option<usize> {
        let mut at = 0;
        loop {
            let target = *data.get(at)?;
            let end = at + self.window;
            let window = &data[at + 1..data.len().min(end + 1)];
            let Some(found) = scan::<V, MINIMUM, false>(vector, window, target) else {
                return (end < data.len()).then_some(end + self.step);
            };
            at += 1 + found;
            let end = at + self.window;
            if end < data.len() {
                let extreme = extreme::<V, MINIMUM>(vector, tree, &data[at + 1..=end])?;
                if if MINIMUM { extreme > data[at] } else { extreme < data[at] } {
                    return Some(end + self.step);
                }
            }
        }
    }
}

impl Rule for Ae {
    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    #[inline(always)]
    fn find<V: Vector>(
        &self,
        vector: V,
        tree: &mut Vec<V::Register>,
        data: &[u8],
    ) -> Option<usize> {
        if self.is_minimum {
            self.find_by::<V, true>(vector, tree, data)
        } else {
            self.find_by::<V, false>(vector, tree, data)
        }
    }
}

/// VMAXP: a range scan of the window after a candidate, and if the scan finds nothing, an extreme
/// byte search of the window before the candidate.
pub(crate) struct Maxp {
    window: usize,
    is_strict: bool,
    chunk_size_max: Option<usize>,
}

impl Maxp {
    pub(crate) fn new(spec: &Spec) -> Result<Maxp, BaselineError> {
        let keys = Keys::new(spec, &["window", "form", "max"])?;
        Ok(Maxp {
            window: keys.number("window")?,
            is_strict: keys.is("form", "strict"),
            chunk_size_max: keys.optional("max")?,
        })
    }
}

impl Rule for Maxp {
    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    #[inline(always)]
    fn find<V: Vector>(
        &self,
        vector: V,
        tree: &mut Vec<V::Register>,
        data: &[u8],
    ) -> Option<usize> {
        let window = self.window;
        // The released form does not read the last byte that could complete a window.
        let end = if self.is_strict { data.len() } else { data.len().saturating_sub(1) };
        let mut at = window;
        while at + window < end {
            let behind = &data[at + 1..=at + window];
            if let Some(found) = scan::<V, false, true>(vector, behind, data[at]) {
                at += 1 + found;
                continue;
            }
            let greatest = extreme::<V, false>(vector, tree, &data[at - window..at])?;
            if greatest < data[at] || (greatest == data[at] && !self.is_strict) {
                return Some(at);
            }
            at += window + 1;
        }
        None
    }
}
