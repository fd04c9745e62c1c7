//! Properties of every algorithm and dialect: the cut-points are those of the reference and agree
//! with the description, at every edge and however they are fed. `harness/cases` lists the test cases.

use cutpoint_chunking::{KeyMaterial, KeyUse, Level, Spec, algorithms};
use cutpoint_testing::SplitMix64;

use crate::harness::cases;
use crate::harness::checks::{check, check_cuts, check_levels, reference_cuts};
use crate::harness::inputs::{key_material, kinds, sizes_around};
use crate::harness::measured::on_all_processors;

/// Returns every tested spec, with its cases.
fn specs() -> impl Iterator<Item = (&'static cases::Cases, Spec)> {
    cases::chosen().flat_map(|cases| {
        cases.specs.iter().map(move |text| {
            let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            (cases, spec)
        })
    })
}

#[test]
fn every_algorithm_has_cases() {
    let known: Vec<&str> = algorithms().iter().map(|about| about.name).collect();
    let tested: Vec<&str> = cases::ALL.iter().map(|cases| cases.algorithm).collect();
    assert_eq!(tested, known, "the lists of algorithms, in their order");
    for cases in cases::ALL {
        assert!(!cases.specs.is_empty(), "{}: no specs", cases.algorithm);
        assert!(!cases.vectors.is_empty(), "{}: no vectors", cases.algorithm);
    }
    assert!(specs().next().is_some(), "CUTPOINT_ALGORITHMS names no algorithm");
    for (cases, spec) in specs() {
        assert_eq!(spec.algorithm(), cases.algorithm, "{spec}");
    }
}

#[test]
fn cut_points_match_reference() {
    let specs: Vec<Spec> = specs().map(|(_, spec)| spec).collect();
    on_all_processors(&specs, |index, spec| {
        let (min, max) = (spec.chunk_size_min(), spec.chunk_size_max());
        let average = spec.chunk_size_average().unwrap_or(4 * min);
        // Without a maximum size, data without a cut-point is looked at from its start each time.
        let far = max.unwrap_or(4 * average).min(20_000);
        for size in sizes_around(&[min, 2 * min, average, far, far + min]).into_iter().chain([7001])
        {
            for (name, data) in kinds(size, (index * 10_000 + size) as u64) {
                check(spec, name, &data);
            }
        }
    });
}

/// The data has several stretches, rows of every length, and runs in which every position matches
/// or none does.
#[test]
fn large_batches_are_cut_alike_on_every_level() {
    let specs: Vec<Spec> = specs().map(|(_, spec)| spec).collect();
    on_all_processors(&specs, |index, spec| {
        let chunker = spec.chunker_at(Level::EMULATED);
        if chunker.batch_size() == 0 {
            return;
        }
        let mut random = SplitMix64::new(index as u64);
        let size = 270_000 + random.below(70_000);
        let mut data = random.take(size);
        for _ in 0..6 {
            let start = random.below(size);
            let end = size.min(start + random.below(40_000));
            let value = [0, 255, data[start]][random.below(3)];
            data[start..end].fill(value);
        }
        let mut expected = Vec::new();
        spec.chunker_at(Level::SCALAR).next_cuts(&data, 0, false, &mut expected);
        let name = format!("{spec}, {size} bytes with runs");
        check_levels(|level| spec.chunker_at(level), &name, &data, &expected);
    });
}

#[test]
fn keyed_cut_points_match_reference() {
    for (_, spec) in specs() {
        // The seed depends on the spec alone: with few cut-points a key may leave all of them.
        let seed = 500 + spec.to_string().bytes().map(u64::from).sum::<u64>();
        let material = SplitMix64::bytes(seed, KeyMaterial::SIZE);
        let chunker = spec.keyed_chunker(&key_material(seed));
        assert_eq!(chunker.is_err(), spec.about().key == KeyUse::Refused, "{spec}");
        assert_eq!(chunker.is_ok(), spec.clone().keyable().is_ok(), "{spec}");
        let Ok(chunker) = chunker else { continue };
        let mut has_changed = false;
        for (name, data) in kinds(8001, seed) {
            let text = spec.to_string();
            let expected = cutpoint_oracle::keyed_cuts(&text, &material, &data).expect("a rule");
            let name = format!("{spec}, keyed, {name}");
            check_cuts(&*chunker, &name, &data, &expected);
            let material = key_material(seed);
            let at = |level| spec.keyed_chunker_at(&material, level).expect("it has a key");
            check_levels(at, &name, &data, &expected);
            has_changed |= expected != reference_cuts(&spec, &data);
        }
        let is_fixed = Some(spec.chunk_size_min()) == spec.chunk_size_max();
        let expects_change = spec.about().key != KeyUse::None && !is_fixed;
        assert_eq!(has_changed, expects_change, "{spec}: a key moves cut-points");
    }
}

/// Empty data, one byte, and the guarantees about sizes.
#[test]
fn contract_holds_at_edges() {
    for (_, spec) in specs() {
        let chunker = spec.chunker();
        let (min, max) = (chunker.chunk_size_min(), chunker.chunk_size_max());
        assert_eq!((min, max), (spec.chunk_size_min(), spec.chunk_size_max()), "{spec}: sizes");
        assert!(max.is_none_or(|max| min <= max), "{spec}: sizes");
        for more in [false, true] {
            assert_eq!(chunker.next_cut(&[], more), None, "{spec}, empty");
        }
        assert_eq!(chunker.next_cut(&[7], false), Some(1), "{spec}, one byte");
        let needed = chunker.needed_size_max();
        assert!(needed >= max, "{spec}: no chunk is larger than what is needed to see it");
        let Some(needed) = needed else { continue };
        for data in [vec![0; needed + 1], vec![255; needed + 1]] {
            let cut = chunker.next_cut(&data[..needed], true);
            assert!(cut.is_some() && cut <= max, "{spec}: {cut:?} of {needed} bytes");
            assert_eq!(chunker.next_cut(&data, true), cut, "{spec}: a byte more");
            assert_eq!(chunker.next_cut(&data, false), cut, "{spec}: a byte more, the last");
        }
    }
}

/// Descriptions name exactly the keys that are written.
#[test]
fn descriptions_name_exactly_written_keys() {
    for about in algorithms() {
        for text in [about.name, about.title, about.rule, about.source, about.good_at, about.bad_at]
        {
            assert!(!text.is_empty() && text.is_ascii(), "{}: {text:?}", about.name);
            assert!(!text.contains("  "), "{}: {text:?}", about.name);
        }
        assert!(!about.parameters.is_empty(), "{}", about.name);
        // The keys of a short form are parameters.
        for form in about.short_forms {
            assert!(!form.meaning.is_empty() && !form.allowed.is_empty(), "{}", about.name);
            let known = |key| about.parameters.iter().any(|parameter| parameter.key == key);
            assert!(form.beside.iter().all(|&key| known(key)), "{}: {form:?}", about.name);
        }
        let error = format!("{}:no=1", about.name).parse::<Spec>().expect_err("no such key");
        let keys: Vec<&str> = about.parameters.iter().map(|parameter| parameter.key).collect();
        let short: Vec<&str> = about.short_forms.iter().map(|form| form.key).collect();
        let instead = match short.len() {
            0 => String::new(),
            _ => format!("; short forms: {}", short.join(", ")),
        };
        let expected = format!("unknown; allowed: {}{instead}", keys.join(", "));
        assert_eq!(error.expected(), expected, "keys");
    }
    for (_, spec) in specs() {
        let (about, text) = (spec.about(), spec.to_string());
        let list = text.split_once(':').expect("a colon").1;
        let written: Vec<&str> =
            list.split(',').map(|item| item.split_once('=').expect("a value").0).collect();
        let mut keys = about
            .parameters
            .iter()
            .filter(|each| each.default.is_none() || written.contains(&each.key));
        assert!(
            written.iter().all(|&key| keys.next().is_some_and(|each| each.key == key)),
            "{text}"
        );
        assert!(keys.next().is_none(), "{text} leaves out a parameter that has no default");
        // The keys of a dialect are accepted beside those that are written.
        assert_eq!(text.parse::<Spec>().as_ref(), Ok(&spec), "{text}");
    }
}

#[test]
fn readme_lists_every_algorithm() {
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| ") && !line.contains("| on |"));
    let listed: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    for about in algorithms() {
        let count = listed.iter().filter(|&&name| name == about.name).count();
        assert_eq!(count, 1, "{} in the table of the README", about.name);
    }
}

/// Every dialect of a description is among the tested specs.
#[test]
fn every_dialect_is_tested() {
    for (_, spec) in specs() {
        let about = spec.about();
        for dialect in about.dialects {
            let has_all = |text: &str| {
                let has = |item| text.split([':', ',']).any(|other| other == item);
                dialect.keys.split(',').all(has)
            };
            let is_tested = specs().any(|(_, spec)| has_all(&spec.to_string()));
            assert!(is_tested, "{}: {}", about.name, dialect.keys);
        }
    }
}
