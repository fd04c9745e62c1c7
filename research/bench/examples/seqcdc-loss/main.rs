//! The reasons for which SeqCDC saves less than rules by hashes, each varied alone.
//!
//! `seqcdc-loss factors MEAN BYTES FOLDER...` cuts at most that number of bytes of each data set,
//! divided among its versions, by rules that differ in one point: the predicate of a cut-point (a run of
//! rising bytes, or a hash of 64 bytes), the skips, and the smallest and largest size. Rules that
//! are compared have the same measured mean. For each rule, a line has the savings, the share of
//! the bytes in chunks of the largest size, and the distance behind an edit at which the
//! cut-points of the edited bytes agree with those of the others again.
//! `grid` in place of `factors` does the same for parameters of SeqCDC, `skips` for other skips.
//!
//! `research/runs/seqcdc_loss.py` runs it and makes the tables of
//! `research/results/seqcdc-loss.md`.

mod figures;
mod rule;
mod set;

use std::path::Path;
use std::process::ExitCode;

use crate::figures::figures;
use crate::rule::{Cutter, Predicate, Rule, Skip};
use crate::set::Set;

/// The relative difference between a measured mean and its target at which a search ends.
const NEAR: f64 = 0.003;
/// The maximum number of means that a search measures.
const SEARCH_MAX: usize = 12;

/// A way to cut, with its smallest and largest size.
type Found = (Cutter, usize, usize);

/// Searches the argument with which the cutter of `made` has the mean `wanted`.
fn searched(
    set: &Set,
    wanted: f64,
    first: f64,
    made: &dyn Fn(f64) -> Option<Found>,
) -> Option<Found> {
    let (mut below, mut above): (Option<f64>, Option<f64>) = (None, None);
    let mut argument = first;
    let mut best: Option<(f64, Found)> = None;
    for _ in 0..SEARCH_MAX {
        let Some(parts) = made(argument) else { break };
        let off = set.mean(&parts.0) / wanted - 1.0;
        if best.as_ref().is_none_or(|(other, _)| off.abs() < other.abs()) {
            best = Some((off, parts));
        }
        if off.abs() < NEAR {
            break;
        }
        if off > 0.0 {
            above = Some(argument);
        } else {
            below = Some(argument);
        }
        argument = match (below, above) {
            (Some(below), Some(above)) => {
                let proportional = argument / (1.0 + off);
                if proportional > below && proportional < above {
                    proportional
                } else {
                    (below + above) / 2.0
                }
            }
            _ => argument / (1.0 + off).clamp(0.25, 4.0),
        };
    }
    best.filter(|(off, _)| off.abs() < 0.02).map(|(_, parts)| parts)
}

/// Returns the threshold at which a hash of 64 bits is below it once in `period` bytes.
fn threshold(period: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let threshold = (2.0_f64.powi(64) / period.max(1.0)) as u64;
    threshold
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a size")]
fn sizes(nominal: f64, min: f64, max: f64) -> (usize, usize) {
    ((nominal * min) as usize, (nominal * max) as usize)
}

/// Prints the figures of a rule as a line of fields.
fn print_line(set: &Set, mean: f64, name: &str, found: Option<Found>) {
    let Some((cutter, min, max)) = found else {
        println!("{}\t{mean}\t{name}\tabsent", set.name);
        return;
    };
    let found = figures(set, &cutter, min, max);
    let numbers = [
        found.mean,
        min as f64,
        max as f64,
        found.savings,
        found.looked,
        found.forced,
        found.smallest,
        found.distance,
        found.distance_95,
        found.never,
    ];
    let numbers = numbers.map(|number| format!("{number:.3}")).join("\t");
    println!("{}\t{mean}\t{name}\t{numbers}", set.name);
}

/// SeqCDC with these parameters, whose smallest and largest size follow the argument of a search.
fn seqcdc(
    set: &Set,
    wanted: f64,
    (length, trigger, skip): (u32, u32, usize),
    (min, max): (f64, f64),
    rest: &str,
) -> Option<Found> {
    searched(set, wanted, wanted, &|nominal| {
        let (min, max) = sizes(nominal, min, max);
        let spec = format!(
            "seqcdc:mode=inc,length={length},trigger={trigger},skip={skip},min={min},max={max}{rest}"
        );
        Cutter::of(&spec).ok().map(|cutter| (cutter, min, max))
    })
}

/// The hash with these sizes and skips, whose threshold follows the search.
fn hashed(set: &Set, wanted: f64, skip: Skip, (min, max): (usize, usize)) -> Option<Found> {
    searched(set, wanted, (wanted - min as f64).max(wanted / 8.0), &|period| {
        let rule = Rule::new(Predicate::Hash(threshold(period)), skip, min, max);
        Some((Cutter::Rule(rule), min, max))
    })
}

/// The same rule by the code of this file, which counts the pairs.
fn counted(found: Option<Found>, length: u32, skip: Skip) -> Option<Found> {
    let (_, min, max) = found?;
    Some((Cutter::Rule(Rule::new(Predicate::Run(length), skip, min, max)), min, max))
}

/// The runs with skips that do not depend on the start of the chunk.
fn local(
    set: &Set,
    wanted: f64,
    length: u32,
    (run, size): (u32, usize),
    (min, max): (f64, f64),
) -> Option<Found> {
    searched(set, wanted, wanted, &|nominal| {
        let (min, max) = sizes(nominal, min, max);
        let rule = Rule::new(Predicate::Run(length), Skip::Local { run, size }, min, max);
        Some((Cutter::Rule(rule), min, max))
    })
}

/// The factors, one after the other.
fn factors(set: &Set, mean: f64) {
    let length = 5;
    let skip = Skip::Counted { trigger: 50, size: 256 };
    let paper = seqcdc(set, mean, (length, 50, 256), (0.5, 2.0), "");
    let without = seqcdc(set, mean, (length, 65_535, 0), (0.5, 2.0), "");
    let of = |found: &Option<Found>| found.as_ref().map(|(_, min, max)| (*min, *max));
    let (paper_sizes, without_sizes) = (of(&paper), of(&without));
    print_line(set, mean, "run, skips", counted(paper, length, skip));
    if let Some(sizes) = paper_sizes {
        print_line(set, mean, "hash, skips", hashed(set, mean, skip, sizes));
        let by_run = Skip::Local { run: 4, size: 256 };
        print_line(set, mean, "hash, skips by run", hashed(set, mean, by_run, sizes));
        print_line(set, mean, "hash", hashed(set, mean, Skip::None, sizes));
        print_line(
            set,
            mean,
            "hash, max x4",
            hashed(set, mean, Skip::None, (sizes.0, sizes.1 * 4)),
        );
    }
    print_line(set, mean, "run", counted(without, length, Skip::None));
    if let Some(sizes) = without_sizes {
        print_line(set, mean, "hash, sizes of run", hashed(set, mean, Skip::None, sizes));
    }
    for skip in [(4, 256), (3, 256), (3, 128)] {
        let name = format!("run, skips by run {} {}", skip.0, skip.1);
        print_line(set, mean, &name, local(set, mean, length, skip, (0.5, 2.0)));
        let name = format!("{name}, max 4");
        print_line(set, mean, &name, local(set, mean, length, skip, (0.375, 4.0)));
    }
    let broken = seqcdc(set, mean, (length, 50, 256), (0.5, 2.0), ",equal=break");
    print_line(set, mean, "run, skips, equal=break", broken);
    print_line(
        set,
        mean,
        "run, skips, max 8",
        seqcdc(set, mean, (length, 50, 256), (0.5, 8.0), ""),
    );
    print_line(
        set,
        mean,
        "run, skips, min 1/4",
        seqcdc(set, mean, (length, 50, 256), (0.25, 8.0), ""),
    );
    let small = sizes(mean, 0.25, 4.0);
    print_line(set, mean, "hash, min 1/4, max 4", hashed(set, mean, Skip::None, small));
    for form in ["seqcdc:avg=", "fastcdc:avg=", "gear:avg=", "mincdc:avg="] {
        let found = searched(set, mean, mean, &|nominal| {
            let cutter = Cutter::of(&format!("{form}{nominal:.0}")).ok()?;
            Some((cutter, 0, 0))
        });
        print_line(set, mean, &format!("{form}..."), found);
    }
}

/// Parameters of SeqCDC at the same mean: length, trigger, skip, smallest and largest size.
fn grid(set: &Set, mean: f64) {
    let skips = [(65_535, 0), (50, 256), (50, 128), (100, 256), (25, 64)];
    for rest in ["", ",equal=break"] {
        for length in [4, 5, 6, 7] {
            for (trigger, skip) in skips {
                for (min, max) in [(0.5, 2.0), (0.5, 8.0), (0.25, 4.0)] {
                    let name = format!("{length} {trigger} {skip} {min} {max}{rest}");
                    let found = seqcdc(set, mean, (length, trigger, skip), (min, max), rest);
                    print_line(set, mean, &name, found);
                }
            }
        }
    }
}

/// Skips by the number of falling pairs since the start of the chunk, and by runs of falling pairs.
fn skips(set: &Set, mean: f64) {
    let counted = [(50, 256), (25, 128), (12, 64), (6, 32), (25, 64), (12, 32)];
    let counted = counted.map(|(trigger, size)| Skip::Counted { trigger, size });
    let local = [(4, 512), (4, 256), (4, 128), (3, 256), (3, 128), (3, 64), (3, 32)];
    let local = local.map(|(run, size)| Skip::Local { run, size });
    for skip in counted.into_iter().chain(local) {
        for (min, max) in [(0.5, 2.0), (0.375, 4.0)] {
            let found = searched(set, mean, mean, &|nominal| {
                let (min, max) = sizes(nominal, min, max);
                let rule = Rule::new(Predicate::Run(5), skip, min, max);
                Some((Cutter::Rule(rule), min, max))
            });
            let name = match skip {
                Skip::None => "none".to_owned(),
                Skip::Counted { trigger, size } => format!("count {trigger} skip {size}"),
                Skip::Local { run, size } => format!("run {run} skip {size}"),
            };
            print_line(set, mean, &format!("{name} max {max}"), found);
        }
    }
}

/// Fails if a rule of this file cuts otherwise than the algorithm that it stands for.
fn verified(set: &Set) -> Result<(), String> {
    let (min, max) = (4096, 16_384);
    for (spec, skip) in [
        ("trigger=50,skip=256", Skip::Counted { trigger: 50, size: 256 }),
        ("trigger=65535,skip=0", Skip::None),
    ] {
        let theirs = Cutter::of(&format!("seqcdc:mode=inc,length=5,{spec},min={min},max={max}"))?;
        let ours = Cutter::Rule(Rule::new(Predicate::Run(5), skip, min, max));
        let ends = |cutter: &Cutter| {
            let mut ends = Vec::new();
            cutter.cut(&set.files[0], &mut |_, end| {
                ends.push(end);
                true
            });
            ends
        };
        if ends(&theirs) != ends(&ours) {
            return Err(format!("{spec}: the rule of this file cuts otherwise"));
        }
    }
    Ok(())
}

fn run() -> Result<(), String> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let usage = || "usage: seqcdc-loss factors|grid|skips MEAN BYTES FOLDER...".to_owned();
    let part = match args.first().map(String::as_str) {
        Some("factors") => factors,
        Some("grid") => grid,
        Some("skips") => skips,
        _ => return Err(usage()),
    };
    args.remove(0);
    let [mean, size, folders @ ..] = args.as_slice() else { return Err(usage()) };
    let mean: f64 = mean.parse().map_err(|_| usage())?;
    let size: usize = size.parse().map_err(|_| usage())?;
    for folder in folders {
        let set =
            Set::load(Path::new(folder), size).map_err(|error| format!("{folder}: {error}"))?;
        if set.files.is_empty() {
            return Err(format!("{folder}: empty"));
        }
        verified(&set)?;
        part(&set, mean);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
