//! `run` and `report`: their messages, files and failures. The measurements are tested in its crate.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::sandbox::Sandbox;

const DEFINITION: &str = r#"
name = "small"
question = "What?"
repeats = 1
[[dataset]]
name = "ONE"
path = "one"
[[algorithm]]
name = "SeqCDC"
paper = "seqcdc:paper={target}"
[[measure]]
kind = "cut"
datasets = ["ONE"]
algorithms = ["SeqCDC"]
targets = ["4k"]
selections = ["paper"]
"#;

fn with_definition(definition: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), definition).expect("written");
    fs::write(sandbox.path("one"), vec![7; 100_000]).expect("written");
    sandbox
}

#[test]
fn definition_is_measured_and_reported() {
    let sandbox = with_definition(DEFINITION);
    let events = sandbox.run(["run", "small.toml", "--json"]).well().events();
    let summary = events.last().expect("a summary");
    assert_eq!(
        (&summary["command"], &summary["cell_count"]),
        (&"run".into(), &1.into()),
        "{summary}"
    );
    assert_eq!(summary["row_count"], summary["new_row_count"], "all are new");
    for name in ["results.csv", "results.parquet", "definition.toml"] {
        assert!(sandbox.path("lab-small").join(name).exists(), "{name}");
    }
    let again = sandbox.run(["run", "small.toml"]).well();
    assert!(
        again.text().contains("1 cell of small") && again.text().contains("0 of them new"),
        "{}",
        again.text()
    );
    let events = sandbox
        .run(["report", "lab-small", "--html", "page.html", "--markdown", "page.md", "--json"])
        .well()
        .events();
    let summary = events.last().expect("a summary");
    assert!(summary["not_testable_count"].as_u64().is_some_and(|count| count > 100), "{summary}");
    let page = fs::read_to_string(sandbox.path("page.html")).expect("a page");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("Cutpoint lab: small"),
        "the page"
    );
    assert_eq!(summary["markdown"], "page.md", "{summary}");
    let text = fs::read_to_string(sandbox.path("page.md")).expect("a text");
    assert!(text.starts_with("# The papers, and what we find\n"), "{text}");
    assert!(text.contains("| ONE | 100000 | 1 | 1 | 0.00 |"), "the data set: {text}");
    let text = sandbox.run(["report", "lab-small/results.csv", "--html", "page.html"]).well();
    assert!(text.text().contains("not testable here"), "of the file alone: {}", text.text());
}

#[test]
fn failures_come_with_a_remedy() {
    let sandbox = with_definition(&DEFINITION.replace("kind = \"cut\"", "kind = \"cuts\""));
    sandbox.run(["run", "small.toml"]).ended(2, &["small.toml: line 12:", "cuts"]);
    sandbox.run(["run", "none.toml"]).ended(2, &["none.toml", "not found"]);
    sandbox.run(["report", "none", "--html", "x.html"]).ended(2, &["none", "not found"]);
    let sandbox = with_definition(&DEFINITION.replace("\"one\"", "\"two\""));
    sandbox.run(["run", "small.toml"]).ended(2, &["two: not found", "--data", "optional = true"]);
    let sandbox = with_definition(DEFINITION);
    fs::write(sandbox.path("one"), b"").expect("emptied");
    sandbox.run(["run", "small.toml"]).ended(2, &["data set ONE: empty; build"]);
    fs::write(sandbox.path("one"), b"x").expect("one byte");
    sandbox.run(["run", "small.toml"]).well();
    let page = sandbox.path("no/such/folder/page.html").display().to_string();
    sandbox.run(["report", "lab-small", "--html", &page]).ended(2, &["page.html: not found"]);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported() {
    let sandbox = with_definition(DEFINITION);
    sandbox.run(["run", "small.toml"]).well();
    std::os::unix::fs::symlink("/dev/full", sandbox.path("page.html.new")).expect("a link");
    sandbox
        .run(["report", "lab-small", "--html", "page.html"])
        .ended(14, &["page.html: No space left"]);
    assert!(!sandbox.path("page.html").exists(), "no half of a page");
}

#[test]
fn ctrl_c_keeps_completed_cells() {
    let long = DEFINITION
        .replace("path = \"one\"", "made = \"random\"\nsize = \"24M\"")
        .replace("[\"4k\"]", "[\"4k\", \"8k\", \"16k\"]")
        + "[[measure]]\nkind = \"throughput\"\ndatasets = [\"ONE\"]\nalgorithms = [\"SeqCDC\"]\ntargets = [\"4k\"]\nselections = [\"paper\"]\nlevels = \"all\"\n";
    let sandbox = with_definition(&long.replace("repeats = 1", "repeats = 100000"));
    let child = sandbox
        .command(["run", "small.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let csv = sandbox.path("lab-small/results.csv");
    // Three cells are complete, and the fourth one would take a day.
    while fs::read_to_string(&csv).unwrap_or_default().matches(",elapsed,").count() < 4 {
        sleep(Duration::from_millis(50));
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("told");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("the same command continues from there"), "{error}");
    assert!(sandbox.path("lab-small/results.parquet").exists(), "in Parquet, too");
    sandbox.run(["report", "lab-small", "--html", "page.html"]).well();
}
