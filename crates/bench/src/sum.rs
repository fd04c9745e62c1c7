//! Reading memory with hardly any work, the upper bound of the speed of any code that reads every
//! byte.

/// A function that sums up a buffer.
pub(crate) type Sum = fn(&[u8]) -> u64;

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
        let (name, sum): (_, Sum) = ("the vectors of every CPU of this architecture", sum);
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

/// Sums up a buffer in plain Rust. The compiler turns it into several sums side by side, in the
/// widest vectors that are enabled.
#[inline(always)]
pub(crate) fn sum(data: &[u8]) -> u64 {
    let words = data.as_chunks().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
