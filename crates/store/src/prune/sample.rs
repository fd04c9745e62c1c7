//! How much smaller what is regrouped becomes: a sample of it is compressed.

use zstd::bulk::Compressor;

use super::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use super::source::{Attempted, Source, Sources, readable};
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::format::directory::{Codec, RegionRecord};
use crate::format::grouping::Grouping;
use crate::repository::Repository;
use crate::seal::TAG_LEN;

/// So many containers are looked at, as far from each other as can be.
const CONTAINERS_MAX: usize = 16;

/// What a sample takes: decoded, as it is stored, and as it would be. In bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) raw_bytes: u64,
    stored_bytes: u64,
    grouped_bytes: u64,
}

impl Sample {
    /// Compresses neighbouring regions of some of the containers `numbers`, as many as make one region.
    /// What cannot be read is not part of it.
    pub(super) fn of(
        repository: &Repository,
        survey: &Survey,
        numbers: &[u32],
        grouping: Grouping,
        monitor: &dyn PruneMonitor,
    ) -> Result<Sample> {
        let mut sample = Sample::default();
        let failed = |error| Error::invalid("zstd", error);
        let mut compressor = Compressor::new(grouping.compression_level).map_err(failed)?;
        let count = numbers.len().min(CONTAINERS_MAX);
        for place in 0..count {
            stop_if_cancelled(monitor)?;
            monitor.progress(Phase::Sample, place as u64, count as u64);
            // The middle of each of as many stretches.
            let number = numbers[(place * 2 + 1) * numbers.len() / (count * 2)];
            let container = &survey.places.containers[number as usize];
            let found = Sources::new(repository, &survey.reader)
                .open(container)
                .and_then(|mut source| read(&mut source, grouping.region_size as usize));
            let Some((raw, stored_bytes)) = readable(found)? else { continue };
            let len = compressor.compress(&raw).map_err(failed)?.len();
            // As regions are: what hardly shrinks is stored as it is.
            let len = if len * 100 > raw.len() * 97 { raw.len() } else { len };
            sample.raw_bytes += raw.len() as u64;
            sample.stored_bytes += stored_bytes;
            sample.grouped_bytes += (len + TAG_LEN) as u64;
        }
        Ok(sample)
    }

    /// What `stored_bytes` would take.
    pub(super) fn estimate(&self, stored_bytes: u64) -> u64 {
        if self.stored_bytes == 0 {
            return stored_bytes;
        }
        let grouped = u128::from(stored_bytes) * u128::from(self.grouped_bytes);
        u64::try_from(grouped / u128::from(self.stored_bytes)).unwrap_or(u64::MAX)
    }
}

/// Regions from the middle of a container on, decoded, and how much they take as they are.
fn read(source: &mut Source<'_>, len_max: usize) -> Attempted<(Vec<u8>, u64)> {
    let (mut raw, mut stored_bytes) = (Vec::new(), 0);
    let regions = source.regions().to_vec();
    let fits = |from: usize| {
        let lens = regions[from..].iter().map(|region| region.raw_len as usize);
        lens.sum::<usize>() >= len_max
    };
    // Further in front where too little would follow.
    let first = (0..=regions.len() / 2).rev().find(|from| fits(*from)).unwrap_or(0);
    for (number, region) in regions.iter().enumerate().skip(first) {
        if !raw.is_empty() && raw.len() + region.raw_len as usize > len_max {
            break;
        }
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        raw.extend_from_slice(&source.decode(number)?.0);
        stored_bytes += u64::from(region.stored_len);
    }
    Ok((raw, stored_bytes))
}

/// Whether next to nothing of these regions is compressed: they would not shrink.
pub(super) fn is_incompressible(regions: &[RegionRecord]) -> bool {
    let total: u64 = regions.iter().map(|region| u64::from(region.stored_len)).sum();
    let stored = regions.iter().filter(|region| region.codec == Codec::Store);
    let stored: u64 = stored.map(|region| u64::from(region.stored_len)).sum();
    stored * 10 > total * 9
}
