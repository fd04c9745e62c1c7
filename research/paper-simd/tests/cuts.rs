//! Every form, at every width of this CPU and emulated, has the cut-points of `cutpoint-chunking`.

use std::collections::BTreeSet;

use cutpoint_chunking::{Spec, cuts};
use cutpoint_paper_simd::{Baseline, BaselineError, Cutter, all};
use cutpoint_testing::{SplitMix64, input};

/// The specs of each form, including windows and sizes at and next to the widths of vectors.
const SPECS: [&str; 39] = [
    "crc:bits=7,window=16",
    "crc:bits=5,window=4,max=100",
    "crc:bits=6,window=48,cut=before,max=48",
    "crc:bits=7,window=33,min=50,max=600",
    "crc:bits=8,window=256,cut=before,min=300,max=1024",
    "gear:bits=6,table=cutpoint32,start=carry",
    "gear:bits=7,table=cutpoint32,start=carry,cut=before,min=20,max=400",
    "gear:bits=6,table=cutpoint32,min=32",
    "gear:bits=6,table=cutpoint32,cut=before,min=31,max=31",
    "gear:bits=8,table=cutpoint32,min=100,max=700",
    "ram:window=1",
    "ram:window=15",
    "ram:window=64,max=200",
    "ram:window=100,max=101",
    "ram:window=193,cut=before,max=700",
    "ram:window=30,equal=pass,max=900",
    "ram:window=257,cut=before,equal=pass,max=1000",
    "ae:mode=max,window=1,max=300",
    "ae:mode=max,window=60,max=800",
    "ae:mode=min,window=33,cut=before",
    "ae:mode=max,window=64,cut=before,max=900",
    "ae:mode=min,window=200,max=201",
    "ae:mode=max,window=321",
    "maxp:window=1",
    "maxp:window=17,max=700",
    "maxp:window=64,max=200",
    "maxp:window=100,max=201",
    "maxp:window=5,form=strict",
    "maxp:window=95,form=strict,max=1000",
    "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,equal=break",
    "seqcdc:mode=inc,length=5,trigger=50,skip=256,min=300,max=3000,equal=break,rule=literal",
    "seqcdc:mode=dec,length=5,trigger=20,skip=17,min=1,max=900,equal=break",
    "seqcdc:mode=dec,length=4,trigger=3,skip=0,min=64,max=500,equal=break",
    "seqcdc:mode=inc,length=3,trigger=65535,skip=0,min=1,max=1000,equal=break,rule=literal",
    "seqcdc:mode=dec,length=2,trigger=1,skip=63,min=1,max=900,equal=break",
    "seqcdc:mode=inc,length=1,trigger=5,skip=1,min=16,max=64,equal=break",
    "seqcdc:mode=dec,length=32,trigger=200,skip=5,min=5,max=700,equal=break,rule=literal",
    "seqcdc:mode=inc,length=2,trigger=70,skip=3000,min=6,max=700,equal=break",
    "seqcdc:mode=inc,length=6,trigger=10,skip=5,min=100,max=100,equal=break,rule=literal",
];

fn parse(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the forms of the algorithm of the spec at every width: emulated, and those that this CPU
/// has.
fn forms(spec: &Spec) -> Vec<Baseline> {
    let forms = all().filter(|form| form.algorithm() == spec.algorithm());
    let both = forms.flat_map(|form| [form, form.emulated()]);
    both.filter(|form| form.is_available()).collect()
}

/// Returns the cutters of all [`forms`] for the spec.
fn cutters(spec: &Spec) -> Vec<(Baseline, Cutter)> {
    let make = |form: Baseline| form.cutter(spec).unwrap_or_else(|error| panic!("{form}: {error}"));
    forms(spec).into_iter().map(|form| (form, make(form))).collect()
}

fn check(spec: &Spec, name: &str, cutters: &mut [(Baseline, Cutter)], data: &[u8]) {
    let expected: Vec<usize> = cuts(&*spec.chunker(), data).collect();
    for (form, cutter) in cutters {
        let ends = cutter.cuts(data);
        let pairs = ends.iter().zip(&expected);
        let first = pairs.into_iter().find(|(ours, theirs)| ours != theirs);
        assert!(
            ends == expected,
            "{form}, {spec}, {} bytes of {name}: {} and {} cut-points, first difference: {first:?}",
            data.len(),
            ends.len(),
            expected.len()
        );
    }
}

/// Returns `size` bytes of each kind of data with an edge case of a form.
fn kinds(size: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let noise = SplitMix64::bytes(seed, size);
    let of = |value: &dyn Fn(u8) -> u8| noise.iter().map(|&byte| value(byte)).collect();
    let mut falling = input::saw(size);
    falling.reverse();
    // Slowly rising bytes, with equal bytes between, and a step back now and then.
    let slow = noise.iter().scan(0_u8, |last, &byte| {
        *last = match byte {
            0..16 => last.saturating_sub(byte),
            16..128 => last.wrapping_add(1),
            _ => *last,
        };
        Some(*last)
    });
    let mut hole = noise.clone();
    hole[size / 3..size - size / 4].fill(0);
    vec![
        ("noise with a hole", hole),
        ("slow changes", slow.collect()),
        ("two values", of(&|byte| byte & 1)),
        ("127 and 128", of(&|byte| 127 + (byte & 1))),
        // The greatest and the least byte are rare, and occur at any place of a window.
        ("rare 255", of(&|byte| if byte == 9 { 255 } else { byte / 2 })),
        ("rare 0", of(&|byte| if byte == 9 { 0 } else { 128 + byte / 2 })),
        ("noise", noise),
        ("rising", input::saw(size)),
        ("falling", falling),
        ("text", input::repeated(&input::text(3000), size)),
        ("zeros", vec![0; size]),
        ("255", vec![255; size]),
    ]
}

/// Every width that this CPU has is tested, so that no width is left out unnoticed.
#[test]
fn every_width_of_this_cpu_is_tested() {
    let names: Vec<String> = all().map(|form| form.to_string()).collect();
    let available = all().filter(|form| form.is_available());
    println!("widths: {}", available.map(|form| form.to_string()).collect::<Vec<_>>().join(", "));
    assert_eq!(names.len(), 18);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 18, "{names:?}");
    for name in ["SS-CRC-512", "SS-Gear-256", "VRAM-128", "VAE-512", "VMAXP-256", "VSEQ-512"] {
        assert!(names.iter().any(|each| each == name), "{name} is not in {names:?}");
    }
    for form in all() {
        assert!(form.emulated().is_available(), "{form}");
        assert_eq!(form.emulated().to_string(), format!("{form}-emulated"));
        #[cfg(target_arch = "x86_64")]
        {
            let has_width = match form.bits() {
                128 => true,
                256 => std::is_x86_feature_detected!("avx2"),
                _ => std::is_x86_feature_detected!("avx512bw"),
            };
            let has = has_width && std::is_x86_feature_detected!("bmi2");
            assert_eq!(form.is_available(), has, "{form}: what the CPU has was left out");
        }
        let specs = SPECS.iter().map(|text| parse(text));
        let has_specs = specs.filter(|spec| spec.algorithm() == form.algorithm()).count();
        assert!(has_specs > 0, "{form} is not tested");
    }
}

#[test]
fn cut_points_are_those_of_chunking_at_every_edge() {
    for (seed, text) in (0..).zip(SPECS) {
        let spec = parse(text);
        let mut cutters = cutters(&spec);
        let (min, max) = (spec.chunk_size_min(), spec.chunk_size_max().unwrap_or(0));
        let mut sizes = BTreeSet::from([0, 1, 2, 7777]);
        // The edges of vectors, of segments of a cache line per lane after the window, and of
        // chunks.
        for edge in [16, 32, 64, 128, 256, 512, 1024, min, 2 * min, max, max + min] {
            for before in [0, min] {
                sizes.extend((edge + before).saturating_sub(2)..=edge + before + 2);
            }
        }
        for size in sizes {
            for (name, data) in kinds(size, seed) {
                check(&spec, name, &mut cutters, &data);
            }
        }
    }
}

/// Runs and triggers, extremes and ends of windows at each place of a vector.
#[test]
fn single_byte_is_found_at_every_place() {
    for text in [
        "ram:window=100,max=400",
        "ae:mode=max,window=70,max=400",
        "ae:mode=min,window=70,max=400",
        "maxp:window=70,max=400",
        "seqcdc:mode=inc,length=2,trigger=2,skip=9,min=3,max=400,equal=break",
    ] {
        let spec = parse(text);
        let mut cutters = cutters(&spec);
        for at in 0..330 {
            let mut data = vec![100; 500];
            data[at] = 101;
            data[at + 90] = 99;
            data[at + 1..at + 7].copy_from_slice(&[102, 103, 100, 101, 99, 100]);
            check(&spec, "one place", &mut cutters, &data);
        }
    }
}

/// The inputs of the oracle lists, at sizes in practical use. The emulated widths get a part of
/// each input.
#[test]
fn cut_points_are_those_of_chunking_on_all_inputs() {
    let specs = [
        "crc:paper=4k",
        "gear:avg=4096,table=cutpoint32,max=32768",
        "ram:avg=4096,max=32768",
        "ae:avg=4096,max=32768",
        "ae:avg=4096,mode=min,max=32768",
        "maxp:window=960,max=32768",
        "seqcdc:paper=4k,equal=break",
        "seqcdc:paper=8k,equal=break,rule=literal",
    ];
    for name in input::NAMES {
        let data = input::by_name(name).expect("the name is of the list");
        let part = &data[data.len() / 2..data.len().min(data.len() / 2 + 100_000)];
        for text in specs {
            let spec = parse(text);
            let mut cutters = cutters(&spec);
            check(&spec, name, &mut cutters, part);
            cutters.retain(|(form, _)| *form != form.emulated());
            check(&spec, name, &mut cutters, &data);
        }
    }
}

/// Candidates of one buffer have no effect on the next buffer.
#[test]
fn cutter_keeps_no_state_between_buffers() {
    let spec = parse("gear:bits=6,table=cutpoint32,min=32");
    for form in forms(&spec) {
        let mut cutter = form.cutter(&spec).expect("it is available, and the spec is right");
        for (size, seed) in [(20_000, 1), (30_000, 2), (5_000, 3), (20_000, 4)] {
            let data = SplitMix64::bytes(seed, size);
            let expected: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
            assert_eq!(cutter.cuts(&data), expected, "{form}, {size} bytes");
        }
    }
}

#[test]
fn dialect_that_a_form_lacks_is_refused() {
    let refused = [
        ("VRAM-256", "ae:mode=max,window=100"),
        ("VAE-256", "ae:mode=max,window=100,bytes=2"),
        ("VAE-512", "ae:mode=max,window=100,lest=7"),
        ("VSEQ-512", "seqcdc:paper=8k"),
        ("SS-Gear-512", "gear:bits=8"),
        ("SS-Gear-512", "gear:bits=8,table=cdchunking"),
        ("SS-Gear-512", "gear:bits=8,table=cutpoint32,min=31"),
        ("SS-Gear-512", "gear:bits=8,table=cutpoint32,start=cold,min=100"),
        ("SS-Gear-512", "gear:bits=8,table=cutpoint32,level=1,normal=200,min=100"),
    ];
    for (name, text) in refused {
        let form = all().find(|form| form.to_string() == name).expect("there is one");
        let error = form.emulated().cutter(&parse(text)).expect_err(text);
        assert!(matches!(error, BaselineError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(&parse(text).to_string()), "{error}");
    }
    for form in all().filter(|form| !form.is_available()) {
        let error = form.cutter(&parse("ram:window=9")).expect_err("it is not available");
        assert!(error.to_string().contains(&form.to_string()), "{error}");
    }
}
