//! The erasure code: computes shards of parity from the bytes of a container, and restores the
//! bytes from them.
//!
//! The code is Reed-Solomon over the field of 2^16 elements, as described in `docs/format.md`. The
//! crate's form for more data than parity is requested by name, because the crate does not promise
//! which form it chooses by itself.

use cutpoint_storage::{Error, Result};
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{HighRateDecoder, HighRateEncoder, RateDecoder, RateEncoder};

use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::parity::{CHECKSUM_LEN, PROTECTED_LEN_MAX, ParityTable};

/// The length of a shard in bytes, which is the parity that one bad sector costs.
const SHARD_LEN: u32 = 8 * 1024;
/// Minimum number of parity shards.
const PARITY_COUNT_MIN: u64 = 2;
/// The number of bytes of each shard that are coded at once. These parts of all shards fit in the
/// cache, and take little memory. Must be divisible by
/// [`SHARD_UNIT`](crate::format::parity::SHARD_UNIT).
const STRIP_LEN: usize = 512;

/// The parity of a container: the table and the parity shards.
#[derive(Debug)]
pub(crate) struct ContainerParity {
    pub(crate) table: ParityTable,
    pub(crate) shards: Vec<Vec<u8>>,
}

/// Computes `percent` parity, rounded up to whole shards, for the bytes of a container.
///
/// # Errors
///
/// Returns an `Invalid` error if there are no bytes, or more than [`PROTECTED_LEN_MAX`].
pub(crate) fn encode(
    class: Class,
    container: PartName,
    bytes: &[u8],
    percent: u32,
) -> Result<ContainerParity> {
    let container_len = bytes.len() as u64;
    if !(1..=PROTECTED_LEN_MAX).contains(&container_len) {
        let message = format!("{container_len} bytes cannot have parity");
        return Err(Error::invalid("parity", message));
    }
    let shards = Shards::new(bytes, SHARD_LEN as usize);
    let wanted = (shards.count() as u64 * u64::from(percent)).div_ceil(100);
    let parity_count = u32::try_from(wanted.max(PARITY_COUNT_MIN))
        .map_err(|_| Error::invalid("parity", format!("{percent} % is too much")))?;
    let table = ParityTable {
        class,
        container,
        container_len,
        shard_len: SHARD_LEN,
        parity_count,
        checksums: shards.iter().map(checksum).collect(),
        extra: Vec::new(),
    };
    let shards = parity_of(&shards, &table)?;
    Ok(ContainerParity { table, shards })
}

/// Computes the parity shards of `bytes` with the parameters of `table`, whose length `bytes` must
/// have.
///
/// # Errors
///
/// Returns a `Corrupt` error if the length differs.
pub(crate) fn encode_again(bytes: &[u8], table: &ParityTable) -> Result<Vec<Vec<u8>>> {
    if bytes.len() as u64 != table.container_len {
        return Err(Error::corrupt("", "belongs to a container of another length"));
    }
    parity_of(&Shards::new(bytes, table.shard_len as usize), table)
}

fn parity_of(shards: &Shards<'_>, table: &ParityTable) -> Result<Vec<Vec<u8>>> {
    let (shard_len, parity_count) = (table.shard_len as usize, table.parity_count as usize);
    let mut parity = vec![Vec::with_capacity(shard_len); parity_count];
    let (count, engine) = (shards.count(), DefaultEngine::new());
    let mut encoder =
        HighRateEncoder::new(count, parity_count, STRIP_LEN, engine, None).map_err(refused)?;
    for start in (0..shard_len).step_by(STRIP_LEN) {
        let strip = start..shard_len.min(start + STRIP_LEN);
        encoder.reset(count, parity_count, strip.len()).map_err(refused)?;
        for shard in shards.iter() {
            encoder.add_original_shard(&shard[strip.clone()]).map_err(refused)?;
        }
        let coded = encoder.encode().map_err(refused)?;
        for (shard, strip) in parity.iter_mut().zip(coded.recovery_iter()) {
            shard.extend_from_slice(strip);
        }
    }
    Ok(parity)
}

/// Repairs the damage in `bytes` with the remaining `parity` shards; missing ones are `None`.
/// Returns the number of shards of the container that were damaged.
///
/// # Errors
///
/// Returns a `Corrupt` error if more shards are damaged than parity shards are left. Then `bytes`
/// have their proper length, and are otherwise unchanged.
pub(crate) fn rebuild(
    bytes: &mut Vec<u8>,
    table: &ParityTable,
    parity: &[Option<Vec<u8>>],
) -> Result<usize> {
    let (shard_len, count) = (table.shard_len as usize, table.checksums.len());
    let container_len = usize::try_from(table.container_len)
        .map_err(|_| Error::corrupt("", "longer than the memory of this machine"))?;
    bytes.resize(container_len, 0);
    let shards = Shards::new(bytes, shard_len);
    let is_intact: Vec<bool> = shards
        .iter()
        .zip(&table.checksums)
        .map(|(shard, expected)| checksum(shard) == *expected)
        .collect();
    let damaged: Vec<usize> = (0..count).filter(|number| !is_intact[*number]).collect();
    if damaged.is_empty() {
        return Ok(0);
    }
    let usable: Vec<(usize, &Vec<u8>)> = (0..)
        .zip(parity)
        .filter_map(|(number, shard)| Some((number, shard.as_ref()?)))
        .filter(|(_, shard)| shard.len() == shard_len)
        .collect();
    if damaged.len() > usable.len() {
        return Err(Error::corrupt(
            "",
            format!(
                "{} of {count} pieces of {shard_len} bytes are damaged; the intact parity can \
                 repair {}",
                damaged.len(),
                usable.len()
            ),
        ));
    }
    let mut rebuilt = vec![Vec::with_capacity(shard_len); damaged.len()];
    let (parity_count, engine) = (table.parity_count as usize, DefaultEngine::new());
    let mut decoder =
        HighRateDecoder::new(count, parity_count, STRIP_LEN, engine, None).map_err(refused)?;
    for start in (0..shard_len).step_by(STRIP_LEN) {
        let strip = start..shard_len.min(start + STRIP_LEN);
        decoder.reset(count, parity_count, strip.len()).map_err(refused)?;
        for (number, shard) in shards.iter().enumerate().filter(|(number, _)| is_intact[*number]) {
            decoder.add_original_shard(number, &shard[strip.clone()]).map_err(refused)?;
        }
        for (number, shard) in usable.iter().take(damaged.len()) {
            decoder.add_recovery_shard(*number, &shard[strip.clone()]).map_err(refused)?;
        }
        let decoded = decoder.decode().map_err(refused)?;
        for (shard, number) in rebuilt.iter_mut().zip(&damaged) {
            shard.extend_from_slice(decoded.restored_original(*number).unwrap_or_default());
        }
    }
    for (shard, number) in rebuilt.iter().zip(&damaged) {
        if checksum(shard) != table.checksums[*number] {
            let message = format!("piece {number} differs from the original after rebuilding");
            return Err(Error::corrupt("", message));
        }
    }
    for (shard, number) in rebuilt.iter().zip(&damaged) {
        let start = number * shard_len;
        let end = bytes.len().min(start + shard_len);
        bytes[start..end].copy_from_slice(&shard[..end - start]);
    }
    Ok(damaged.len())
}

/// The shards of a container.
struct Shards<'a> {
    full: std::slice::ChunksExact<'a, u8>,
    /// The last shard, padded with zeros, if the bytes do not fill it.
    last: Option<Vec<u8>>,
}

impl<'a> Shards<'a> {
    fn new(bytes: &'a [u8], shard_len: usize) -> Shards<'a> {
        let full = bytes.chunks_exact(shard_len);
        let mut last = full.remainder().to_vec();
        let last = (!last.is_empty()).then(|| {
            last.resize(shard_len, 0);
            last
        });
        Shards { full, last }
    }

    fn count(&self) -> usize {
        self.full.len() + usize::from(self.last.is_some())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.full.clone().chain(self.last.as_deref())
    }
}

fn checksum(shard: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut start = [0; CHECKSUM_LEN];
    start.copy_from_slice(&blake3::hash(shard).as_bytes()[..CHECKSUM_LEN]);
    start
}

/// Converts an error of the crate. The parameters were validated before, but a refusal is an error,
/// not a panic.
fn refused(error: reed_solomon_simd::Error) -> Error {
    Error::corrupt("", format!("the erasure code rejects the parity: {error}"))
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;
    use proptest::prelude::*;

    use super::*;
    use crate::format::names::TicketId;

    const CONTAINER: PartName = PartName { ticket: TicketId([7; 12]), count: 3 };

    fn coded(bytes: &[u8], percent: u32) -> ContainerParity {
        encode(Class::Data, CONTAINER, bytes, percent).expect("its length is allowed")
    }

    fn shards(coded: &ContainerParity) -> Vec<Option<Vec<u8>>> {
        coded.shards.iter().cloned().map(Some).collect()
    }

    #[test]
    fn empty_and_oversized_containers_have_no_parity() {
        assert!(encode(Class::Data, CONTAINER, &[], 10).is_err(), "nothing");
        let long = usize::try_from(PROTECTED_LEN_MAX).expect("it fits") + 1;
        assert!(encode(Class::Data, CONTAINER, &vec![0; long], 10).is_err(), "too much");
    }

    /// The documented sizes.
    #[test]
    fn parity_size_follows_percent() {
        for (len, percent, expected) in [
            (1, 1, 2),
            (8192, 100, 2),
            (65_536, 10, 2),
            (65_536, 100, 8),
            (1 << 20, 10, 13),
            (16 << 20, 10, 205),
            (16 << 20, 1, 21),
            ((16 << 20) + 1, 100, 2049),
        ] {
            let coded = coded(&vec![1; len], percent);
            assert_eq!(coded.shards.len(), expected, "{len} bytes, {percent} %");
            assert!(coded.shards.iter().all(|shard| shard.len() == 8192), "{len} bytes");
            let table = ParityTable::decode(&coded.table.encode()).expect("it was just written");
            assert_eq!(table, coded.table, "{len} bytes, {percent} %");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Any damaged shards are restored if there are as many parity shards; one more is not.
        #[test]
        fn damage_up_to_parity_count_is_repaired(
            len in prop_oneof![
                Just(1_usize), Just(2), Just(8191), Just(8192), Just(8193), Just(16_384),
                Just(65_536), 1..300_000_usize,
            ],
            percent in 1..=100_u32,
            missing_parity in 0..4_usize,
            seed: u64,
        ) {
            let bytes = SplitMix64::bytes(seed, len);
            let coded = coded(&bytes, percent);
            let (count, shard_len) = (coded.table.checksums.len(), coded.table.shard_len as usize);
            let mut random = SplitMix64::new(seed);
            let mut parity = shards(&coded);
            for _ in 0..missing_parity {
                let number = random.below(parity.len());
                parity[number] = None;
            }
            let left = parity.iter().flatten().count();
            let mut order: Vec<usize> = (0..count).collect();
            for place in (1..count).rev() {
                let other = random.below(place + 1);
                order.swap(place, other);
            }
            let damage = |shards: &[usize]| {
                let mut damaged = bytes.clone();
                for number in shards {
                    damaged[number * shard_len] ^= 1;
                }
                damaged
            };
            let most = left.min(count);
            let mut damaged = damage(&order[..most]);
            prop_assert_eq!(rebuild(&mut damaged, &coded.table, &parity).expect("enough"), most);
            prop_assert!(damaged == bytes, "other bytes came back");
            if left < count {
                let mut damaged = damage(&order[..=left]);
                let before = damaged.clone();
                prop_assert!(rebuild(&mut damaged, &coded.table, &parity).is_err());
                prop_assert!(damaged == before, "unrepairable bytes were changed");
            }
        }

        /// A container that was truncated or extended is restored.
        #[test]
        fn cut_or_extended_container_is_restored(len in 1..200_000_usize, keep in 0..=100_usize) {
            let bytes = SplitMix64::bytes(5, len);
            let coded = coded(&bytes, 100);
            let mut cut = bytes[..len * keep / 100].to_vec();
            rebuild(&mut cut, &coded.table, &shards(&coded)).expect("all may be gone");
            prop_assert!(cut == bytes);
            let mut longer = bytes.clone();
            longer.extend_from_slice(b"more");
            prop_assert_eq!(rebuild(&mut longer, &coded.table, &shards(&coded)).expect("ok"), 0);
            prop_assert!(longer == bytes);
        }
    }

    /// A parity shard with wrong bytes does no harm.
    #[test]
    fn wrong_parity_is_refused() {
        let bytes = SplitMix64::bytes(1, 100_000);
        let coded = coded(&bytes, 20);
        let mut parity = shards(&coded);
        parity[0].as_mut().expect("it is there")[17] ^= 1;
        let mut damaged = bytes.clone();
        damaged[0] ^= 1;
        assert!(rebuild(&mut damaged, &coded.table, &parity).is_err(), "it has another checksum");
        parity[0] = None;
        rebuild(&mut damaged, &coded.table, &parity).expect("another shard will do");
        assert!(damaged == bytes, "other bytes came back");
    }

    /// The field as defined in `docs/format.md`: multiplication of elements given by their
    /// coordinates.
    struct Field {
        /// The conversion from coordinates to polynomials, and its inverse.
        polynomial: Vec<u16>,
        coordinates: Vec<u16>,
    }

    impl Field {
        fn new() -> Field {
            const BASIS: [u16; 16] = [
                0x0001, 0xacca, 0x3c0e, 0x163e, 0xc582, 0xed2e, 0x914c, 0x4012, 0x6c98, 0x10d8,
                0x6a72, 0xb900, 0xfdb8, 0xfb34, 0xff38, 0x991e,
            ];
            let mut polynomial = vec![0; 1 << 16];
            let mut coordinates = vec![0; 1 << 16];
            for element in 0..=u16::MAX {
                let bits = (0..16).filter(|bit| element >> bit & 1 == 1);
                let sum = bits.fold(0, |sum, bit| sum ^ BASIS[bit]);
                polynomial[usize::from(element)] = sum;
                coordinates[usize::from(sum)] = element;
            }
            Field { polynomial, coordinates }
        }

        fn multiply(&self, left: u16, right: u16) -> u16 {
            let mut left = u32::from(self.polynomial[usize::from(left)]);
            let right = self.polynomial[usize::from(right)];
            let mut product = 0;
            for bit in 0..16 {
                if right >> bit & 1 == 1 {
                    product ^= left;
                }
                left <<= 1;
                if left >> 16 == 1 {
                    left ^= 0x1_002d;
                }
            }
            self.coordinates[product as usize]
        }
    }

    /// The code is the one of `docs/format.md`: if the number of
    /// parity shards is a power of two, the sums that the document defines to be zero are zero.
    #[test]
    fn code_matches_format_document() {
        let field = Field::new();
        for (len, percent, parity_count) in [(80_000, 37, 4), (200_000, 64, 16), (8192, 100, 2)] {
            let bytes = SplitMix64::bytes(9, len);
            let coded = coded(&bytes, percent);
            assert_eq!(coded.shards.len(), parity_count, "{len} bytes");
            let data = Shards::new(&bytes, 8192);
            let parity = coded.shards.iter().map(Vec::as_slice);
            let places: Vec<(u16, &[u8])> = (0_u16..).zip(parity.chain(data.iter())).collect();
            // The first and the last symbol of the first and the last block.
            for (block, symbol) in [(0, 0), (0, 31), (127, 0), (127, 31)] {
                let symbol_at = |shard: &[u8]| {
                    let at = 64 * block + symbol;
                    u16::from(shard[at]) | u16::from(shard[at + 32]) << 8
                };
                for power in 0..parity_count {
                    let sum = places.iter().fold(0, |sum, (place, shard)| {
                        let factor = (0..power).fold(1, |x, _| field.multiply(x, *place));
                        sum ^ field.multiply(factor, symbol_at(shard))
                    });
                    assert_eq!(sum, 0, "{len} bytes, block {block}, power {power}");
                }
            }
        }
    }
}
