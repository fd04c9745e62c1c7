//! Every algorithm cuts as its reference does, plain and keyed, at every edge of its sizes, however it
//! is fed.

mod common;

use std::collections::BTreeSet;

use common::specs::SPECS;
use common::vectors::key_material;
use common::{Feed, check_invariants, fed_cuts, kinds, sizes_around};
use cutpoint_chunking::{KeyMaterial, Spec, descriptions};
use cutpoint_testing::SplitMix64;

const FEEDS: [Feed; 4] =
    [Feed::Whole, Feed::Slices(1, 1), Feed::Slices(200, 2), Feed::Reader(300, 3)];

fn parsed(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The seeds of keys: none, and one.
const KEY_SEEDS: [Option<u64>; 2] = [None, Some(5)];

fn check(spec: &Spec, key_seed: Option<u64>, name: &str, data: &[u8]) {
    let material = key_seed.map(|seed| SplitMix64::bytes(seed, KeyMaterial::SIZE));
    let chunker = match key_seed {
        None => spec.chunker(),
        Some(seed) => spec.keyed_chunker(&key_material(seed)),
    };
    let expected = cutpoint_reference::cuts(&spec.to_string(), material.as_deref(), data);
    for feed in FEEDS {
        let ends = fed_cuts(&*chunker, data, feed);
        assert_eq!(ends, expected, "{spec}, key {key_seed:?}, {} {name}, {feed:?}", data.len());
    }
    check_invariants(&*chunker, data, &expected);
}

#[test]
fn every_algorithm_cuts_as_its_reference() {
    for text in SPECS {
        let spec = parsed(text);
        let (min, max) = (spec.chunk_size_min(), spec.chunk_size_max().unwrap_or(1500));
        let mut seed = 0;
        for size in sizes_around(&[min, max, min + max, 64, 256]).into_iter().chain([6001]) {
            for (name, data) in kinds(size, seed) {
                for key_seed in KEY_SEEDS {
                    check(&spec, key_seed, name, &data);
                }
                seed += 1;
            }
        }
    }
}

/// Text that is written out is read back as the same, and every algorithm is among the specs.
#[test]
fn every_spec_is_written_out() {
    for text in SPECS {
        let spec = parsed(text);
        assert_eq!(spec.to_string(), *text, "the specs of this test are written out");
        assert_eq!(parsed(&spec.to_string()), spec, "{text}");
    }
    let tested: BTreeSet<&str> = SPECS.iter().map(|text| parsed(text).algorithm()).collect();
    let all: BTreeSet<&str> = descriptions().map(|description| description.name).collect();
    assert_eq!(tested, all, "algorithms with a spec in this test");
}

/// What a description says can be set is what a spec takes.
#[test]
fn descriptions_have_every_key() {
    for text in SPECS {
        let spec = parsed(text);
        let description = spec.description();
        let (_, list) = text.split_once(':').expect("a colon");
        let written: Vec<&str> =
            list.split(',').filter_map(|item| item.split('=').next()).collect();
        let keys: Vec<&str> = description.parameters.iter().map(|p| p.key).collect();
        let mut rest = keys.iter();
        for key in &written {
            assert!(rest.any(|other| other == key), "{text}: {key} is not next of {keys:?}");
        }
        for parameter in description.parameters.iter().filter(|p| p.default.is_none()) {
            assert!(written.contains(&parameter.key), "{text}: {} must be given", parameter.key);
            let items: Vec<&str> = list.split(',').collect();
            let without: Vec<&str> = items
                .iter()
                .copied()
                .filter(|item| item.split('=').next() != Some(parameter.key))
                .collect();
            let without = format!("{}:{}", description.name, without.join(","));
            let error = without.parse::<Spec>().expect_err(&without);
            assert_eq!(error.parameter(), parameter.key, "{without}: {error}");
        }
        for key in description.parameters.iter().map(|p| p.key) {
            let wrong = format!("{}:{key}=?", description.name);
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
        for words in [description.rule, description.source, description.good_at, description.bad_at]
        {
            assert!(words.ends_with('.') && words.is_ascii(), "{}: {words}", description.name);
        }
    }
}
