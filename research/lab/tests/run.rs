//! Runs of small definitions, from the file to the page.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cutpoint_lab::claims::Test;
use cutpoint_lab::{Definition, LabError, Results, Row, Run, Setting, report};

fn definitions() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../research/runs"))
}

fn setting() -> Setting {
    Setting { machine: "a machine".to_owned(), commit: "a commit".to_owned() }
}

/// Runs `text` over the data sets below `folder` into `out`.
fn run(text: &str, folder: &Path, out: &Path) -> Result<Vec<String>, LabError> {
    let definition = Definition::parse(text, "x.toml")?;
    let mut results = Results::open(out)?;
    Run::new(&definition, folder, setting()).measure(&mut results, &|| true, &mut |_| {})
}

fn rows(out: &Path) -> Vec<Row> {
    Results::read(out).expect("results").rows().to_vec()
}

/// A definition with one generated data set, one algorithm and one measure.
const SMALL: &str = r#"
name = "small"
question = "?"
repeats = 2
[[dataset]]
name = "RAND"
made = "random"
size = "64k"
[[algorithm]]
name = "SeqCDC"
paper = "seqcdc:paper={target}"
equal = "seqcdc:avg={target}"
[[algorithm]]
name = "Fixed"
paper = "fixed:size={target}"
[[measure]]
kind = "cut"
datasets = ["RAND"]
algorithms = ["SeqCDC", "Fixed"]
targets = ["4k"]
selections = ["paper"]
"#;

/// The whole lab on a minimal definition: every kind of measurement gives rows, a second run gives
/// none, and the page has all rows.
#[test]
fn smallest_run_measures_every_kind_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let text = fs::read_to_string(definitions().join("smallest.toml")).expect("the definition");
    run(&text, folder.path(), &out).expect("a run");
    let first = rows(&out);
    let measures: BTreeSet<&str> = first.iter().map(|row| row.measure.as_str()).collect();
    let expected = [
        "burst",
        "bursts",
        "cut",
        "data",
        "fingerprint",
        "growth",
        "low-entropy",
        "pipeline",
        "search",
        "shift",
        "throughput",
    ];
    assert_eq!(measures.into_iter().collect::<Vec<_>>(), expected, "kinds");
    let find = |measure: &str, metric: &str, algorithm: &str| {
        first.iter().find(|row| {
            row.measure == measure && row.metric == metric && row.algorithm == algorithm
        })
    };
    let fixed = find("cut", "mean", "Fixed").expect("a mean");
    assert_eq!((fixed.value, fixed.target), (4096.0, 4096), "the mean of one size");
    let savings = first.iter().find(|row| {
        row.metric == "space_savings"
            && row.data == "BA"
            && row.algorithm == "Fixed"
            && row.target == 4096
    });
    // Three versions of 32 blocks, of which a quarter change: 48 of 96 blocks are stored.
    assert_eq!(savings.map(|row| row.value), Some(50.0), "what Backup-Artificial saves");
    let growth = find("growth", "growth", "legacy").expect("a curve");
    assert_eq!(growth.numbers()[0], 1.0, "one version");
    assert!((growth.value - 2.0).abs() < 1e-9, "legacy after three versions: {}", growth.value);
    let plain = |name: &str| {
        first.iter().find(|row| {
            row.metric == "same_chunks" && row.algorithm == name && row.level == "plain"
        })
    };
    for name in ["SeqCDC", "AE", "RAM", "Fixed"] {
        assert_eq!(plain(name).map(|row| row.value), Some(1.0), "{name} as its paper states it");
    }
    let speed = first
        .iter()
        .find(|row| row.metric == "wall_throughput" && row.algorithm == "AE")
        .expect("a speed");
    assert!(
        speed.count == 2
            && speed.lower_quartile <= speed.value
            && speed.value <= speed.upper_quartile,
        "{speed:?}"
    );
    assert!(
        first.iter().all(|row| row.machine == "a machine"
            && row.commit == "a commit"
            && row.data_hash.len() == 16),
        "signed"
    );
    assert!(
        first.iter().all(|row| row.note.is_empty() || !row.note.contains("a bug")),
        "levels agree"
    );

    run(&text, folder.path(), &out).expect("a second run");
    assert_eq!(rows(&out).len(), first.len(), "nothing is measured again");

    assert_reported(&Results::read(&out).expect("results"));
}

/// Checks the page and the text of the smallest run.
fn assert_reported(results: &Results) {
    let page = report::html(results).expect("a page");
    assert!(!page.contains("{{") || !page.contains("}}"), "every place is filled");
    assert!(!page.contains("http://") || page.matches("src=").count() == 0, "nothing is loaded");
    assert!(page.contains("Does the whole lab still run"), "the question");

    let text = report::markdown(results, report::Which::All);
    let lines = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(lines("# "), 1, "one title");
    assert_eq!(lines("## "), 3 + 5 + 1, "sets, frontier, verdicts, five papers, contradictions");
    assert_eq!(lines("| RAND | 1048576 | 1 | 1 | 8.00 |"), 1, "a data set");
    assert_eq!(lines("| all | "), 1, "counts");
    let claims = cutpoint_lab::claims::all();
    let begin_of = |id: &str| format!("| {} |", id.replace('*', "\\*"));
    for claim in &claims {
        assert_eq!(lines(&begin_of(&claim.id)), 1, "{} has a row", claim.id);
    }
    let with_rows = report::markdown(results, report::Which::WithRows);
    let has_line = |id: &str| with_rows.contains(&begin_of(id));
    let (found, missing): (Vec<_>, Vec<_>) = claims.iter().partition(|it| has_line(&it.id));
    assert!(!found.is_empty() && !missing.is_empty(), "some claims have rows");
    for claim in claims.iter().filter(|claim| claim.test != Test::Contradiction) {
        let answer = claim.answer(results.rows());
        let is_there = !answer.lacks_rows && !claim.rows.is_empty();
        assert_eq!(has_line(&claim.id), is_there, "{}", claim.id);
    }
    let shaped = text.lines().filter(|line| line.starts_with("| H1.1 |"));
    assert!(shaped.clone().all(|line| line.matches(" | ").count() == 5), "six cells: {shaped:?}");
}

#[test]
fn definition_of_the_papers_is_valid() {
    let definition = Definition::read(&definitions().join("papers.toml")).expect("it is right");
    let named = |name: &str| definition.algorithms.iter().find(|part| part.name.get_ref() == name);
    // Every row that a claim selects is measured.
    for claim in cutpoint_lab::claims::all() {
        for selector in &claim.rows {
            let measure = selector.measure.as_deref().unwrap_or("");
            // Rows about data sets are always there, and those of scripts are not in a definition.
            if ["data", "counters", "backup", "volume"].contains(&measure) {
                continue;
            }
            let algorithm = selector.algorithm.as_deref().unwrap_or("");
            let data = selector.data.as_deref().unwrap_or("");
            let is_measured = definition.measures.iter().any(|part| {
                let names = |list: &[cutpoint_lab::Text], name: &str| {
                    list.iter().any(|each| each.get_ref() == name)
                };
                let targets = part.targets.iter().map(|text| text.get_ref().to_lowercase());
                let target = selector.target.unwrap_or(0);
                let is_target = targets.into_iter().any(|text| {
                    text == target.to_string()
                        || text == format!("{}k", target / 1024) && target % 1024 == 0
                });
                // Variants of BURST and names of hashes are not in the definition.
                let selection = selector.selection.as_deref().unwrap_or("paper");
                let is_fresh = selector.variant.as_deref() == Some("fresh");
                let is_chosen = named(algorithm).is_none_or(|found| {
                    let form = if selection == "paper" { &found.paper } else { &found.equal };
                    (form.is_some() || selection == "paper" && !found.specs.is_empty())
                        && names(&part.algorithms, algorithm)
                        && names(&part.selections, selection)
                });
                part.kind.get_ref().name() == measure
                    && names(&part.datasets, data)
                    && is_target
                    && is_chosen
                    && (measure != "throughput" || is_fresh == part.fresh.is_some())
            });
            assert!(is_measured, "{}: nothing measures {selector:?}", claim.id);
        }
    }
}

#[test]
fn interrupted_run_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let definition = Definition::parse(SMALL, "x.toml").expect("a definition");
    let mut results = Results::open(&out).expect("results");
    let begun = Cell::new(0);
    let outcome = Run::new(&definition, folder.path(), setting()).measure(
        &mut results,
        &|| begun.get() < 3,
        &mut |_| begun.set(begun.get() + 1),
    );
    assert!(matches!(outcome, Err(LabError::Interrupted)), "{outcome:?}");
    let first = rows(&out);
    assert!(
        first.iter().any(|row| row.algorithm == "SeqCDC")
            && !first.iter().any(|row| row.algorithm == "Fixed"),
        "one cell"
    );
    assert!(out.join("results.parquet").exists(), "what there is, in Parquet");

    // The machine stops while a cell is being written.
    let csv = out.join("results.csv");
    let mut text = fs::read_to_string(&csv).expect("rows");
    let line = text
        .lines()
        .last()
        .expect("a row")
        .replacen("cut/", "cut/torn/", 1)
        .replace(",elapsed,", ",mean,");
    text += &format!("{line}\n{}", &line[..20]);
    fs::write(&csv, text).expect("a torn file");
    run(SMALL, folder.path(), &out).expect("it goes on");
    let all = rows(&out);
    assert!(all.iter().any(|row| row.algorithm == "Fixed"), "the rest");
    assert!(!all.iter().any(|row| row.cell.contains("torn")), "what was torn is gone");
    assert_eq!(
        all.iter().filter(|row| row.algorithm == "SeqCDC" && row.metric == "mean").count(),
        1,
        "once"
    );
}

/// The parameters that a cut found are those of a later race, in another process, too.
#[test]
fn parameters_of_an_earlier_run_are_not_searched_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let cut = SMALL
        .replace("[\"SeqCDC\", \"Fixed\"]", "[\"SeqCDC\"]")
        .replace("selections = [\"paper\"]", "selections = [\"equal\"]");
    run(&cut, folder.path(), &out).expect("it measures");
    let csv = out.join("results.csv");
    let text = fs::read_to_string(&csv).expect("rows");
    let found = rows(&out).iter().find(|row| row.metric == "mean").expect("a row").spec.clone();
    // No search would find this one.
    let marked = "seqcdc:mode=dec,length=9,trigger=9,skip=9,min=99,max=999";
    fs::write(&csv, text.replace(&found, marked)).expect("changed rows");
    let race = "[[measure]]\nkind = \"throughput\"\ndatasets = [\"RAND\"]\nalgorithms = [\"SeqCDC\"]\n\
                targets = [\"4k\"]\nselections = [\"equal\"]\n";
    run(&format!("{cut}{race}"), folder.path(), &out).expect("it goes on");
    let raced = rows(&out).into_iter().find(|row| row.measure == "throughput");
    assert_eq!(raced.expect("a row").spec, marked);
}

/// A rule that is adjusted to another one has its mean on the data set, and `{size}` stays the target.
#[test]
fn equal_mean_can_be_that_of_another_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let text = SMALL
        .replace("size = \"64k\"", "size = \"1M\"")
        .replace(
            "paper = \"seqcdc:paper={target}\"\nequal = \"seqcdc:avg={target}\"",
            "equal = \"ae:paper-zhang-opt2={target},lest={size/8}\"\nmean_of = \"fixed:size={target*2}\"",
        )
        .replace("selections = [\"paper\"]", "selections = [\"equal\"]");
    run(&text, folder.path(), &out).expect("it measures");
    let rows = rows(&out);
    let mean = rows.iter().find(|row| row.metric == "mean").expect("a mean");
    assert!((mean.value / 8192.0 - 1.0).abs() < 0.02, "twice the target: {}", mean.value);
    assert!(mean.spec.ends_with("lest=512"), "an eighth of the target: {}", mean.spec);
    assert_eq!(mean.target, 4096, "the target of the row");
    let wrong = text.replace("fixed:size={target*2}", "fixed:sise={target*2}");
    let error = Definition::parse(&wrong, "x.toml").expect_err("a wrong form").to_string();
    assert!(error.contains("sise"), "{error}");
}

#[test]
fn error_in_a_definition_is_named_with_its_line() {
    for (wrong, right, line, message) in [
        ("question = ?", "question = \"?\"", 3, ""),
        ("repeats = 0", "repeats = 2", 4, "expected 1 or more"),
        ("made = \"randon\"", "made = \"random\"", 7, "expected one of random, text"),
        ("size = \"64q\"", "size = \"64k\"", 8, "is not a size"),
        ("paper = \"seqcdc:papr={target}\"", "paper = \"seqcdc:paper={target}\"", 11, "papr"),
        (
            "paper = \"seqcdc:paper={target+1}\"",
            "paper = \"seqcdc:paper={target}\"",
            11,
            "{target*N}",
        ),
        ("kind = \"cutt\"", "kind = \"cut\"", 17, "unknown variant"),
        ("datasets = [\"RAN\"]", "datasets = [\"RAND\"]", 18, "expected one of RAND"),
        (
            "algorithms = [\"Seq\"]",
            "algorithms = [\"SeqCDC\", \"Fixed\"]",
            19,
            "expected one of SeqCDC, Fixed",
        ),
        ("selections = [\"papers\"]", "selections = [\"paper\"]", 21, "expected paper, equal"),
        ("tragets = [\"4k\"]", "targets = [\"4k\"]", 20, "unknown field"),
    ] {
        assert!(SMALL.contains(right), "{right}");
        let error = Definition::parse(&SMALL.replacen(right, wrong, 1), "x.toml")
            .expect_err(wrong)
            .to_string();
        assert!(error.starts_with(&format!("x.toml: line {line}: ")), "{wrong}: {error}");
        assert!(error.contains(message), "{wrong}: {error}");
    }
    let empty = Definition::parse("", "x.toml").expect_err("empty").to_string();
    assert!(empty.contains("missing field"), "{empty}");
    assert!(
        matches!(Definition::read(Path::new("there/is/none.toml")), Err(LabError::File { .. })),
        "no file"
    );
}

#[test]
fn missing_or_empty_data_set_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let of_path = |path: &str| SMALL.replace("made = \"random\"", &format!("path = {path:?}"));
    let outcome =
        |path: &str| run(&of_path(path), folder.path(), &folder.path().join("results")).map(|_| ());
    let missing = outcome("MISSING").expect_err("no folder").to_string();
    assert!(missing.contains("MISSING") && missing.contains("No such file"), "{missing}");
    fs::create_dir(folder.path().join("EMPTY")).expect("a folder");
    let empty = outcome("EMPTY").expect_err("nothing in it").to_string();
    assert!(empty.contains("data set RAND: empty; build"), "{empty}");
    fs::write(folder.path().join("zero"), b"").expect("a file");
    assert!(outcome("zero").is_err(), "an empty file");
    fs::write(folder.path().join("one"), b"x").expect("a file");
    outcome("one").expect("one byte can be cut");
    let all = rows(&folder.path().join("results"));
    let mean =
        all.iter().find(|row| row.metric == "mean" && row.algorithm == "SeqCDC").expect("a mean");
    assert_eq!((mean.value, mean.input_bytes), (1.0, 1), "one chunk of one byte");
    let optional = of_path("MISSING").replace("size = \"64k\"", "optional = true");
    let left_out =
        run(&optional, folder.path(), &folder.path().join("other")).expect("it is left out");
    assert_eq!(left_out, ["RAND"], "and named");
}

/// Every kind of measurement works on a single byte.
#[test]
fn one_byte_is_enough_for_every_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("one"), b"x").expect("a file");
    let text = fs::read_to_string(definitions().join("smallest.toml")).expect("the definition");
    let text = text
        .replace("made = \"random\"", "path = \"one\"")
        .replace("made = \"low-entropy\"", "path = \"one\"")
        .replace("made = \"backup-artificial\"", "path = \"one\"");
    run(&text, folder.path(), &folder.path().join("results")).expect("a run");
    let all = rows(&folder.path().join("results"));
    report::html(&Results::read(&folder.path().join("results")).expect("results")).expect("a page");
    assert!(
        all.iter().any(|row| row.measure == "shift")
            && all.iter().any(|row| row.measure == "bursts"),
        "all kinds"
    );
}

#[test]
fn versions_and_files_are_taken_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in
        [("v02/b", "two"), ("v01/x/a", "one"), ("v01/z", "1"), ("v10/c", "ten"), ("other/d", "no")]
    {
        let path = folder.path().join("SET").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, bytes).expect("a file");
    }
    let load = |more: &str| {
        let text =
            SMALL.replace("made = \"random\"", "path = \"SET\"").replace("size = \"64k\"", more);
        let definition = Definition::parse(&text, "x.toml").expect("a definition");
        cutpoint_lab::data::DataSet::load(&definition.data[0], folder.path(), &|| true)
            .expect("a set")
    };
    let all = load("");
    let streams: Vec<&[u8]> = all.streams().collect();
    assert_eq!(streams, [&b"one"[..], b"1", b"two", b"ten"], "in order");
    assert_eq!(all.versions.len(), 3, "versions");
    assert_eq!(
        load("versions = 1\njoin = true").streams().collect::<Vec<_>>(),
        [b"one1"],
        "one version, joined"
    );
    assert_eq!(
        load("size = \"2\"").streams().collect::<Vec<_>>(),
        [&b"on"[..], b"tw", b"te"],
        "so much of each"
    );
    assert_ne!(all.hash, load("versions = 2").hash, "another content has another hash");
}

#[test]
fn file_without_results_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("results.csv"), "a,b\n1,2\n").expect("a file");
    for outcome in [Results::open(folder.path()), Results::read(folder.path())] {
        let error = outcome.expect_err("no rows").to_string();
        assert!(error.contains("not a file of rows") && error.contains("move it away"), "{error}");
    }
    assert!(
        matches!(Results::read(&folder.path().join("nowhere")), Err(LabError::File { .. })),
        "no file"
    );
    let new = folder.path().join("new");
    Results::open(&new).expect("a new folder");
    let error = Results::read(&new).expect_err("not a row").to_string();
    assert!(error.contains("has no rows yet"), "{error}");
}

/// A full disk, simulated by the device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    Results::open(&out).expect("results");
    let csv = out.join("results.csv");
    let definition = Definition::parse(SMALL, "x.toml").expect("a definition");
    let mut results = Results::open(&out).expect("results");
    fs::remove_file(&csv).expect("it is there");
    std::os::unix::fs::symlink("/dev/full", &csv).expect("a link");
    let error = Run::new(&definition, folder.path(), setting())
        .measure(&mut results, &|| true, &mut |_| {})
        .expect_err("full");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(error.to_string().contains("results.csv"), "{error}");
}
