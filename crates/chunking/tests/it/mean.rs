//! The mean chunk size on random data is the requested one, and the one that a spec reports.
//!
//! `CUTPOINT_CHUNKS` is the number of chunks measured for each point, 2000 by default; `cargo xtask
//! check --long` and `examples/means.rs` take 40,000. The mean must be within the guaranteed 2 %
//! plus one standard error, or three standard errors for fewer chunks. The standard deviation is
//! about the mean.

use cutpoint_chunking::algorithm::{buzhash, gear};
use cutpoint_chunking::{About, Spec, algorithms, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::cases;
use crate::harness::measured::{measured_mean, on_all_processors};

/// Returns the number of chunks that are measured for each point.
fn chunk_count() -> usize {
    std::env::var("CUTPOINT_CHUNKS")
        .map_or(2000, |text| text.parse().expect("CUTPOINT_CHUNKS is a number"))
}

#[test]
fn measured_means_match_requested_averages() {
    let count = chunk_count();
    let errors = if count < 40_000 { 3.0 } else { 1.0 };
    let tolerance = 0.02 + errors / (count as f64).sqrt();
    let points: Vec<(String, usize)> = cases::chosen()
        .flat_map(|cases| cases.averages)
        .flat_map(|(text, averages)| {
            averages.iter().map(move |&each| (format!("{text}{each}"), each))
        })
        .collect();
    on_all_processors(&points, |_, (text, average)| {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let mean = measured_mean(&spec, count);
        let error = mean / *average as f64 - 1.0;
        assert!(error.abs() < tolerance, "{text}: {spec}: {mean}");
    });
}

/// An average that no parameters give is refused, with the averages that can be reached.
#[test]
fn unreachable_averages_are_refused() {
    for (text, expected) in [
        ("mii:avg=8192", "cannot be reached; the nearest averages are 6232 and 50461"),
        ("samplebyte:markers=20.65,avg=2048", "must be from 2 to 256"),
        ("ultracdc:avg=2048", "must be from 2304 to 65536"),
        ("ultracdc:avg=2400,max=2400", "must be from 2408 to 1073741824"),
        ("tttd:avg=8192,max=8000", "must be from 8192 to 1073741824"),
        ("rabin:window=2080,avg=4096", "not possible with this window, which is too large"),
        ("tttd:window=5000,avg=4096", "not possible with this window, which is too large"),
        ("pci:avg=65537", "must be from 512 to 65536"),
        ("seqcdc:avg=1024", "must be from 2048 to 1048576"),
    ] {
        let error = text.parse::<Spec>().expect_err(text);
        assert_eq!(error.expected(), expected, "{text}");
    }
    // A window and 2047 bytes behind it give a mean that is a quarter of a percent too large here,
    // and three quarters in the case above.
    let spec: Spec = "rabin:window=2059,avg=4096".parse().expect("it is near enough");
    assert_eq!(spec.chunk_size_average(), Some(4106), "{spec}");
}

/// An average determines its parameters, whatever their values were before.
#[test]
fn average_replaces_previous_parameters() {
    let params = buzhash::Params {
        divisor: 7,
        remainder: 6,
        window: 48,
        table: buzhash::Table::Cutpoint,
        runs: buzhash::Runs::Rolled,
        chunk_size_min: 9,
        chunk_size_max: None,
    };
    let params = params.for_average(4096).expect("it is possible");
    assert_eq!(Spec::try_from(params), "buzhash:avg=4096".parse(), "buzhash");
    let params = gear::Params {
        bits: 5,
        level: 0,
        normal_size: Some(9),
        table: gear::Table::Cutpoint,
        start: gear::Start::Warm,
        cut: gear::Cut::After,
        chunk_size_min: 9,
        chunk_size_max: None,
    };
    let params = params.for_average(4096).expect("it is possible");
    assert_eq!(Spec::try_from(params), "gear:avg=4096".parse(), "gear");
}

/// If an average is that of chunks without a maximum size, such a size changes nothing else.
#[test]
fn average_without_max_is_independent_of_max() {
    let texts = [
        ("ae", "ae:avg=512", 600),
        ("maxp", "maxp:avg=2048", 2100),
        ("ram", "ram:avg=512", 600),
        ("mii", "mii:avg=888", 900),
        ("pci", "pci:avg=2048", 2100),
        ("samplebyte", "samplebyte:markers=20.65,avg=150", 200),
    ];
    let is_such =
        |about: &&&About| about.short_forms.iter().any(|form| form.meaning.contains("without max"));
    let names: Vec<&str> = algorithms().iter().filter(is_such).map(|about| about.name).collect();
    assert_eq!(names, texts.map(|(name, ..)| name), "those that say so");
    for (_, text, max) in texts {
        let spec: Spec = text.parse().expect(text);
        let limited: Spec = format!("{text},max={max}").parse().expect(text);
        assert_eq!(limited.to_string(), format!("{spec},max={max}"), "{text}");
    }
}

/// The mean that a spec reports is right for every spec that is tested or has vectors: within 2 %,
/// and within 10 % if the maximum size cuts often, for which some algorithms have an approximation.
#[test]
fn computed_means_match_measured_ones() {
    let specs = cases::chosen().flat_map(|cases| cases.specs);
    let of_vectors = cases::chosen().flat_map(|cases| cases.vectors).flat_map(|(_, specs)| *specs);
    let count = chunk_count().min(5000);
    let mut random = Vec::new();
    for text in specs.chain(of_vectors) {
        let spec: Spec = text.parse().expect("the spec is right");
        let Some(average) =
            spec.chunk_size_average().filter(|average| (64..70_000).contains(average))
        else {
            continue;
        };
        if random.len() < average * count {
            random = SplitMix64::bytes(98, average * count);
        }
        let data = &random[..average * count];
        let ends: Vec<usize> = cuts(&*spec.chunker(), data).collect();
        let sizes = ends.windows(2).map(|pair| pair[1] - pair[0]);
        let largest_count = sizes.filter(|&size| Some(size) == spec.chunk_size_max()).count();
        let tolerance = if largest_count * 50 > ends.len() { 0.1 } else { 0.02 };
        let mean = data.len() as f64 / ends.len() as f64;
        // Three standard errors.
        let tolerance = tolerance + 3.0 / (count as f64).sqrt();
        let error = (mean / average as f64 - 1.0).abs();
        assert!(error < tolerance, "{spec}: {average}, measured {mean}");
    }
}

/// RAM with windows of a few bytes, for which each term of the formula counts.
#[test]
fn ram_means_of_short_windows_match_measured_ones() {
    for text in [
        "ram:window=1",
        "ram:window=2,cut=before",
        "ram:window=3,max=20",
        "ram:window=3,cut=before,max=30",
        "ram:window=2,equal=pass,max=40",
        "ram:window=2,cut=before,equal=pass,max=90",
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        let mean = spec.chunk_size_average().expect("it is computed");
        let measured = measured_mean(&spec, 40_000);
        // Half a byte of rounding, and three standard errors.
        assert!((measured - mean as f64).abs() < 0.52 + 0.015 * measured, "{text}: {measured}");
    }
}

fn average(spec: &Spec) -> f64 {
    spec.chunk_size_average().expect("it is computed") as f64
}

/// The computed mean is within 0.2 % at every average.
#[test]
fn parameters_reach_requested_mean() {
    let mut random = SplitMix64::new(21);
    let mut gap_count = 0;
    for round in 0..400 {
        let avg = 2048 + random.below([14_000, 100_000, 1_040_000][round % 3]);
        for (text, key) in [("seqcdc:avg=", "min="), ("fastcdc:avg=", "normal=")] {
            let spec: Spec = format!("{text}{avg}").parse().expect("the spec is right");
            let error = average(&spec) / avg as f64 - 1.0;
            assert!(error.abs() < 0.002, "{text}{avg} gives {spec} ({key}): {error}");
            assert!(spec.chunk_size_min() * 8 >= avg, "{text}{avg} gives {spec}");
            assert!(spec.chunk_size_min() * 4 <= avg * 3, "{text}{avg} gives {spec}");
        }
        for level in 1..4 {
            let text = format!("fastcdc:avg={avg},level={level}");
            match text.parse::<Spec>() {
                Ok(spec) => {
                    let error = average(&spec) / avg as f64 - 1.0;
                    assert!(error.abs() < 0.002, "{text} gives {spec}: {error}");
                }
                Err(error) => {
                    assert_eq!(error.parameter(), "avg", "{text}: {error}");
                    gap_count += 1;
                }
            }
        }
    }
    assert!(gap_count < 100, "{gap_count} of 1200 fall into gaps");
}

/// Published measurements: the means of Table I's parameters, and those of crate fastcdc for a
/// nominal 8 KiB.
#[test]
fn computed_means_match_published_ones() {
    for (text, mean) in [
        ("seqcdc:paper=4k", 3578.0),
        ("seqcdc:paper=8k", 7041.0),
        ("seqcdc:paper=16k", 13268.0),
        ("seqcdc:paper=4k,equal=break,rule=literal", 1398.0),
        ("seqcdc:paper=8k,equal=break,rule=literal", 4507.0),
        ("seqcdc:paper=16k,equal=break,rule=literal", 8862.0),
        ("fastcdc:level=1,min=2048,normal=8192,max=65536", 9992.0),
        ("fastcdc:level=2,min=2048,normal=8192,max=65536", 9350.0),
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        let error = average(&spec) / mean - 1.0;
        assert!(error.abs() < 0.01, "{text}: {} for {mean}", average(&spec));
    }
}
