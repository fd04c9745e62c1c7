//! The figures of a way to cut.

use std::collections::HashSet;

use cutpoint_fingerprint::Blake3;
use cutpoint_testing::SplitMix64;

use crate::rule::Cutter;
use crate::set::Set;

/// The number of edits for the distance of agreement.
const EDIT_COUNT: usize = 1000;
/// The maximum distance behind an edit that is looked at, in means.
const DISTANCE_MEANS: usize = 40;

/// The figures of one cutter on one data set.
pub(crate) struct Figures {
    pub(crate) mean: f64,
    pub(crate) savings: f64,
    /// The share of the bytes that are looked at; 0 for algorithms of the product.
    pub(crate) looked: f64,
    /// The shares of the bytes in chunks of the largest size, and those of them that are unique.
    pub(crate) forced: f64,
    /// The share of chunks of the smallest size.
    pub(crate) smallest: f64,
    /// The mean and the 95th percentile of the distance of agreement behind an edit, in means.
    pub(crate) distance: f64,
    pub(crate) distance_95: f64,
    /// The share of edits behind which nothing agrees within the maximum distance.
    pub(crate) never: f64,
}

pub(crate) fn figures(set: &Set, cutter: &Cutter, min: usize, max: usize) -> Figures {
    let hash = Blake3::plain();
    let looked_before = cutter.looked_count();
    let mut known: HashSet<[u8; 16]> = HashSet::new();
    let (mut count, mut stored, mut forced, mut smallest) = (0_usize, 0_usize, 0_usize, 0_usize);
    for file in &set.files {
        let mut chunks: Vec<&[u8]> = Vec::new();
        cutter.cut(file, &mut |start, end| {
            chunks.push(&file[start..end]);
            true
        });
        let mut digests = Vec::new();
        hash.digests(&chunks, &mut digests);
        for (chunk, digest) in chunks.iter().zip(&digests) {
            count += 1;
            forced += if chunk.len() == max { chunk.len() } else { 0 };
            smallest += usize::from(chunk.len() == min);
            if digest.first_chunk().is_some_and(|first| known.insert(*first)) {
                stored += chunk.len();
            }
        }
    }
    let size = set.size() as f64;
    let mean = size / count.max(1) as f64;
    let looked_count = cutter.looked_count();
    let (distance, distance_95, never) = agreement(set, cutter, mean);
    Figures {
        mean,
        savings: 100.0 * (1.0 - stored as f64 / size),
        looked: 100.0 * (looked_count - looked_before) as f64 / size,
        forced: 100.0 * forced as f64 / size,
        smallest: 100.0 * smallest as f64 / count.max(1) as f64,
        distance,
        distance_95,
        never: 100.0 * never,
    }
}

/// Returns the mean and the 95th percentile of the distance in means between an inserted byte and
/// the first cut-point behind it that both the edited and the original bytes have, and the share
/// of edits without any within the maximum distance.
///
/// A chunk starts before the edit at the same place in both, because no rule looks before the
/// start of a chunk.
fn agreement(set: &Set, cutter: &Cutter, mean: f64) -> (f64, f64, f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a size")]
    let reach = DISTANCE_MEANS * mean as usize;
    let mut random = SplitMix64::new(7);
    let mut distances = Vec::new();
    let mut never = 0;
    // Files are drawn in proportion to their size, and places within them.
    for _ in 0..EDIT_COUNT {
        let mut place = random.below(set.size());
        let Some(file) = set.files.iter().find(|file| {
            let is_here = place < file.len();
            place -= if is_here { 0 } else { file.len() };
            is_here
        }) else {
            continue;
        };
        if file.len() < place + reach {
            continue;
        }
        let mut start = 0;
        // The chunk with the edit begins at the last cut-point before it.
        let from = place.saturating_sub(reach / 4);
        cutter.cut(&file[from..], &mut |chunk_start, end| {
            start = from + chunk_start;
            from + end <= place
        });
        let here = &file[start..place + reach];
        let edit = place - start;
        let mut edited = here.to_vec();
        edited.insert(edit, random.byte());
        let (mut ends, mut edited_ends) = (HashSet::new(), Vec::new());
        cutter.cut(here, &mut |_, end| ends.insert(end));
        cutter.cut(&edited, &mut |_, end| {
            edited_ends.push(end);
            true
        });
        let met = edited_ends.iter().find(|end| **end > edit + 1 && ends.contains(&(**end - 1)));
        match met {
            Some(end) if *end < edited.len() => distances.push((*end - 1 - edit) as f64 / mean),
            _ => {
                never += 1;
                distances.push(DISTANCE_MEANS as f64);
            }
        }
    }
    distances.sort_by(f64::total_cmp);
    let count = distances.len().max(1) as f64;
    let at_95 = distances.get(distances.len() * 95 / 100).copied().unwrap_or(0.0);
    (distances.iter().sum::<f64>() / count, at_95, f64::from(never) / count)
}
