//! A test of a number's remainder, without a division.

/// A test for a remainder: its divisor, the remainder, and the numbers that replace the division.
///
/// With the divisor as `odd * 2^shift`, a number is a multiple of it exactly if its product with
/// the inverse of `odd`, turned right by `shift` bits, is at most `(2^64 - 1) / divisor`. (Granlund
/// and Montgomery, "Division by Invariant Integers using Multiplication".)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residue {
    divisor: u64,
    remainder: u64,
    inverse: u64,
    shift: u32,
    limit: u64,
}

impl Residue {
    /// Creates the test for numbers that leave `remainder`, which is below `divisor`.
    pub(crate) fn new(divisor: u64, remainder: u64) -> Residue {
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Each step doubles the number of correct bits, of which there are 3 at first.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Residue { divisor, remainder, inverse, shift, limit: u64::MAX / divisor }
    }

    /// Returns the parts of the test for numbers up to `number_max`, 2^32 - 1 or 2^64 - 1, in
    /// arithmetic of that many bits. A number matches if it is not below `remainder`, and its
    /// product with `factor`, less `subtrahend`, turned right by `shift` bits, is at most `limit`.
    pub(crate) fn parts(&self, number_max: u64) -> Parts {
        Parts {
            remainder: self.remainder,
            factor: self.inverse & number_max,
            subtrahend: self.remainder.wrapping_mul(self.inverse) & number_max,
            shift: self.shift,
            limit: number_max / self.divisor,
        }
    }

    /// Returns the bits that must be zeros, if the test consists of nothing else.
    pub(crate) fn zeros(&self) -> Option<u64> {
        (self.remainder == 0 && self.divisor.is_power_of_two()).then_some(self.divisor - 1)
    }

    #[inline]
    pub(crate) fn matches(&self, number: u64) -> bool {
        let multiple = number.wrapping_sub(self.remainder);
        let quotient = multiple.wrapping_mul(self.inverse).rotate_right(self.shift);
        (quotient <= self.limit) & (number >= self.remainder)
    }
}

/// The parts of a test, returned by [`Residue::parts`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) remainder: u64,
    pub(crate) factor: u64,
    pub(crate) subtrahend: u64,
    pub(crate) shift: u32,
    pub(crate) limit: u64,
}

#[cfg(test)]
mod tests {
    use super::Residue;

    #[test]
    fn residue_matches_remainder() {
        let mut number = 1u64;
        for divisor in [1, 2, 3, 4, 6, 7, 12, 540, 6153, 8192, 1 << 30, u64::MAX, 1 << 63] {
            for remainder in [0, 1, divisor / 2, divisor - 1] {
                if remainder >= divisor {
                    continue;
                }
                let residue = Residue::new(divisor, remainder);
                for near in [0, 1, 2, divisor - 1, divisor, divisor.wrapping_add(1), u64::MAX] {
                    let expected = near % divisor == remainder;
                    assert_eq!(residue.matches(near), expected, "{near} % {divisor}");
                }
                for _ in 0..1000 {
                    number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    for number in [number, number >> 32, number >> 50] {
                        let expected = number % divisor == remainder;
                        assert_eq!(residue.matches(number), expected, "{number} % {divisor}");
                    }
                }
            }
        }
    }
}
