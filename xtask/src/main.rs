//! The commands of the workspace.
//!
//! - `cargo xtask check`: everything that must hold before a change lands, in one command; with
//!   `--services`, the tests that need a server.
//! - `cargo xtask advisories`: known vulnerabilities of dependencies.
//! - `cargo xtask release-check`: both of these, and all platforms.
//! - `cargo xtask guide`: the output in README.md and the pages of book/, compared or written.
//! - `cargo xtask book`: the book for users, below the target directory.
//! - `cargo xtask sizes`: functions and files that are too large.
//! - `cargo xtask instructions`: the instructions of the kernels in the assembly.
//! - `cargo xtask platforms`: the program, compiled for platforms on which it is not tested.
//! - `cargo xtask package`: the files of a release.
//! - `cargo xtask oracle`: our cut-points compared with those of third-party programs.
//! - `cargo xtask torture` and `cargo xtask attacks`: the release build under attack.
#![forbid(unsafe_code)]

mod advisories;
mod attacks;
mod book;
mod documentation;
mod figures;
mod instructions;
mod layers;
mod licences;
mod memory_folder;
mod oracle;
mod package;
mod platforms;
mod prose;
mod sizes;
mod test_run;
mod texts;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use memory_folder::MemoryFolder;

/// The help text, which is printed for unknown commands.
const USAGE: &str = "\
usage: cargo xtask check [--quick | --long | --services | --platforms]
       cargo xtask advisories
       cargo xtask release-check
       cargo xtask guide [--write]
       cargo xtask book
       cargo xtask figures
       cargo xtask instructions
       cargo xtask layers
       cargo xtask prose
       cargo xtask sizes
       cargo xtask platforms
       cargo xtask package [KIND] [--target TRIPLE] [--allow-changes]
       cargo xtask package sign KEY
       cargo xtask oracle [DIR]
       cargo xtask torture [--seed N] [--seconds N] [--storm-seconds N] [--s3]
       cargo xtask attacks [RUNS]

check    formatting, texts, figures, prose, layers, sizes, licences and sources of dependencies, scripts,
         tests, lints (by the compiler of clippy, which builds the tests), other targets (those whose standard
         library is installed), instructions of the kernels (their assembly, on x86-64), documentation,
         builders of data sets (with Python); ends with 1 and the name of the step that failed
--quick  only what needs no building: formatting to scripts (with ruff, if it is there)
--long   with 10^5 instead of 400 random interleavings, and 40,000 instead of 2000 chunks for each mean
         size, and the small cases of research/scale, with Python and its packages (about half an
         hour more)
--services  only the tests that need a server, a terminal or a file system of their own: OpenSSH,
         rclone, Azurite, fake-gcs-server, FUSE. A missing one is a failure; check names these tests
         as skipped

advisories     known vulnerabilities of dependencies, by cargo-deny; not a step of check, for the
               database changes without us. Fails where cargo-deny or its database cannot be had
release-check  check, platforms (all of them), the small cases of research/scale, and advisories: what
               must hold before a release
documentation, figures, instructions, layers, prose  that step of check alone; figures compares the
               measured figures of the book with the results pages that they name
sizes          that step of check alone: functions over 80 lines or with more than six parameters, and
               files over 600 lines of code, but for tables with `// sizes: table, REASON` above

guide    runs the commands of README.md and of the pages of book/, and compares what they print with the
         pages (some of the tests of check); with --write, writes it into the pages

book     puts the pages of the book together below the target directory, with those of commands and with
         charts, checks their links (a step of check), and builds the book if mdbook is there

platforms  cargo check for the platforms whose standard library is installed, also `check --platforms`: of
           the program for FreeBSD (x86_64-unknown-freebsd) and macOS (aarch64-apple-darwin), and of the
           libraries below it for Windows (x86_64-pc-windows-gnu). The C code of libraries is left out.
           Nothing is linked or run. Not a step of check: each platform takes about a minute

package  makes the files of a release in target/package, or those of one KIND: binary, tar, deb, rpm, sbom
         for each target; oci, source, formula, sums once. They contain no times and paths of the
         machine. Needs Python, which installs Zig, and the standard libraries of the targets (rustup).
         sign makes SHA256SUMS.sig with a key of OpenSSH. packaging/README.md has the rest

oracle   makes the inputs of others' cut-point lists, checks their sums, and cuts them as each list
         below DIR (vectors/oracle) says; ends with 1 if one differs. Quicker with `cargo run
         --release --package xtask -- oracle`

torture  runs processes of several machines on one repository, kills and suspends some, shifts their
         clocks by up to 40 days; with --s3 behind a proxy that lies; ends with 1 if a finished
         snapshot does not restore equal or a command hangs. Release build

attacks  runs each script of testing/attacks RUNS times (1) against the release build; ends with 1
         if one fell";

type Step = (&'static str, fn() -> Result<(), String>);

/// What is looked at without building the workspace.
const QUICK_STEPS: [Step; 8] = [
    ("formatting", formatting),
    ("texts", texts::check),
    FIGURES,
    PROSE,
    LAYERS,
    SIZES,
    ("licences and sources", licences::check),
    ("scripts", scripts),
];

/// The steps that build or run something. The tests run beside them.
const SLOW_STEPS: [Step; 8] = [
    BOOK,
    ("lints with fewer features", lints),
    ("other targets", other_targets),
    INSTRUCTIONS,
    DOCUMENTATION,
    ("data sets", data_sets),
    ("suite of cut-points", suite),
    ("benchmark", benchmark),
];

/// A step of long checks, behind the others.
const SCALE: Step = ("scale", scale);

/// The exit code of a script that could not run.
const SKIPPED: i32 = 77;

const FIGURES: Step = ("figures", figures::check);

const PROSE: Step = ("prose", prose::check);

const DOCUMENTATION: Step = ("documentation and its examples", documentation::check);

const SIZES: Step = ("sizes", sizes::check);

const LAYERS: Step = ("layers", layers::check);

const SERVICES: Step = ("services", test_run::services);

const BOOK: Step = ("book", book::check);

const BOOK_BUILT: Step = ("book, built", book::build);

const GUIDE: Step = ("guide", compare_guide);

const GUIDE_WRITTEN: Step = ("guide, written", write_guide);

const PLATFORMS: Step = ("platforms", platforms::check);

const ALL_PLATFORMS: Step = ("platforms", platforms::check_all);

const ADVISORIES: Step = ("advisories", advisories::check);

const INSTRUCTIONS: Step = ("instructions", instructions::check);

/// The targets for which the chunking crate must build, besides that of the machine. One of them
/// has another byte order.
const OTHER_TARGETS: [&str; 2] = ["aarch64-unknown-linux-gnu", "s390x-unknown-linux-gnu"];

fn main() -> ExitCode {
    if let Some(code) = documentation::run_as_rustdoc() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let steps = match words[..] {
        ["check"] => return report(perform_all(false, &[])),
        ["check", "--long"] => return report(perform_all(true, &[SCALE])),
        ["check", "--quick"] => QUICK_STEPS.to_vec(),
        ["check", "--services"] => vec![SERVICES],
        ["platforms"] | ["check", "--platforms"] => vec![PLATFORMS],
        ["advisories"] => vec![ADVISORIES],
        ["release-check"] => {
            let others = [ALL_PLATFORMS, SCALE];
            return report(perform(&[ADVISORIES]).and_then(|()| perform_all(false, &others)));
        }
        ["book"] => vec![BOOK_BUILT],
        ["guide"] => vec![GUIDE],
        ["guide", "--write"] => vec![GUIDE_WRITTEN],
        ["documentation"] => vec![DOCUMENTATION],
        ["figures"] => vec![FIGURES],
        ["instructions"] => vec![INSTRUCTIONS],
        ["layers"] => vec![LAYERS],
        ["prose"] => vec![PROSE],
        ["sizes"] => vec![SIZES],
        ["package", ..] => {
            return report(timed("package", || package::run(&words[1..])));
        }
        ["oracle"] => return oracle::run(Path::new(&format!("{}/vectors/oracle", root()))),
        ["oracle", folder] => return oracle::run(Path::new(folder)),
        ["torture", ..] => return attacks::torture(&words[1..]),
        ["attacks"] => return attacks::run(1),
        ["attacks", runs] if runs.parse().is_ok_and(|runs: u32| runs > 0) => {
            return attacks::run(runs.parse().unwrap_or(1));
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    report(perform(&steps))
}

/// Performs everything that must hold before a change lands, and `others` behind it. The tests are
/// built first and run beside the other steps, because many of them wait, and because the compiler
/// does not always use all processors.
fn perform_all(is_long: bool, others: &[Step]) -> Result<(), String> {
    perform(&QUICK_STEPS)?;
    let tests = timed("building of tests", || test_run::start(is_long))?;
    let steps = perform(&SLOW_STEPS).and_then(|()| perform(others));
    // The output of the tests is complete in any case.
    let tests = timed("tests", || tests.finish());
    steps.and(tests)
}

fn perform(steps: &[Step]) -> Result<(), String> {
    steps.iter().try_for_each(|(name, step)| timed(name, step))
}

/// Performs a step, and prints its result and duration. An error names the step.
fn timed<T>(name: &str, step: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    println!("xtask: {name} ...");
    let began = Instant::now();
    let result = step();
    let elapsed_s = began.elapsed().as_secs();
    if result.is_ok() {
        println!("xtask: {name}: well, {elapsed_s} s");
    }
    result.map_err(|message| format!("{name}: FAILED after {elapsed_s} s: {message}"))
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a command of cargo in the folder of the workspace.
fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(words).current_dir(root());
    command
}

/// Returns a command of cargo that builds the workspace by clippy's compiler, which emits the lints
/// of clippy while it builds, so that the sources are not analysed a second time for them. What it
/// builds is optimized a little less, and has no debug information, which takes a sixth of the time
/// of building. Artifacts of this and of the usual compiler are kept apart.
fn linting_cargo(words: &[&str]) -> Command {
    let mut command = cargo(words);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

/// Returns the folder of the workspace.
fn root() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..")
}

/// Returns the folder of what cargo builds.
fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    chosen.unwrap_or_else(|| Path::new(root()).join("target"))
}

fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn output(mut command: Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {errors}", output.status))
}

fn formatting() -> Result<(), String> {
    run(cargo(&["fmt", "--all", "--check"]))
}

/// Checks the lints of the chunking crate with fewer features than the tests enable. The building
/// of tests checks all other lints.
fn lints() -> Result<(), String> {
    for features in [&["--no-default-features"][..], &[]] {
        let words = ["clippy", "--quiet", "-p", "cutpoint-chunking"];
        run(cargo(&[&words, features, &["--", "-D", "warnings"]].concat()))?;
    }
    Ok(())
}

/// Checks that the chunking crate builds for all targets, without features and with all features.
fn other_targets() -> Result<(), String> {
    for target in OTHER_TARGETS {
        if !platforms::is_installed(target)? {
            println!("xtask: {target} is not installed (rustup target add): it was not checked");
            continue;
        }
        for features in ["--no-default-features", "--all-features"] {
            let words = ["check", "--quiet", "-p", "cutpoint-chunking", "--target", target];
            run(cargo(&[&words, &[features][..]].concat()))?;
        }
        println!("xtask: the chunking crate builds for {target}");
    }
    Ok(())
}

/// Tests the builders of data sets that need neither a network nor a server, which takes some
/// seconds.
fn data_sets() -> Result<(), String> {
    let test = &["research/datasets/test_build.py"][..];
    run_scripts(&[test], "the builders of data sets were not tested")
}

/// Tests the programs with which others compare their implementations with `vectors/`.
fn suite() -> Result<(), String> {
    let test = &["vectors/suite/test_suite.py"][..];
    run_scripts(&[test], "the suite of cut-points was not tested")
}

/// Tests the pages of the benchmark, and compares its charts and the table of README.md with its page.
fn benchmark() -> Result<(), String> {
    let scripts = [&["research/bench/test_tool.py"][..], &["research/bench/tool", "check"]];
    run_scripts(&scripts, "the benchmark's page was not checked")
}

/// Runs Python scripts, each with its arguments, or says what is `skipped` without Python.
fn run_scripts(scripts: &[&[&str]], skipped: &str) -> Result<(), String> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("xtask: SKIPPED: python3 is not there: {skipped}");
        return Ok(());
    }
    for words in scripts {
        let mut command = Command::new("python3");
        command.arg("-B").args(*words).current_dir(root());
        run(command)?;
    }
    Ok(())
}

/// Runs the small cases of `research/scale` with the programs that were built with the tests.
fn scale() -> Result<(), String> {
    let programs = target().join("debug");
    let mut command = Command::new("python3");
    command.args(["-B", "research/scale/run.py", "--small", "--cutpoint"]);
    command.arg(programs.join("cutpoint")).arg("--proxy").arg(programs.join("cutpoint-scale"));
    let _memory = MemoryFolder::for_command(&mut command);
    let status = command.current_dir(root()).status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => Ok(()),
        Ok(Some(SKIPPED)) => {
            println!("xtask: SKIPPED: the small cases of research/scale were not run");
            Ok(())
        }
        Ok(_) => Err("a limit of research/scale is broken".to_owned()),
        Err(error) => {
            println!("xtask: SKIPPED: python3: {error}: research/scale was not run");
            Ok(())
        }
    }
}

/// Checks the form of the Python scripts, if ruff can be had.
fn scripts() -> Result<(), String> {
    let mut command = Command::new("ruff");
    if command.arg("--version").output().is_err() {
        println!("xtask: SKIPPED: ruff is not there: the Python scripts were not checked");
        return Ok(());
    }
    for words in [["check", "--quiet"], ["format", "--check"]] {
        let mut command = Command::new("ruff");
        command.args(words).args(["--no-cache", "--config", "research/ruff.toml"]);
        command.args(["research", "vectors/suite", "packaging"]).current_dir(root());
        run(command)?;
    }
    Ok(())
}

/// Returns the command that runs the test of the pages for users.
fn guide() -> Command {
    cargo(&["test", "--quiet", "-p", "cutpoint", "--test", "cli", "guide::"])
}

/// Compares the pages for users with the output of the program.
fn compare_guide() -> Result<(), String> {
    run(guide())
}

/// Writes the output of the program into the pages for users.
fn write_guide() -> Result<(), String> {
    let mut command = guide();
    command.env("CUTPOINT_WRITE_GUIDE", "1");
    run(command)
}
