//! Specs as text: accepted texts, refused texts with their errors, and the round trip of
//! written-out text.

use cutpoint_chunking::algorithm::{bfbc, fastcdc, fixed, ram, seqcdc};
use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::cases;

fn parsed(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn text_is_written_out() {
    for (text, canonical) in [
        ("seqcdc:paper=4k", "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192"),
        (
            "seqcdc:mode=dec,paper=8192",
            "seqcdc:mode=dec,length=5,trigger=50,skip=256,min=4096,max=16384",
        ),
        ("seqcdc:paper=16k", "seqcdc:mode=inc,length=5,trigger=50,skip=512,min=8192,max=32768"),
        (
            "seqcdc:max=1m,min=1,skip=0,trigger=7,length=3,mode=inc",
            "seqcdc:mode=inc,length=3,trigger=7,skip=0,min=1,max=1048576",
        ),
        (
            "fastcdc:min=2k,normal=8k,max=64k,level=1",
            "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0",
        ),
        (
            "fastcdc:seed=0x29a,min=2k,normal=8k,max=64k,level=0",
            "fastcdc:level=0,min=2048,normal=8192,max=65536,seed=666",
        ),
        // Masks of one more bit begin just above this size, and must not be considered for a size
        // below.
        ("fastcdc:avg=1064,level=1", "fastcdc:level=1,min=206,normal=732,max=4256,seed=0"),
        (
            "fastcdc:avg=1442,level=1,form=dedup-bench",
            "fastcdc:level=1,min=360,normal=1448,max=5768,seed=0,form=dedup-bench",
        ),
        ("fixed:size=3m", "fixed:size=3145728"),
        ("fixed:avg=3m", "fixed:size=3145728"),
        (
            "seqcdc:paper=4k,equal=absorb,rule=released",
            "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192",
        ),
        (
            "seqcdc:rule=literal,paper=4k,equal=break",
            "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192,equal=break,rule=literal",
        ),
        (
            "seqcdc:rule=literal,reach=beyond,skipped=compared,paper=4k",
            "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192,rule=literal",
        ),
        (
            "seqcdc:reach=at,rule=literal,paper=4k",
            "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192,rule=literal,reach=at",
        ),
        (
            "seqcdc:paper=4k,reach=beyond,skipped=ignored",
            "seqcdc:mode=inc,length=5,trigger=55,skip=256,min=1024,max=8192,reach=beyond,\
             skipped=ignored",
        ),
        (
            "seqcdc:avg=8k,opposing=run",
            "seqcdc:mode=inc,length=5,trigger=4,skip=256,min=5764,max=32768,opposing=run",
        ),
        (
            "fastcdc:min=2k,normal=8k,max=64k,level=1,form=crate",
            "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0",
        ),
        (
            "fastcdc:form=dedup-bench,min=2k,normal=8k,max=64k,level=1",
            "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0,form=dedup-bench",
        ),
    ] {
        let spec = parsed(text);
        assert_eq!(spec.to_string(), canonical, "{text}");
        assert_eq!(parsed(canonical), spec, "{text}");
    }
}

/// Refused texts with their errors.
const REFUSED: &[(&str, &str)] = &[
    ("fixed", "fixed: size: missing; required: size"),
    ("fixed:", "fixed: size: missing; required: size"),
    ("fixed:size", "fixed: size: must be a number of bytes, or of k or m"),
    ("fixed:size=0", "fixed: size=0: must be from 1 to 1073741824"),
    ("fixed:size=1025m", "fixed: size=1074790400: must be from 1 to 1073741824"),
    ("fixed:size=-1", "fixed: size=-1: must be a number of bytes, or of k or m"),
    ("fixed:size=+1", "fixed: size=+1: must be a number of bytes, or of k or m"),
    ("fixed:size=1K", "fixed: size=1K: must be a number of bytes, or of k or m"),
    ("fixed:size=k", "fixed: size=k: must be a number of bytes, or of k or m"),
    (
        "fixed:size=99999999999999999999",
        "fixed: size=99999999999999999999: must be a number of bytes, or of k or m",
    ),
    (
        "fixed:size=17592186044416m",
        "fixed: size=17592186044416m: must be a number of bytes, or of k or m",
    ),
    ("fixed:size=1,size=1", "fixed: size=1: given twice"),
    ("fixed:size=1,", "fixed: : unknown; allowed: size; short forms: avg"),
    ("fixed:size=1,avg=2", "fixed: size=1: unknown; allowed: avg"),
    ("seqcdc", "seqcdc: mode: missing; required: mode, length, trigger, skip, min, max"),
    (
        "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096",
        "seqcdc: max: missing; required: mode, length, trigger, skip, min, max",
    ),
    ("seqcdc:avg=16k,min=1", "seqcdc: min=1: unknown; allowed: avg, mode, opposing"),
    (
        "fastcdc:min=2k,avg=8k,max=64k",
        "fastcdc: min=2k: unknown; allowed: avg, level, seed, form; avg is the mean here; for the min, \
         avg and max of other programs write level=1,min=MIN,normal=AVG,max=MAX",
    ),
    ("seqcdc:avg=16k,mode=up", "seqcdc: mode=up: must be inc or dec"),
    ("seqcdc:avg=1k", "seqcdc: avg=1024: must be from 2048 to 1048576"),
    ("seqcdc:avg=2m", "seqcdc: avg=2097152: must be from 2048 to 1048576"),
    ("seqcdc:paper=5k", "seqcdc: paper=5k: must be 4k, 8k or 16k"),
    (
        "seqcdc:mode=inc,length=0,trigger=1,skip=1,min=1,max=1",
        "seqcdc: length=0: must be from 1 to 32",
    ),
    (
        "seqcdc:mode=inc,length=33,trigger=1,skip=1,min=1,max=1",
        "seqcdc: length=33: must be from 1 to 32",
    ),
    (
        "seqcdc:mode=inc,length=1k,trigger=1,skip=1,min=1,max=1",
        "seqcdc: length=1k: must be a whole number",
    ),
    (
        "seqcdc:mode=inc,length=1,trigger=0,skip=1,min=1,max=1",
        "seqcdc: trigger=0: must be from 1 to 65535",
    ),
    (
        "seqcdc:mode=inc,length=1,trigger=65536,skip=1,min=1,max=1",
        "seqcdc: trigger=65536: must be from 1 to 65535",
    ),
    (
        "seqcdc:mode=inc,length=1,trigger=1,skip=1073741825,min=1,max=1",
        "seqcdc: skip=1073741825: must be from 0 to 1073741824",
    ),
    (
        "seqcdc:mode=inc,length=1,trigger=1,skip=1,min=0,max=1",
        "seqcdc: min=0: must be from 1 to 1073741824",
    ),
    (
        "seqcdc:mode=inc,length=1,trigger=1,skip=1,min=9,max=8",
        "seqcdc: max=8: must be from 9 to 1073741824",
    ),
    ("fastcdc:avg=1023", "fastcdc: avg=1023: must be from 1024 to 1048576"),
    ("fastcdc:avg=1048577", "fastcdc: avg=1048577: must be from 1024 to 1048576"),
    ("fastcdc:avg=8k,level=4", "fastcdc: level=4: must be from 1 to 3"),
    (
        "fastcdc:min=2k,normal=8k,max=64k",
        "fastcdc: level: missing; required: level, min, normal, max",
    ),
    ("fastcdc:level=1,min=62,normal=8k,max=64k", "fastcdc: min=62: must be from 64 to 1048576"),
    ("fastcdc:level=1,min=65,normal=8k,max=64k", "fastcdc: min=65: must be even"),
    ("fastcdc:level=1,min=64,normal=8191,max=64k", "fastcdc: normal=8191: must be even"),
    ("fastcdc:level=1,min=64,normal=8k,max=65535", "fastcdc: max=65535: must be even"),
    (
        "fastcdc:level=1,min=8k,normal=4k,max=64k",
        "fastcdc: normal=4096: must be from 8192 to 4194304",
    ),
    (
        "fastcdc:level=1,min=64,normal=254,max=64k",
        "fastcdc: normal=254: must be from 256 to 4194304",
    ),
    (
        "fastcdc:level=1,min=64,normal=64k,max=8k",
        "fastcdc: max=8192: must be from 65536 to 16777216",
    ),
    ("fastcdc:avg=8k,seed=0x", "fastcdc: seed=0x: must be a 64-bit number, decimal or 0x..."),
    (
        "fastcdc:avg=8k,seed=18446744073709551616",
        "fastcdc: seed=18446744073709551616: must be a 64-bit number, decimal or 0x...",
    ),
    ("fastcdc:avg=8k,seed=0x+1", "fastcdc: seed=0x+1: must be a 64-bit number, decimal or 0x..."),
];

#[test]
fn errors_name_parameter_value_and_limits() {
    for &(text, message) in REFUSED {
        let error = text.parse::<Spec>().expect_err(text);
        assert_eq!(error.to_string(), message, "{text}");
    }
}

/// These specs were found by fuzzing. They cover an infinite mean, approximations above the maximum
/// size or below the minimum, and a difference of nearly equal numbers that rounds to 0.
#[test]
fn average_is_within_size_limits() {
    for (text, average) in [
        ("ram:window=325,cut=before,equal=pass", None),
        ("ram:window=325,equal=pass", None),
        ("seqcdc:mode=dec,length=15,trigger=48,skip=290,min=10,max=938", Some(938)),
        (
            "seqcdc:mode=dec,length=3,trigger=511,skip=512,min=513,max=514,equal=break,rule=literal",
            Some(513),
        ),
        (
            "seqcdc:mode=dec,length=19,trigger=349,skip=32767,min=2,max=32825,rule=literal",
            Some(32_825),
        ),
    ] {
        assert_eq!(parsed(text).chunk_size_average(), average, "{text}");
    }
    let ram = ram::Params {
        window: 325,
        cut: ram::Cut::Before,
        equal: ram::Equal::Pass,
        chunk_size_max: None,
    };
    assert_eq!(ram.mean(), f64::INFINITY, "no greater byte may come");
}

/// An accepted text, a refused one, and the error without the name of the algorithm.
const DEPENDENT_LIMITS: &[(&str, &str, &str)] = &[
    ("rabin:bits=8,window=1", "rabin:bits=9,window=1", "bits=9: must be from 1 to 8"),
    (
        "rabin:bits=8,window=9,poly=0x11b",
        "rabin:bits=9,window=9,poly=0x11b",
        "bits=9: must be from 1 to 8",
    ),
    (
        "tttd:divisor=256,window=1,min=1,max=1",
        "tttd:divisor=257,window=1,min=1,max=1",
        "divisor=257: must be from 2 to 256",
    ),
    (
        "tttd:divisor=256,window=9,poly=0x11b,min=1,max=9",
        "tttd:divisor=257,window=9,poly=0x11b,min=1,max=9",
        "divisor=257: must be from 2 to 256",
    ),
    (
        "tttd:divisor=10,backup=9,window=4,remainder=9,min=1,max=9",
        "tttd:divisor=10,backup=10,window=4,remainder=9,min=1,max=9",
        "backup=10: must be from 1 to 9",
    ),
    (
        "tttd:divisor=10,backup=1,window=4,remainder=0,min=1,max=9",
        "tttd:divisor=10,backup=9,window=4,remainder=10,min=1,max=9",
        "remainder=10: must be from 0 to 9",
    ),
    (
        "buzhash:divisor=10,remainder=9,window=4",
        "buzhash:divisor=10,remainder=10,window=4",
        "remainder=10: must be from 0 to 9",
    ),
    (
        "gear:bits=4,level=3,normal=9",
        "gear:bits=3,level=3,normal=9",
        "bits=3: must be from 4 to 28",
    ),
    (
        "gear:bits=30,level=1,normal=9",
        "gear:bits=31,level=1,normal=9",
        "bits=31: must be from 2 to 30",
    ),
    (
        "gear:bits=29,level=2,normal=9",
        "gear:bits=30,level=2,normal=9",
        "bits=30: must be from 3 to 29",
    ),
    (
        "ultracdc:min=100,normal=100,max=116",
        "ultracdc:min=100,normal=100,max=115",
        "max=115: must be from 116 to 1073741824",
    ),
    (
        "ultracdc:min=100,normal=116,max=116",
        "ultracdc:min=100,normal=117,max=116",
        "normal=117: must be from 100 to 116",
    ),
    (
        "jc:bits=11,jump=9,form=plakar,min=1,max=9",
        "jc:bits=12,jump=9,form=plakar,min=1,max=9",
        "bits=12: must be from 11 to 11",
    ),
    // x^8 is reducible.
    (
        "rabin:bits=1,window=8,poly=0x11b",
        "rabin:bits=1,window=8,poly=0x100",
        "poly=0x100: must be irreducible and of degree 8 to 53",
    ),
    // All of these are irreducible, of degree 8, 7, 53 and 54.
    (
        "tttd:divisor=2,window=8,poly=0x11b,min=1,max=8",
        "tttd:divisor=2,window=8,poly=0x83,min=1,max=8",
        "poly=0x83: must be irreducible and of degree 8 to 53",
    ),
    (
        "rabin:bits=1,window=8,poly=0x20000000000047",
        "rabin:bits=1,window=8,poly=0x4000000000007d",
        "poly=0x4000000000007d: must be irreducible and of degree 8 to 53",
    ),
];

/// Limits that are the values of other parameters, each of them the decisive one, and polynomials:
/// a value at the limit is accepted, and a value beyond it is refused.
#[test]
fn limits_that_depend_on_other_parameters_are_checked() {
    for &(taken, refused, message) in DEPENDENT_LIMITS {
        parsed(taken);
        let error = refused.parse::<Spec>().expect_err(refused);
        let algorithm = refused.split(':').next().unwrap_or("");
        assert_eq!(error.to_string(), format!("{algorithm}: {message}"), "{refused}");
    }
}

/// A setting of a paper, its written-out parameters, and its mean in bytes.
const PAPER_SETTINGS: &[(&str, &str, usize)] = &[
    // Gregoriadis et al., table 4 with table 2, equations 1 and 2.
    ("ae:paper-gregoriadis=512", "mode=max,window=348", 513),
    ("ae:paper-gregoriadis=770", "mode=max,window=563", 770),
    ("ae:paper-gregoriadis=1k", "mode=max,window=793", 1025),
    ("ae:paper-gregoriadis=2k", "mode=max,window=1792", 2047),
    ("ae:paper-gregoriadis=5482,max=64k", "mode=max,window=5226,max=65536", 5482),
    ("ae:paper-gregoriadis=16m", "mode=max,window=16776960", 16_777_216),
    ("ram:paper=64", "window=33", 108),
    ("ram:paper=512", "window=327", 544),
    ("ram:paper=601", "window=399", 626),
    ("ram:paper=770", "window=544", 784),
    ("ram:paper=1k", "window=780", 1030),
    ("ram:paper=2k,cut=before", "window=1792,cut=before", 2047),
    ("ram:paper=5482,max=64k", "window=5226,max=65536", 5482),
    ("ram:paper=8k", "window=7936", 8192),
    ("mii:paper=64", "length=4", 31),
    ("mii:paper=512", "length=6", 888),
    ("mii:paper=3125", "length=6", 888),
    ("mii:paper=3126,max=1m", "length=7,max=1048576", 6232),
    ("mii:paper=8k", "length=7", 6232),
    ("pci:paper=5482", "window=56,threshold=256", 5375),
    ("rabin:paper-gregoriadis=512", "bits=9,window=32", 543),
    ("rabin:paper-gregoriadis=8k,max=64k", "bits=13,window=32,max=65536", 8220),
    ("buzhash:paper=512", "divisor=512,window=64,table=bita", 575),
    (
        "buzhash:paper=8k,runs=early,max=1m",
        "divisor=8192,window=64,table=bita,runs=early,max=1048576",
        8255,
    ),
    ("gear:paper-gregoriadis=4k", "bits=12,table=cdchunking", 4096),
    ("gear:paper-gregoriadis=8k,level=1", "bits=13,level=1,normal=8192,table=cdchunking", 8931),
    (
        "gear:paper-gregoriadis=512,level=3,max=4k",
        "bits=9,level=3,normal=512,table=cdchunking,max=4096",
        538,
    ),
    // Zhang et al., (e - 1) w; AE-Opt2, AE_MAX_T and Rabin_0.25.
    ("ae:paper-zhang=8k", "mode=max,window=4768", 5024),
    ("ae:paper-zhang=8k,max=64k", "mode=max,window=4768,max=65536", 5024),
    ("ae:paper-zhang=2k,mode=min,bytes=8", "mode=min,window=1192,bytes=8", 2124),
    ("ae:paper-zhang-opt2=8k", "mode=max,window=4768,lest=1024", 5024),
    ("ae:paper-zhang-opt2=8k,lest=4k", "mode=max,window=4768,lest=4096", 5024),
    ("ae:paper-zhang-opt2=64", "mode=max,window=37,lest=8", 65),
    ("rabin:paper-zhang=2k", "bits=11,window=48,min=512,max=16384", 2558),
    ("rabin:paper-zhang=16k,window=32", "bits=14,window=32,min=4096,max=131072", 20_472),
    // Udayashankar et al., section 6; the settings of SeqCDC are above.
    ("fastcdc:paper=4k", "level=2,min=1024,normal=4096,max=8192,seed=0,form=dedup-bench", 4545),
    (
        "fastcdc:paper=16k",
        "level=2,min=8192,normal=16384,max=32768,seed=0,form=dedup-bench",
        19_041,
    ),
    ("crc:paper=4k", "bits=12,window=256,cut=before,min=1024,max=8192", 4408),
    ("crc:paper=8k", "bits=13,window=256,cut=before,min=4096,max=16384", 10_460),
    ("rabin:paper-udayashankar=4k", "bits=12,window=48,start=one,min=1024,max=8192", 4408),
    ("rabin:paper-udayashankar=16k", "bits=14,window=48,start=one,min=8192,max=32768", 20_920),
    (
        "gear:paper-udayashankar=8k",
        "bits=13,table=dedup-bench,start=cold,cut=before,min=4096,max=16384",
        10_460,
    ),
    (
        "tttd:paper=4k",
        "divisor=4096,window=48,remainder=0,start=cold,cut=before,end=backup,min=1024,max=8192",
        4202,
    ),
    (
        "tttd:paper=8k",
        "divisor=8192,window=48,remainder=0,start=cold,cut=before,end=backup,min=4096,max=16384",
        9846,
    ),
];

/// The settings of papers have the printed parameters, and the real means that the descriptions
/// state. The means of Gregoriadis et al. are within 1 % of their table 11.
#[test]
fn paper_settings_match_publications() {
    for &(text, list, mean) in PAPER_SETTINGS {
        let spec = parsed(text);
        assert_eq!(spec.to_string(), format!("{}:{list}", spec.algorithm()), "{text}");
        assert_eq!(spec.chunk_size_average(), Some(mean), "{text}");
    }
}

/// Each target that the short form of a paper names is accepted, and the error for any other names
/// all of them.
#[test]
fn paper_targets_are_accepted_and_named_in_errors() {
    let mut count = 0;
    for about in cutpoint_chunking::algorithms() {
        for form in about.short_forms.iter().filter(|form| form.key.starts_with("paper")) {
            let of = |target: &str| format!("{}:{}={target}", about.name, form.key).parse::<Spec>();
            let targets = form.allowed.split(|c: char| !c.is_ascii_alphanumeric());
            for target in targets.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
                assert!(of(target).is_ok(), "{}:{}={target}", about.name, form.key);
                count += 1;
            }
            for target in ["1", "63", "2047", "3000m"] {
                let Err(error) = of(target) else { continue };
                let expected = error.expected();
                assert!(expected.starts_with("must be "), "{error}");
                assert!(expected.ends_with(form.allowed), "{error}");
                assert_eq!(error.parameter(), form.key, "{error}");
            }
            assert!(of("1").is_err(), "{}:{}=1", about.name, form.key);
        }
    }
    assert!(count >= 45, "{count} targets");
    let error = "ae:paper=8k".parse::<Spec>().expect_err("AE has settings of two papers");
    let expected = "unknown; allowed: mode, window, bytes, cut, lest, max; short forms: avg, \
                    paper-gregoriadis, paper-zhang, paper-zhang-opt2";
    assert_eq!(error.expected(), expected, "AE");
}

/// Zhang et al. expect (e - 1) w. With bytes as values the mean is w + 256, 39 % less at 8 KiB, and
/// with long values e^gamma w, 4 % more. The result of Gregoriadis et al. is right for bytes.
#[test]
fn ae_mean_differs_from_zhang_formula() {
    let target = 8192;
    let count = 3000;
    for (text, mean) in [
        ("ae:paper-zhang=8k", 4768.0 + 256.0),
        ("ae:paper-zhang=8k,bytes=8", 4768.0 * 1.7811),
        ("ae:paper-gregoriadis=8k", 8192.0),
    ] {
        let chunker = parsed(text).chunker();
        let data = SplitMix64::bytes(1, target * count);
        let measured = data.len() as f64 / cuts(&*chunker, &data).count() as f64;
        // Three standard errors of a deviation of 0.45, the deviation for long values.
        let error = measured / mean - 1.0;
        assert!(error.abs() < 3.0 * 0.45 / (count as f64).sqrt(), "{text}: {measured}");
    }
}

/// The settings of BFBC have no text, because the pairs depend on data.
#[test]
fn bfbc_setting_matches_publication() {
    let mut counts = bfbc::PairCounts::new();
    counts.add(b"see the bees in the trees, he sees them");
    let params = counts.paper(1024).expect("it is a target");
    assert_eq!(params, counts.most_frequent(3, 896), "the three most frequent pairs");
    assert_eq!(params.pairs.len(), 3, "the three most frequent pairs");
    assert_eq!(counts.paper(130).map(|params| params.chunk_size_min), Ok(2), "the smallest target");
    let error = counts.paper(129).expect_err("no pair fits in a smallest size of 1");
    assert_eq!(error.to_string(), "bfbc: target=129: must be from 130 to 1073741824");
}

#[test]
fn unknown_algorithm_error_lists_known_ones() {
    for name in ["", "Fixed"] {
        let error = format!("{name}:size=1").parse::<Spec>().expect_err(name);
        assert_eq!(error.parameter(), "algorithm", "{error}");
        assert_eq!(error.value(), name, "{error}");
        for about in cutpoint_chunking::algorithms() {
            assert!(error.expected().contains(about.name), "{error}");
        }
    }
}

/// Parsing the output of `Display` gives the same spec, for random parameters and all means.
#[test]
fn written_out_spec_parses_to_same_spec() {
    let mut random = SplitMix64::new(20);
    for round in 0..3000 {
        let min = 1 + random.below(100_000);
        let spec = match round % 3 {
            0 => Spec::try_from(seqcdc::Params {
                mode: [seqcdc::Mode::Increasing, seqcdc::Mode::Decreasing][random.below(2)],
                length: [1, 2, 5, 31, 32][random.below(5)],
                trigger: [1, 50, 1000, 65535][random.below(4)],
                skip_size: random.below(10_000),
                chunk_size_min: min,
                chunk_size_max: min + random.below(1 << 29),
                equal: [seqcdc::Equal::Absorb, seqcdc::Equal::Break][random.below(2)],
                rule: seqcdc::Rule::Released,
                reach: [seqcdc::Reach::At, seqcdc::Reach::Beyond][random.below(2)],
                skipped: [seqcdc::Skipped::Compared, seqcdc::Skipped::Ignored][random.below(2)],
                opposing: seqcdc::Opposing::Total,
            }),
            1 => Spec::try_from(fastcdc::Params {
                level: [0, 1, 2, 3][random.below(4)],
                chunk_size_min: 64 + min / 2 * 2,
                normal_size: 100_064 + 2 * random.below(100_000),
                chunk_size_max: 400_000 + 2 * random.below(1_000_000),
                seed: random.next(),
                form: [fastcdc::Form::Crate, fastcdc::Form::DedupBench][random.below(2)],
            }),
            _ => Spec::try_from(fixed::Params { size: min }),
        };
        let spec = spec.expect("the parameters are right");
        assert_eq!(parsed(&spec.to_string()), spec, "{spec}");
    }
    for _ in 0..200 {
        let mean = 2048 + random.below(1024 * 1024 - 2047);
        for text in [format!("seqcdc:avg={mean}"), format!("fastcdc:avg={mean},seed={mean}")] {
            let spec = parsed(&text);
            assert_eq!(parsed(&spec.to_string()), spec, "{spec}");
        }
    }
}

/// The limits in a description are exactly those that are checked: the error for a value beyond a
/// limit names it, given the other values of some spec.
#[test]
fn limits_match_description() {
    let mut count = 0;
    for cases in cases::ALL {
        let about = parsed(cases.specs[0]).about();
        let long = about.parameters.iter().map(|each| (each.key, each.allowed, cases.specs));
        let short = about.short_forms.iter().map(|each| (each.key, each.allowed, &[":"][..]));
        for (key, allowed, specs) in long.chain(short) {
            // "1 to 30, not above ...", "min to 1073741824": a limit that is no number is the value
            // of another parameter.
            let limits = allowed.split([',', ';']).next().and_then(|text| text.split_once(" to "));
            let Some((low, high)) = limits else { continue };
            let below = low.parse().ok().and_then(|low: u64| low.checked_sub(1));
            let above = high.parse().ok().map(|high: u64| high + 1);
            let beyond = [(below, format!("from {low} to ")), (above, format!(" to {high}."))];
            for (value, limit) in beyond {
                let Some(value) = value else { continue };
                let item = format!("{key}={value}");
                let is_named = specs.iter().any(|text| {
                    let list = text.split_once(':').map_or("", |(_, list)| list);
                    let is_other =
                        |item: &&str| !item.is_empty() && !item.starts_with(&format!("{key}="));
                    let mut items: Vec<&str> = list.split(',').filter(is_other).collect();
                    items.push(&item);
                    let text = format!("{}:{}", about.name, items.join(","));
                    let error = text.parse::<Spec>().expect_err(&text);
                    let expected = format!("{}.", error.expected());
                    error.value() == value.to_string() && expected.contains(&limit)
                });
                assert!(is_named, "{}: {key}={value} is not refused by {limit:?}", about.name);
                count += 1;
            }
        }
    }
    assert!(count > 80, "{count} limits");
}

/// In MII only the first chunk of a stream differs from the others, and only in one dialect.
#[test]
fn spec_is_bounded_unless_it_needs_other_chunks() {
    for (text, is_bounded) in [
        ("mii:length=7,max=64k", true),
        ("mii:length=7,first=0,max=64k", false),
        ("mii:length=7", false),
        ("maxp:window=900,form=strict,max=64k", true),
        ("gear:bits=13,start=carry,max=64k", false),
    ] {
        let spec: Spec = text.parse().expect("a specification");
        let found = spec.bounded();
        assert_eq!(found.is_ok(), is_bounded, "{text}: {found:?}");
    }
}
