use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use super::*;

fn claim(test: Test, number: f64, selectors: &[&str]) -> Claim {
    let select = |name: &&str| Selector {
        metric: "mean".to_owned(),
        algorithm: Some((*name).to_owned()),
        ..Selector::default()
    };
    Claim {
        id: "x".to_owned(),
        paper: "000".to_owned(),
        number: Some(number),
        test,
        rows: selectors.iter().map(select).collect(),
        ..Claim::default()
    }
}

/// Rows of one value each, except `d`, whose quartiles are those of `a` and `c`.
fn rows() -> Vec<Row> {
    let mut rows = [("a", 10.0), ("b", 5.0), ("c", 7.0), ("d", 8.0), ("e", 10.4)]
        .map(|(algorithm, value)| Row {
            algorithm: algorithm.to_owned(),
            commit: "1a".to_owned(),
            machine: "a machine".to_owned(),
            time_s: 7,
            ..Row::new("mean", value, "%")
        })
        .to_vec();
    (rows[3].lower_quartile, rows[3].upper_quartile) = (7.0, 10.0);
    rows.push(Row {
        algorithm: "f".to_owned(),
        ..Row::new("mean", 3.0, "").samples(&[1.0, 2.0, 3.0])
    });
    rows.push(Row { algorithm: "g".to_owned(), ..Row::new("mean", 4.0, "GB/s") });
    rows
}

#[track_caller]
fn assert_verdict(claim: Claim, expected: Verdict, case: &str) {
    let answer = claim.answer(&rows());
    assert_eq!(answer.verdict, expected, "{case}: {}", answer.ours);
}

#[test]
fn number_is_reproduced_within_a_tenth_or_the_spread_of_the_paper() {
    use Test::{Quotients, Ratio, Value};
    use Verdict::{Contradicts, NotTestable, Reproduced, SameShape};
    assert_verdict(claim(Value, 10.9, &["a"]), Reproduced, "within a tenth");
    assert_verdict(claim(Value, 12.0, &["a"]), SameShape, "farther");
    assert_verdict(claim(Value, 16.0, &["a"]), Contradicts, "beyond a factor of 1.5");
    let range = Claim { upper: Some(20.0), ..claim(Value, 9.0, &["a"]) };
    assert_verdict(range, Reproduced, "in the range that the paper prints");
    let exact = Claim { exact: true, ..claim(Value, 12.0, &["a"]) };
    assert_verdict(exact, Contradicts, "chance alone has no shape");
    let narrow = Claim { tolerance: Some(0.01), ..claim(Value, 10.5, &["a"]) };
    assert_verdict(narrow, SameShape, "beyond a narrower tolerance");
    let none = Claim { tolerance: Some(6.0), ..claim(Value, 0.0, &["b"]) };
    assert_verdict(none, Reproduced, "5 is nearly nothing");
    assert_verdict(claim(Value, 4.0, &["g"]), NotTestable, "an absolute speed");
    assert_verdict(claim(Ratio, 2.1, &["a", "b"]), Reproduced, "a ratio");
    assert_verdict(claim(Ratio, 2.9, &["a", "b"]), SameShape, "within a factor of 1.5");
    assert_verdict(
        claim(Ratio, 15.0, &["a", "b"]),
        Contradicts,
        "the same side of 1 is not enough",
    );
    assert_verdict(claim(Ratio, 2.0, &["b", "a"]), Contradicts, "the other side of 1");
    assert_verdict(claim(Quotients, 2.8, &["a", "b", "b", "c"]), Reproduced, "(10 / 5) / (5 / 7)");
    let answer = claim(Quotients, 2.8, &["a", "b", "b", "c"]).answer(&rows());
    assert_eq!(answer.ours, "2.80 (10 % / 5 % : 5 % / 7 %)", "both quotients");
}

#[test]
fn ratio_near_one_is_compared_by_its_distance_from_one() {
    use Test::Ratio;
    use Verdict::{Contradicts, Reproduced, SameShape};
    assert_verdict(claim(Ratio, 1.05, &["e", "a"]), Reproduced, "4 % of 5 %");
    assert_verdict(claim(Ratio, 1.02, &["e", "a"]), Contradicts, "twice the gain");
    assert_verdict(claim(Ratio, 1.3, &["e", "a"]), Contradicts, "a seventh of the gain");
    assert_verdict(claim(Ratio, 0.96, &["e", "a"]), Contradicts, "a loss");
    assert_verdict(claim(Ratio, 1.5, &["a", "b"]), Contradicts, "1.5 is near 1: twice the gain");
    assert_verdict(claim(Ratio, 1.95, &["a", "c"]), Contradicts, "ours is near 1: half the gain");
    assert_verdict(claim(Ratio, 1.62, &["a", "c"]), SameShape, "ours is near 1: within 1.5 times");
    assert_verdict(claim(Ratio, 1.0, &["e", "a"]), Reproduced, "equality within a tenth");
    let narrow = Claim { tolerance: Some(0.03), ..claim(Ratio, 1.0, &["e", "a"]) };
    assert_verdict(narrow, SameShape, "equality, nearly");
    let narrow = Claim { tolerance: Some(0.02), ..claim(Ratio, 1.0, &["e", "a"]) };
    assert_verdict(narrow, Contradicts, "no equality");
    let around_one = Claim { upper: Some(1.1), ..claim(Ratio, 0.909, &["a", "d"]) };
    assert_verdict(around_one, Contradicts, "1.25 is not around 1");
    let around_one = Claim { upper: Some(1.04), ..claim(Ratio, 0.97, &["e", "a"]) };
    assert_verdict(around_one, Reproduced, "in a range around 1");
}

#[test]
fn ratio_of_several_pairs_is_the_mean_of_their_quotients() {
    let mean = claim(Test::Ratio, 1.71, &["a", "b", "a", "c"]);
    let figure = mean.answer(&rows()).figure.expect("a figure");
    assert!((figure.value - f64::midpoint(2.0, 10.0 / 7.0)).abs() < 1e-9, "{figure:?}");
    assert_verdict(mean, Verdict::Reproduced, "of 2 and 1.43");
    let tied = claim(Test::Ratio, 1.45, &["a", "d", "a", "b"]);
    assert_verdict(tied, Verdict::SameShape, "one tie is none for the mean");
}

#[test]
fn difference_is_compared_by_its_size() {
    use Test::Difference;
    use Verdict::{Contradicts, Reproduced, SameShape, Tie};
    assert_verdict(claim(Difference, 5.4, &["a", "b"]), Reproduced, "within a tenth");
    assert_verdict(claim(Difference, 7.0, &["a", "b"]), SameShape, "within a factor of 1.5");
    assert_verdict(claim(Difference, 14.86, &["a", "b"]), Contradicts, "the sign is not enough");
    assert_verdict(claim(Difference, -5.0, &["a", "b"]), Contradicts, "the other way");
    let range = Claim { upper: Some(6.0), ..claim(Difference, -1.0, &["a", "b"]) };
    assert_verdict(range, Reproduced, "both papers on the same data");
    let resolved = Claim { resolution: 0.5, ..claim(Difference, 0.6, &["e", "a"]) };
    assert_verdict(resolved, Tie, "a difference below the resolution");
    let equal = Claim { resolution: 0.3, ..claim(Difference, 0.0, &["e", "a"]) };
    assert_verdict(equal, SameShape, "equality, nearly");
    let equal = Claim { resolution: 0.2, ..claim(Difference, 0.0, &["e", "a"]) };
    assert_verdict(equal, Contradicts, "no equality");
}

#[test]
fn overlapping_quartiles_are_a_tie() {
    use Test::{Difference, Factors, Order, Ratio};
    use Verdict::{Contradicts, Tie};
    assert_verdict(claim(Ratio, 1.25, &["a", "d"]), Tie, "a ratio");
    assert_verdict(claim(Ratio, 0.8, &["d", "a"]), Tie, "in either direction");
    assert_verdict(claim(Ratio, 3.0, &["a", "d"]), Contradicts, "not halfway to the number");
    assert_verdict(claim(Difference, 2.0, &["a", "d"]), Tie, "a difference");
    assert_verdict(claim(Difference, 9.0, &["a", "d"]), Contradicts, "0 to 3 is not halfway to 9");
    assert_verdict(claim(Order, 0.0, &["d", "a"]), Tie, "an order");
    assert_verdict(claim(Factors, 0.0, &["d", "b", "a", "b"]), Tie, "factors");
}

#[test]
fn order_holds_as_a_whole() {
    use Test::{Factors, Order};
    use Verdict::{Contradicts, SameShape, Tie};
    assert_verdict(claim(Order, 0.0, &["a", "c", "b"]), SameShape, "falling");
    assert_verdict(claim(Order, 0.0, &["a", "b", "c"]), Contradicts, "the first alone leads");
    assert_verdict(claim(Order, 0.0, &["a", "a"]), Tie, "equal values");
    let resolved = Claim { resolution: 0.5, ..claim(Order, 0.0, &["a", "e"]) };
    assert_verdict(resolved, Tie, "a reversal below the resolution");
    assert_verdict(claim(Factors, 0.0, &["a", "b", "c", "b"]), SameShape, "10 / 5 above 7 / 5");
    assert_verdict(claim(Factors, 0.0, &["b", "a", "c", "b"]), Contradicts, "5 / 10 below 7 / 5");
}

#[test]
fn bound_cells_and_curves_have_verdicts() {
    use Test::{Cells, Curve, Spread, Within};
    use Verdict::{Contradicts, Reproduced, SameShape, Tie};
    assert_verdict(claim(Within, 4.0, &["c", "a", "b"]), Reproduced, "3 below the best");
    assert_verdict(claim(Within, 2.0, &["c", "a", "b"]), SameShape, "1.5 times the bound");
    assert_verdict(claim(Within, 1.0, &["c", "a", "b"]), Contradicts, "three times the bound");
    assert_verdict(claim(Within, 1.0, &["a", "b"]), Reproduced, "the best itself");
    assert_verdict(claim(Spread, 5.0, &["a", "b", "c"]), Reproduced, "5 from a to b");
    assert_verdict(claim(Spread, 4.0, &["c", "a", "b"]), SameShape, "1.5 times the bound");
    assert_verdict(claim(Spread, 3.0, &["b", "c", "a"]), Contradicts, "in any order");
    let cells = |numbers: &[f64]| Claim {
        numbers: numbers.to_vec(),
        ..claim(Cells, 0.0, &["a", "b", "c"])
    };
    assert_verdict(cells(&[10.1, 5.1, 7.1]), Reproduced, "all of them");
    assert_verdict(cells(&[10.1, 5.1, 9.0]), SameShape, "one is farther");
    assert_verdict(cells(&[10.1, 5.1, 19.0]), Contradicts, "one is another number");
    let answer = cells(&[10.1, 5.1, 19.0]).answer(&rows());
    assert!(answer.ours.starts_with("2 of 3 numbers within 10 %, 0 within"), "{}", answer.ours);
    let verdicts: Vec<Verdict> = answer.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Reproduced, Reproduced, Contradicts], "each has its own");
    let curve = |pieces: &[Piece], rows: &[&str], resolution: f64| Claim {
        pieces: pieces.to_vec(),
        resolution,
        ..claim(Curve, 0.0, rows)
    };
    use Piece::{Falls, Flat, Rises};
    assert_verdict(curve(&[Falls, Rises], &["a", "c", "b", "e"], 0.0), SameShape, "two pieces");
    assert_verdict(curve(&[Falls], &["a", "c", "b", "e"], 0.0), Contradicts, "one too many");
    assert_verdict(curve(&[Rises], &["f"], 0.0), SameShape, "the samples of a row");
    assert_verdict(curve(&[Falls], &["a", "e"], 0.5), Tie, "below the resolution");
    assert_verdict(curve(&[Flat], &["a", "e"], 0.5), SameShape, "flat as it should be");
    let sample = Selector {
        metric: "mean".to_owned(),
        algorithm: Some("f".to_owned()),
        sample: Some(1),
        ..Selector::default()
    };
    let second = Claim { rows: vec![sample], ..claim(Test::Value, 2.0, &[]) };
    assert_verdict(second, Reproduced, "the second sample");
}

#[test]
fn spread_of_the_worst_target_decides() {
    let row = |algorithm: &str, target: u64, value: f64| Row {
        algorithm: algorithm.to_owned(),
        target,
        ..Row::new("mean", value, "%")
    };
    let select = |algorithm: &str, target: u64| Selector {
        metric: "mean".to_owned(),
        algorithm: Some(algorithm.to_owned()),
        target: Some(target),
        ..Selector::default()
    };
    let rows = [row("a", 1, 10.0), row("b", 1, 10.5), row("a", 2, 7.0), row("b", 2, 5.0)];
    let selectors = [select("a", 1), select("a", 2), select("b", 1), select("b", 2)];
    let spread = Claim { rows: selectors.to_vec(), ..claim(Test::Spread, 1.0, &[]) };
    let answer = spread.answer(&rows);
    assert_eq!(answer.verdict, Verdict::Contradicts, "{}", answer.ours);
    assert_eq!(answer.ours, "at 2: 2 below the best (a 7 %; b 5 %)", "the worst target");
    let wider = Claim { number: Some(2.0), ..spread };
    assert_eq!(wider.answer(&rows).verdict, Verdict::Reproduced, "within the bound at both");
}

#[test]
fn circumstances_limit_the_verdict() {
    let stands_in = Claim { stands_in: true, ..claim(Test::Value, 10.0, &["a"]) };
    assert_verdict(stands_in, Verdict::SameShape, "with other data");
    let not_counted = "It is so by construction.".to_owned();
    let by_construction = Claim { not_counted, ..claim(Test::Value, 10.0, &["a"]) };
    let answer = by_construction.answer(&rows());
    assert_eq!(answer.verdict, Verdict::NotCounted, "true by construction");
    assert_eq!(answer.reason, "It is so by construction.", "its reason");
    assert_eq!(answer.figure.map(|figure| figure.value), Some(10.0), "the figure is shown");

    let cause = |claim: Claim| claim.answer(&rows()).cause;
    let machine = Claim { cause: Some(Cause::Machine), ..claim(Test::Value, 90.0, &["a"]) };
    assert_eq!(cause(machine.clone()), Some(Cause::Machine), "the cause of a contradiction");
    assert_eq!(cause(Claim { number: Some(10.0), ..machine }), None, "no contradiction");
    let data = Claim { stands_in: true, ..claim(Test::Value, 90.0, &["a"]) };
    assert_eq!(cause(data), Some(Cause::Data), "other data");
    assert_eq!(cause(claim(Test::Value, 90.0, &["a"])), None, "a cause that nobody found");
}

#[test]
fn missing_row_is_named() {
    let answer = claim(Test::Value, 1.0, &["x"]).answer(&rows());
    assert_eq!(answer.verdict, Verdict::NotTestable, "verdict");
    assert_eq!(answer.reason, "not among these results: mean of x.", "reason");
    let wide = |level: &str| Row { level: level.to_owned(), ..Row::new("mean", 1.0, "") };
    let select = |level: &str| Selector {
        metric: "mean".to_owned(),
        level: Some(level.to_owned()),
        ..Selector::default()
    };
    let wanted = Claim { rows: vec![select("VSEQ-512")], ..claim(Test::Value, 1.0, &[]) };
    let reason = |rows: &[Row]| wanted.answer(rows).reason;
    let lacking = "needs AVX-512, which the processor of these results lacks.";
    assert_eq!(reason(&[wide("VSEQ-256")]), lacking, "the other widths are there");
    let missing = "not among these results: mean of VSEQ-512.";
    assert_eq!(reason(&[wide("VSEQ-256"), wide("VRAM-512")]), missing, "only this row is missing");
    assert_eq!(reason(&[wide("plain")]), missing, "no forms of the papers");
    let served = Selector { measure: Some("volume".to_owned()), ..select("") };
    let wanted = Claim { rows: vec![served], ..claim(Test::Value, 1.0, &[]) };
    let lacking = "no rows of a volume are in this record.";
    assert_eq!(wanted.answer(&[wide("plain")]).reason, lacking, "a record without volumes");
    let other = Row { measure: "volume".to_owned(), ..Row::new("growth", 1.0, "") };
    let missing = wanted.answer(&[other]).reason;
    assert!(missing.starts_with("not among these results"), "only this row: {missing}");
    let none = Claim { reason: "no such machine".to_owned(), ..claim(Test::None, 1.0, &[]) };
    assert_eq!(none.answer(&rows()).reason, "no such machine", "its own reason");
}

#[test]
fn answer_names_the_origin_of_its_rows() {
    let origin = claim(Test::Ratio, 2.0, &["a", "b"]).answer(&rows()).origin;
    assert_eq!((origin.commits, origin.machines), (vec!["1a".into()], vec!["a machine".into()]));
    assert_eq!(origin.time_s, 7, "the time of the last row");
}

/// Every figure and table that the report must answer has a row, and every row an answer.
#[test]
fn list_of_claims_is_complete() {
    let all = all();
    let ids: HashSet<&str> = all.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(ids.len(), all.len(), "a name for each");
    for number in 1..=37 {
        let id = format!("H{number}");
        let is_there =
            all.iter().any(|claim| claim.id == id || claim.id.starts_with(&format!("{id}.")));
        assert!(is_there, "{id} is missing");
    }
    let has = |paper: &str, place: &str| {
        all.iter()
            .any(|claim| claim.paper == paper && claim.place.split(", ").any(|each| each == place))
    };
    let places: [(&str, &str, &[u32]); 10] = [
        ("001", "figure", &[1, 3, 4, 5, 6]),
        ("001", "table", &[1, 2, 3]),
        ("000", "table", &[1, 2, 3]),
        ("000", "figure", &[1, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ("002", "table", &[5, 6, 7, 8, 9, 10, 11]),
        ("002", "figure", &[5, 6, 7, 8, 9, 10, 11]),
        ("003", "table", &[2, 4, 5]),
        ("003", "figure", &[4, 5, 6, 7, 8]),
        ("004", "figure", &[1, 6, 7, 8]),
        ("004", "table", &[1, 2]),
    ];
    for (paper, kind, numbers) in places {
        for number in numbers {
            assert!(has(paper, &format!("{kind} {number}")), "{paper} {kind} {number} is missing");
        }
    }
}

#[test]
fn every_claim_has_what_its_test_needs() {
    for claim in &all() {
        let id = &claim.id;
        let count = match claim.test {
            Test::None | Test::Contradiction => 0,
            Test::Value | Test::Cells | Test::Curve => 1,
            Test::Ratio | Test::Difference | Test::Order | Test::Within | Test::Spread => 2,
            Test::Factors | Test::Quotients => 4,
        };
        assert!(claim.rows.len() >= count, "{id}: {count} rows are needed");
        let is_answered = claim.test != Test::None || !claim.reason.is_empty();
        assert!(is_answered, "{id}: neither a test nor a reason");
        let has_pairs = matches!(claim.test, Test::Factors | Test::Ratio | Test::Quotients);
        let is_paired = !has_pairs || claim.rows.len().is_multiple_of(2);
        assert!(is_paired, "{id}: rows in pairs are needed");
        let needs_number = matches!(
            claim.test,
            Test::Value
                | Test::Ratio
                | Test::Quotients
                | Test::Difference
                | Test::Within
                | Test::Spread
        );
        assert!(!needs_number || claim.number.is_some(), "{id}: a number is needed");
        let is_table = claim.test == Test::Cells;
        assert_eq!(claim.numbers.len(), if is_table { claim.rows.len() } else { 0 }, "{id}");
        assert_eq!(claim.pieces.is_empty(), claim.test != Test::Curve, "{id}: pieces");
        let is_range = claim.upper.is_none_or(|upper| claim.number.is_some_and(|low| low < upper));
        assert!(is_range, "{id}: the lower end comes first");
    }
}

/// The rules for verdicts hold for the list: no tolerance above a tenth, no verdict on absolute
/// speeds, no quotation marks around words that are not in `quotes`.
#[test]
fn list_follows_the_rules_for_verdicts() {
    for claim in &all() {
        let id = &claim.id;
        let is_share = claim.number != Some(0.0) && claim.upper.is_none();
        let tolerance = claim.tolerance.unwrap_or(0.0);
        assert!(!is_share || tolerance <= 0.1, "{id}: a tolerance of {tolerance}");
        let is_absolute = matches!(claim.test, Test::Value | Test::Cells)
            && claim.rows.iter().any(|row| row.metric.ends_with("throughput"));
        assert!(!is_absolute, "{id}: an absolute speed has no verdict");
        for text in [&claim.says, &claim.reason, &claim.not_counted] {
            assert!(!text.contains('"'), "{id}: quotations belong into quotes: {text}");
        }
        let can_contradict = claim.test != Test::None
            && claim.test != Test::Contradiction
            && claim.not_counted.is_empty();
        let has_cause = claim.cause.is_some() || claim.stands_in;
        assert!(!can_contradict || has_cause, "{id}: a contradiction would have no cause");
    }
}

fn digest(paper: &str, quote: &str) -> String {
    let text = format!("{paper}:{}", squeezed(quote));
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// Every quotation was found in its paper when the list of digests was written.
#[test]
fn quotations_are_those_that_were_found() {
    let found: HashSet<&str> = QUOTATIONS.lines().collect();
    for claim in &all() {
        for quote in &claim.quotes {
            let is_found = found.contains(digest(&claim.paper, quote).as_str());
            assert!(is_found, "{}: not verified: {quote}", claim.id);
        }
    }
}

/// Every quotation stands word by word in the text of its paper, if there is one.
#[test]
fn quotations_stand_in_the_papers() {
    let Some(folder) = std::env::var_os("CUTPOINT_PAPERS") else {
        cutpoint_testing::skipped("CUTPOINT_PAPERS is not set: quotations were not looked for");
        return;
    };
    let files: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().collect();
    let text = |paper: &str| {
        let of_paper = |name: &str| name.starts_with(paper);
        let file = files.iter().find(|file| of_paper(&file.file_name().to_string_lossy()));
        let file = file.unwrap_or_else(|| panic!("{paper} is not in the folder"));
        squeezed(&fs::read_to_string(file.path()).expect("a text"))
    };
    let texts = ["000", "001", "002", "003", "004"].map(|paper| (paper, text(paper)));
    let mut digests = BTreeSet::new();
    for claim in &all() {
        let (_, text) = texts.iter().find(|(paper, _)| *paper == claim.paper).expect("a paper");
        for quote in &claim.quotes {
            assert!(text.contains(&squeezed(quote)), "{}: not in the text: {quote}", claim.id);
            digests.insert(digest(&claim.paper, quote));
        }
    }
    if std::env::var_os("CUTPOINT_WRITE_QUOTATIONS").is_some() {
        let list: String = digests.into_iter().map(|digest| digest + "\n").collect();
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/claims/quotations.txt");
        fs::write(place, list).expect("the list is written");
    }
}

#[test]
fn squeezed_text_has_no_marks() {
    let cases = [
        ("1.5\u{d7} and 2.8\u{d7} better [\\[17\\]](#page-6-15) than", "1.5xand2.8xbetter17than"),
        ("$15\\,\\%$ of", "15%of"),
        ("4000\u{2212}4250\n MB/s", "4000-4250MB/s"),
        ("Rabin\u{2019}s c\\_max", "Rabin'scmax"),
    ];
    for (text, expected) in cases {
        assert_eq!(squeezed(text), expected, "{text}");
    }
}
