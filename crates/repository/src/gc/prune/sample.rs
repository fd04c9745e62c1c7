//! Estimates the size of regrouped chunks by compressing a sample of them.

use cutpoint_storage::{Error, Result};
use zstd::bulk::Compressor;

use super::pulse::Pulse;
use super::source::{Source, SourceResult, Sources, readable};
use super::survey::Survey;
use crate::crypto::TAG_LEN;
use crate::format::grouping::Grouping;
use crate::format::toc::{Codec, RegionRecord};
use crate::gc::monitor::Phase;
use crate::repo::repository::Repository;

/// Maximum number of sampled containers, which are spread evenly.
const CONTAINERS_MAX: usize = 16;

/// Sizes of a sample in bytes: decoded, as stored now, and as stored after regrouping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) raw_bytes: u64,
    stored_bytes: u64,
    grouped_bytes: u64,
}

impl Sample {
    /// Takes a sample. From some of the containers `numbers`, it compresses neighbouring regions
    /// that together make one new region. Containers that cannot be read are left out.
    pub(super) fn of(
        repository: &Repository,
        survey: &Survey,
        numbers: &[u32],
        grouping: Grouping,
        pulse: &Pulse<'_>,
    ) -> Result<Sample> {
        let mut sample = Sample::default();
        let failed = |error| Error::invalid("zstd", error);
        let mut compressor = Compressor::new(grouping.compression_level).map_err(failed)?;
        let count = numbers.len().min(CONTAINERS_MAX);
        for place in 0..count {
            pulse.beat()?;
            pulse.monitor.progress(Phase::Sample, place as u64, count as u64);
            // The middle of each of `count` equal stretches.
            let number = numbers[(place * 2 + 1) * numbers.len() / (count * 2)];
            let container = &survey.placement.containers[number as usize];
            let found = Sources::new(repository, &survey.reader)
                .open(container)
                .and_then(|mut source| read(&mut source, grouping.region_size as usize));
            let Some((raw, stored_bytes)) = readable(found)? else { continue };
            let len = compressor.compress(&raw).map_err(failed)?.len();
            // The same rule as for regions: what hardly shrinks is stored uncompressed.
            let len = if len * 100 > raw.len() * 97 { raw.len() } else { len };
            sample.raw_bytes += raw.len() as u64;
            sample.stored_bytes += stored_bytes;
            sample.grouped_bytes += (len + TAG_LEN) as u64;
        }
        Ok(sample)
    }

    /// Returns the estimated size of `stored_bytes` after regrouping.
    pub(super) fn estimate(&self, stored_bytes: u64) -> u64 {
        if self.stored_bytes == 0 {
            return stored_bytes;
        }
        let grouped = u128::from(stored_bytes) * u128::from(self.grouped_bytes);
        u64::try_from(grouped / u128::from(self.stored_bytes)).unwrap_or(u64::MAX)
    }
}

/// Reads and decodes neighbouring regions from the middle of a container on. Returns them with
/// their stored size.
fn read(source: &mut Source<'_>, len_max: usize) -> SourceResult<(Vec<u8>, u64)> {
    let (mut raw, mut stored_bytes) = (Vec::new(), 0);
    let regions = source.regions().to_vec();
    let fits = |from: usize| {
        let lens = regions[from..].iter().map(|region| region.raw_len as usize);
        lens.sum::<usize>() >= len_max
    };
    // Begins before the middle if too little would follow.
    let first = (0..=regions.len() / 2).rev().find(|from| fits(*from)).unwrap_or(0);
    for (number, region) in (0_u16..).zip(&regions).skip(first) {
        if !raw.is_empty() && raw.len() + region.raw_len as usize > len_max {
            break;
        }
        raw.extend_from_slice(&source.decode(number)?.0);
        stored_bytes += u64::from(region.stored_len);
    }
    Ok((raw, stored_bytes))
}

/// Returns `true` if almost all of these regions are stored uncompressed, so that they would not
/// shrink.
pub(super) fn is_incompressible(regions: &[RegionRecord]) -> bool {
    let total: u64 = regions.iter().map(|region| u64::from(region.stored_len)).sum();
    let stored = regions.iter().filter(|region| region.codec == Codec::Store);
    let stored: u64 = stored.map(|region| u64::from(region.stored_len)).sum();
    stored * 10 > total * 9
}
