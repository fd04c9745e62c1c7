//! AE: algorithm 2 of Gregoriadis et al., and algorithms 1 and 3 of the AE paper, whose positions
//! count from 1, with values of several bytes and the cut of dedup-bench; and algorithm 2 of the AE
//! paper, AE-Opt1.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    Rule::new(keys, false).cuts(data)
}

/// Returns the cut-points by AE-Opt1, which are those of AE; `None` for AE-Opt2, with which the
/// paper does not combine it.
pub(crate) fn opt1_cuts(keys: &Keys<'_>, data: &[u8]) -> Option<Vec<usize>> {
    keys.text("lest").is_none().then(|| Rule::new(keys, true).cuts(data))
}

struct Rule {
    is_maximum: bool,
    /// The size of a value in bytes.
    bytes: usize,
    window: usize,
    is_before: bool,
    lest: Option<usize>,
    max: Option<usize>,
    is_opt1: bool,
}

impl Rule {
    fn new(keys: &Keys<'_>, is_opt1: bool) -> Rule {
        Rule {
            is_maximum: keys.text("mode") == Some("max"),
            bytes: keys.optional_size("bytes").unwrap_or(1),
            window: keys.size("window"),
            is_before: keys.text("cut") == Some("before"),
            lest: keys.optional_size("lest"),
            max: keys.optional_size("max"),
            is_opt1,
        }
    }

    /// Cuts by values that are read as numbers. The first byte of a value is the most significant.
    fn cuts(&self, data: &[u8]) -> Vec<usize> {
        match self.bytes {
            1 => self.by_order(data, |data| data.iter().copied()),
            2 => self.by_order(data, |data| data.windows(2).map(|w| u16::from_be_bytes(of(w)))),
            4 => self.by_order(data, |data| data.windows(4).map(|w| u32::from_be_bytes(of(w)))),
            8 => self.by_order(data, |data| data.windows(8).map(|w| u64::from_be_bytes(of(w)))),
            bytes => panic!("values of {bytes} bytes"),
        }
    }

    fn by_order<'a, V: Copy + Ord, I: Iterator<Item = V>>(
        &self,
        data: &'a [u8],
        values: impl Fn(&'a [u8]) -> I,
    ) -> Vec<usize> {
        if self.is_maximum {
            self.by_values(data, values, |new, old| new > old)
        } else {
            self.by_values(data, values, |new, old| new < old)
        }
    }

    /// Returns the cut-points. `values` returns the values of all positions that have one.
    fn by_values<'a, V: Copy + PartialEq, I: Iterator<Item = V>>(
        &self,
        data: &'a [u8],
        values: impl Fn(&'a [u8]) -> I,
        is_more_extreme: impl Fn(V, V) -> bool,
    ) -> Vec<usize> {
        chunk_by_chunk(data, |rest| {
            let data = &rest[..self.max.map_or(rest.len(), |max| rest.len().min(max))];
            let end = if self.is_opt1 {
                self.end_opt1(data, &values, &is_more_extreme)
            } else {
                self.end(data, &values, &is_more_extreme)
            };
            end.unwrap_or(data.len())
        })
    }

    /// Returns the end of the first chunk by algorithms 1 and 3.
    fn end<'a, V: Copy + PartialEq, I: Iterator<Item = V>>(
        &self,
        data: &'a [u8],
        values: impl Fn(&'a [u8]) -> I,
        is_more_extreme: impl Fn(V, V) -> bool,
    ) -> Option<usize> {
        let mut all = values(data);
        let first = all.next()?;
        // A run of equal values at the start reaches either the threshold `lest` or the end of the
        // window.
        if let Some(lest) = self.lest.filter(|&lest| lest <= 1 + self.window)
            && values(data).take(lest).take_while(|value| *value == first).count() == lest
        {
            return Some(lest);
        }
        let (mut extreme, mut end) = (first, 1 + self.window);
        for (i, here) in (2..).zip(all) {
            if is_more_extreme(here, extreme) {
                (extreme, end) = (here, i + self.window);
            } else if i == end {
                return Some(if self.is_before { i - 1 } else { i });
            }
        }
        None
    }

    /// Returns the end of the first chunk by algorithm 2, with a correction: its inner loop goes on
    /// while the value is not more extreme. As printed (line 13), it stops at the first equal value,
    /// and cuts behind bytes that it has not looked at.
    fn end_opt1<'a, V: Copy, I: Iterator<Item = V>>(
        &self,
        data: &'a [u8],
        values: impl Fn(&'a [u8]) -> I,
        is_more_extreme: impl Fn(V, V) -> bool,
    ) -> Option<usize> {
        let mut extreme = values(data).next()?;
        // Positions count from 1.
        let (mut i, mut end) = (2, 1 + self.window);
        loop {
            // The values from position i to the end of the window, of which the last may be the end
            // of the chunk. Only these are compared, and with nothing but the extreme value.
            let stretch = &data[i - 1..data.len().min(end + self.bytes - 1)];
            match values(stretch).position(|here| is_more_extreme(here, extreme)) {
                Some(index) => {
                    extreme = values(&stretch[index..]).next()?;
                    (i, end) = (i + index + 1, i + index + self.window);
                }
                None if end + self.bytes - 1 > data.len() => return None,
                None => return Some(if self.is_before { end - 1 } else { end }),
            }
        }
    }
}

/// Returns the bytes of a window.
fn of<const N: usize>(window: &[u8]) -> [u8; N] {
    window.try_into().expect("the size of the window")
}
