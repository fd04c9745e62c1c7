//! Reading memory and doing nearly nothing with it: what bounds everything that looks at every byte.

use crate::sum::Sum;

/// A plain read: the sum of a buffer, as little-endian numbers of 64 bits, with several of the
/// widest vectors of this CPU at a time.
#[derive(Clone, Copy, Debug)]
pub struct PlainRead {
    sum: Sum,
    name: &'static str,
}

impl PlainRead {
    /// Creates the plain read for this CPU.
    pub fn new() -> PlainRead {
        #[cfg(target_arch = "x86_64")]
        let (name, sum) = crate::x86_64::widest_sum();
        #[cfg(not(target_arch = "x86_64"))]
        let (name, sum): (_, Sum) =
            ("the vectors of every CPU of this architecture", crate::sum::sum);
        PlainRead { sum, name }
    }

    /// Returns the name of the vectors that are used, such as `AVX-512` or `AVX2`.
    pub fn vectors(self) -> &'static str {
        self.name
    }

    /// Reads `data` in words of 8 bytes, without the bytes after the last full word, and returns
    /// the sum.
    pub fn read(self, data: &[u8]) -> u64 {
        (self.sum)(data)
    }
}

impl Default for PlainRead {
    fn default() -> PlainRead {
        PlainRead::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::sum;

    #[test]
    fn every_word_counts() {
        let mut data = vec![0; 64 * 9];
        let read = PlainRead::new();
        for index in 0..data.len() {
            data[index] = 1;
            let expected = 1 << (8 * (index % 8));
            assert_eq!((read.read(&data), sum(&data)), (expected, expected), "byte {index}");
            data[index] = 0;
        }
    }
}
