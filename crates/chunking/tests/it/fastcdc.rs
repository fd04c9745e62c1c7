//! FastCDC at all its edges: random parameters, and the last byte of an odd stream.

use cutpoint_chunking::Spec;
use cutpoint_chunking::algorithm::fastcdc;
use cutpoint_testing::SplitMix64;

use crate::harness::checks::check;
use crate::harness::inputs::{kinds, sizes_around};

#[test]
fn random_parameters_cut_like_reference() {
    let mut random = SplitMix64::new(11);
    for round in 0..60 {
        let chunk_size_min = [64, 66, 70, 128, 256, 300][random.below(6)];
        let normal_size = [256, 258, 264, 300, 362, 364, 512, 724, 726, 1000][random.below(10)]
            .max(chunk_size_min);
        let params = fastcdc::Params {
            level: [0, 1, 2, 3][round % 4],
            chunk_size_min,
            normal_size,
            chunk_size_max: [1024, 1026, 1030, 1500, 4000][random.below(5)],
            seed: [0, 1, u64::MAX, random.next()][random.below(4)],
            form: [fastcdc::Form::Crate, fastcdc::Form::DedupBench][round / 4 % 2],
        };
        let spec = Spec::try_from(params).expect("the parameters are right");
        let edges = [chunk_size_min, normal_size, params.chunk_size_max];
        for size in
            sizes_around(&[edges[round % 3], edges[round % 3] * 2]).into_iter().chain([6001])
        {
            for (name, data) in kinds(size, random.next()) {
                check(&spec, name, &data);
            }
        }
    }
}

/// A match on the last byte of an odd stream does not count; with one more byte it does.
#[test]
fn fastcdc_never_tests_the_last_byte_of_an_odd_stream() {
    let spec: Spec = "fastcdc:level=0,min=64,normal=256,max=4096".parse().expect("right");
    let chunker = spec.chunker();
    let mut odd_matches = 0;
    for seed in 0..200 {
        let data = SplitMix64::bytes(seed, 4097);
        let cut = chunker.next_cut(&data[..4095], false).expect("a cut-point");
        // The matching byte is the last one here.
        let longer = &data[..cut + 2];
        let data = &data[..=cut];
        let expected = if data.len() % 2 == 1 { data.len() } else { cut };
        odd_matches += usize::from(data.len() % 2 == 1);
        assert_eq!(chunker.next_cut(data, false), Some(expected), "seed {seed}, at the end");
        let known = (expected == cut).then_some(cut);
        assert_eq!(chunker.next_cut(data, true), known, "seed {seed}, with more perhaps");
        for more in [false, true] {
            assert_eq!(chunker.next_cut(longer, more), Some(cut), "seed {seed}, a byte more");
        }
    }
    assert!(odd_matches > 50, "{odd_matches} matches at an odd end");
}
