//! `cargo xtask torture` and `cargo xtask attacks`: the release build, attacked from the outside.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::{cargo, report, root, run as run_command, target};

/// The exit code of a script whose condition did not occur.
const NO_CONDITION: i32 = 77;

/// Builds the release binary, and returns its path.
fn build() -> Result<PathBuf, String> {
    run_command(cargo(&["build", "--release", "--quiet", "-p", "cutpoint"]))?;
    let program = target().join("release").join("cutpoint");
    fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))
}

/// Runs a storm with the options of `cutpoint-torture`.
pub(crate) fn torture(options: &[&str]) -> ExitCode {
    let result = build().and_then(|program| {
        let mut command =
            cargo(&["run", "--release", "--quiet", "-p", "cutpoint-torture", "--", "--program"]);
        command.arg(program).args(options);
        run_command(command)
    });
    report(result)
}

/// Runs each script of `testing/attacks` `runs` times.
pub(crate) fn run(runs: u32) -> ExitCode {
    report(build().and_then(|program| attack(&program, runs)))
}

fn attack(program: &PathBuf, runs: u32) -> Result<(), String> {
    let folder = PathBuf::from(root()).join("testing/attacks");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut scripts: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    scripts.retain(|script| script.extension().is_some_and(|extension| extension == "sh"));
    scripts.sort();
    println!("{:<24} {:>5} {:>5} {:>13}", "attack", "held", "fell", "no condition");
    let mut fallen = Vec::new();
    for script in scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (mut held, mut fell, mut without) = (0, 0, 0);
        for _ in 0..runs {
            let output = Command::new("bash")
                .arg(&script)
                .env("CUTPOINT", program)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("bash: {error}"))?;
            match output.status.code() {
                Some(0) => held += 1,
                Some(NO_CONDITION) => without += 1,
                _ => {
                    fell += 1;
                    eprint!("{}", String::from_utf8_lossy(&output.stdout));
                    eprint!("{}", String::from_utf8_lossy(&output.stderr));
                }
            }
        }
        println!("{name:<24} {held:>5} {fell:>5} {without:>13}");
        if fell > 0 {
            fallen.push(name);
        }
    }
    if fallen.is_empty() { Ok(()) } else { Err(format!("fell: {}", fallen.join(", "))) }
}
