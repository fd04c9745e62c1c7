//! The contenders: the own code at every level, and the forms of the papers.

use cutpoint_chunking::{Level, Spec, cuts};
use cutpoint_fingerprint::{Blake3, Digest};

use crate::{Contender, Kind};

/// Returns a contender for each level of this CPU for which the rule of `spec` has code, the
/// slowest first. Unless `wanted` is empty, only its levels are returned.
pub fn levels<'a>(spec: &Spec, wanted: &[Level]) -> Vec<Contender<'a, usize>> {
    let available = Level::available().into_iter();
    let levels = available.filter(|level| wanted.is_empty() || wanted.contains(level));
    let chunkers = levels.map(|level| (level, spec.chunker_at(level)));
    chunkers
        .filter(|(level, chunker)| chunker.level() == *level)
        .map(|(level, chunker)| {
            Contender::new(Kind::Level, level.name(), move |data, ends| {
                ends.extend(cuts(&*chunker, data));
            })
        })
        .collect()
}

/// Returns a contender for each form of a paper that cuts by `spec` and that this CPU has.
pub fn papers<'a>(spec: &Spec) -> Vec<Contender<'a, usize>> {
    let all = cutpoint_paper_simd::all().filter_map(|baseline| {
        let mut cutter = baseline.cutter(spec).ok()?;
        Some(Contender::new(Kind::Paper, baseline.to_string(), move |data, ends| {
            // The list is empty before, and the cutter returns a list of its own.
            *ends = cutter.cuts(data);
        }))
    });
    all.collect()
}

/// Returns the contender of the crate `gearhash` if `spec` is its rule: a 64-bit hash with its
/// table, without limits of sizes. Paper 002 measures this crate as Gear64+. The crate finds single
/// positions, and its state is reset after each of them, as the rule requires.
pub fn gearhash_crate<'a>(spec: &Spec) -> Option<Contender<'a, usize>> {
    let text = spec.to_string();
    let bits = text.strip_prefix("gear:bits=")?.strip_suffix(",table=gearhash")?;
    let bits: u32 = bits.parse().ok().filter(|bits| (1..64).contains(bits))?;
    let mask = u64::MAX << (64 - bits);
    Some(Contender::new(Kind::Peer, "crate gearhash", move |data: &[u8], ends: &mut Vec<usize>| {
        let mut hasher = gearhash::Hasher::default();
        let mut start = 0;
        while let Some(size) = hasher.next_match(&data[start..], mask) {
            start += size;
            ends.push(start);
            hasher.set_hash(0);
        }
        if start < data.len() {
            ends.push(data.len());
        }
    }))
}

/// Returns a contender that follows the rule of `spec` as its paper states it, byte by byte and
/// without optimizations, and for AE another one, `plain-opt1`, by the paper's first optimization.
/// Returns none if there is no such code.
///
/// The code is that of `cutpoint-oracle`, with which tests compare the fast forms, and which
/// rolls its hashes like the programs of the papers.
pub fn plain<'a>(spec: &Spec) -> Vec<Contender<'a, usize>> {
    /// Returns the cut-points, or `None` if the rule has no such form.
    type Form = fn(&str, &[u8]) -> Option<Vec<usize>>;

    let forms: [(&str, Form); 2] =
        [("plain", cutpoint_oracle::cuts), ("plain-opt1", cutpoint_oracle::ae_opt1_cuts)];
    let text = spec.to_string();
    // Empty data tells whether there is code for the rule.
    let forms = forms.into_iter().filter(|(_, cuts)| cuts(&text, &[]).is_some());
    forms
        .map(|(name, cuts)| {
            let text = text.clone();
            Contender::new(Kind::Plain, name, move |data, ends| {
                ends.extend(cuts(&text, data).into_iter().flatten());
            })
        })
        .collect()
}

/// The approximate number of bytes that are fingerprinted at once, as in the store.
const BATCH_SIZE: usize = 1 << 20;

/// Returns a contender for each level of BLAKE3 on this CPU, over chunks of `size` bytes in batches
/// of a mebibyte. The first contender is the crate `blake3`, one chunk after another. Returns
/// `None` if `size` is 0.
pub fn blake3<'a>(size: usize) -> Option<Vec<Contender<'a, Digest>>> {
    let batch_count = BATCH_SIZE.div_ceil((size > 0).then_some(size)?);
    let names = Blake3::levels().into_iter().filter(|name| *name != "emulated");
    let contenders = names.filter_map(|name| {
        let hash = Blake3::plain().at_level(name)?;
        Some(Contender::new(Kind::Level, name, move |data: &[u8], digests: &mut Vec<Digest>| {
            let chunks: Vec<&[u8]> = data.chunks(size).collect();
            for batch in chunks.chunks(batch_count) {
                hash.digests(batch, digests);
            }
        }))
    });
    Some(contenders.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparison, Data, Limit, race};

    /// The plain code of every rule that the papers measured has the cut-points of the fast code.
    #[test]
    fn plain_code_agrees() {
        let mut data = vec![0; 300_000];
        Data::Random.write(&mut data);
        for text in [
            "fixed:size=4096",
            "seqcdc:paper=4k",
            "seqcdc:paper=4k,equal=break",
            "fastcdc:paper=4k",
            "gear:paper-udayashankar=4k",
            "gear:paper-gregoriadis=2k",
            "crc:paper=4k",
            "rabin:paper-udayashankar=4k",
            "rabin:paper-gregoriadis=2k",
            "tttd:paper=4k",
            "buzhash:paper=2k",
            "ae:paper-zhang=4k",
            "ae:paper-zhang=4k,bytes=8",
            "ae:avg=4k,mode=min,bytes=2,cut=before,max=9k",
            "ae:paper-zhang-opt2=4k",
            "ram:paper=4k",
            "pci:paper=2k",
            "mii:paper=770",
            "maxp:avg=4k",
            "maxp:avg=4k,bytes=8",
        ] {
            let spec: Spec = text.parse().expect("a spec");
            let mut contenders = levels(&spec, &[]);
            contenders.extend(plain(&spec));
            let mut comparison = Comparison::new(contenders);
            race(&data, &mut [&mut comparison], Limit::Rounds(1), &mut |_| true);
            let is_plain = |contender: &&_| Contender::kind(contender) == Kind::Plain;
            let plain: Vec<_> = comparison.contenders().iter().filter(is_plain).collect();
            let names: Vec<&str> = plain.iter().map(|contender| contender.name()).collect();
            let has_opt1 = text.starts_with("ae:") && !text.contains("opt2");
            assert_eq!(names, ["plain", "plain-opt1"][..1 + usize::from(has_opt1)], "{text}");
            for contender in plain {
                assert!(contender.agrees(), "{text}: {} cuts elsewhere", contender.name());
            }
            assert!(comparison.found().len() > 10, "{text}: cuts");
        }
    }

    #[test]
    fn crate_gearhash_agrees() {
        let mut data = vec![0; 300_000];
        Data::Random.write(&mut data);
        for text in ["gear:bits=9,table=gearhash", "gear:bits=13,table=gearhash"] {
            let spec: Spec = text.parse().expect("a spec");
            let mut contenders = levels(&spec, &[]);
            contenders.push(gearhash_crate(&spec).expect("its rule"));
            let mut comparison = Comparison::new(contenders);
            race(&data, &mut [&mut comparison], Limit::Rounds(1), &mut |_| true);
            let last = comparison.contenders().last().expect("contenders");
            assert_eq!((last.kind(), last.agrees()), (Kind::Peer, true), "{text}");
        }
        let other: Spec = "gear:avg=8k,table=gearhash".parse().expect("a spec");
        assert!(gearhash_crate(&other).is_none(), "limits of sizes are another rule");
    }
}
