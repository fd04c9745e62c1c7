//! The data to cut.

use cutpoint_testing::{SplitMix64, input};

/// A kind of generated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Bytes of SplitMix64, from seed 1.
    Random,
    /// Zeros.
    Zeros,
    /// Words of letters with the frequencies of a natural language, and punctuation.
    Text,
}

impl Data {
    /// Fills `bytes` with the data. [`Data::Text`] temporarily needs as much memory again.
    pub fn write(self, bytes: &mut [u8]) {
        match self {
            Data::Random => {
                let mut random = SplitMix64::new(1);
                for part in bytes.chunks_mut(8) {
                    part.copy_from_slice(&random.next().to_le_bytes()[..part.len()]);
                }
            }
            // The zeros are written, because only written memory is allocated.
            Data::Zeros => bytes.fill(0),
            Data::Text => bytes.copy_from_slice(&input::text(bytes.len())),
        }
    }

    /// Returns `random`, `zeros` or `text`.
    pub fn name(self) -> &'static str {
        match self {
            Data::Random => "random",
            Data::Zeros => "zeros",
            Data::Text => "text",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_data_is_that_of_the_tests() {
        let mut bytes = [0; 1001];
        Data::Random.write(&mut bytes);
        assert_eq!(bytes.as_slice(), SplitMix64::bytes(1, 1001), "SplitMix64");
    }
}
