//! The static programs, whose C parts Zig compiles.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf;
use super::release::{Release, Target, read};
use crate::platforms::is_installed;
use crate::{output, root, run, target as target_folder};

/// The features of the program in packages, beside the default ones.
pub(super) const FEATURES: &str = "bundled-roots";

/// The profile of the program in packages.
const PROFILE: &str = "dist";

/// The file that names the versions of the cross compiler.
const REQUIREMENTS: &str = "packaging/requirements.txt";

/// The flags by which C sources see no time of a build. Zig's cache and Cargo's target folder take an
/// object of an earlier commit for the present one, whatever time it has.
const NO_TIME: [&str; 3] =
    ["-Wno-builtin-macro-redefined", "-D__DATE__=\"none\"", "-D__TIME__=\"none\""];

/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Builds the program for `target` and returns it. Cargo builds only what has changed.
pub(super) fn program(release: &Release, target: &Target) -> Result<Vec<u8>, String> {
    let triple = target.triple;
    if !is_installed(triple)? {
        return Err(format!("{triple} is not installed: rustup target add {triple}"));
    }
    let mut command = zig_command(&["rustc", "--locked", "--profile", PROFILE])?;
    command.args(["--package", "cutpoint", "--bin", "cutpoint"]);
    command.args(["--features", FEATURES, "--target", triple]);
    // At an address that differs from run to run. cargo-zigbuild leaves out what rustc says about that.
    command.args(["--", "-Clink-arg=-pie"]);
    let folders = replaced_folders()?;
    let rust_flags: Vec<String> =
        folders.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let mut c_flags: Vec<String> =
        folders.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    c_flags.extend(NO_TIME.map(str::to_owned));
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join(SEPARATOR));
    command.env(format!("CFLAGS_{}", triple.replace('-', "_")), c_flags.join(" "));
    command.env("CUTPOINT_COMMIT", &release.commit).env("CARGO_INCREMENTAL", "0");
    run(command)?;
    let program = read(&path(target))?;
    elf::check(&program).map_err(|problem| format!("the program for {triple}: {problem}"))?;
    Ok(program)
}

/// Returns the folders of this machine whose names would be in the program, and the names that stand
/// there instead.
fn replaced_folders() -> Result<Vec<(String, &'static str)>, String> {
    let real = |path: &Path| {
        let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<String, String>(real.display().to_string())
    };
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    // The last one that fits counts, so that a target folder inside the workspace has its own name.
    Ok(vec![
        (real(&cargo_home.ok_or("neither CARGO_HOME nor HOME is set")?)?, "/cargo"),
        (real(Path::new(root()))?, "/cutpoint"),
        (real(&target_folder())?, "/cutpoint/target"),
    ])
}

/// Returns a command of cargo-zigbuild that finds Zig. Both are installed first if they are not there.
fn zig_command(words: &[&str]) -> Result<Command, String> {
    let tools = tools()?.join("bin");
    let mut command = Command::new(tools.join("cargo-zigbuild"));
    command.args(words).current_dir(root());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).map_err(|error| error.to_string())?);
    Ok(command)
}

/// Returns the folder with the cross compiler, a virtual environment of Python.
fn tools() -> Result<PathBuf, String> {
    let folder = target_folder().join("packaging-tools");
    let wanted = read(&Path::new(root()).join(REQUIREMENTS))?;
    let mark = folder.join("installed.txt");
    if read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    println!("xtask: installing the cross compiler of {REQUIREMENTS}");
    let mut python = Command::new("python3");
    python.args(["-m", "venv"]).arg(&folder);
    run(python)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"]);
    pip.arg(REQUIREMENTS).current_dir(root());
    run(pip)?;
    std::fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))?;
    Ok(folder)
}

/// Returns the version of Zig, whose musl is part of the programs.
pub(super) fn zig_version() -> Result<String, String> {
    let requirements = read(&Path::new(root()).join(REQUIREMENTS))?;
    let requirements = String::from_utf8_lossy(&requirements).into_owned();
    let line = requirements.lines().find_map(|line| line.strip_prefix("ziglang=="));
    let version = line.and_then(|line| line.split_whitespace().next()).map(str::to_owned);
    version.ok_or(format!("{REQUIREMENTS} does not name ziglang"))
}

/// Returns the licence of musl, which comes with Zig.
pub(super) fn musl_licence() -> Result<Vec<u8>, String> {
    let mut python = Command::new(tools()?.join("bin/python"));
    python.args(["-c", "import ziglang; print(ziglang.__path__[0])"]);
    let folder = String::from_utf8_lossy(&output(python)?).trim().to_owned();
    read(&Path::new(&folder).join("lib/libc/musl/COPYRIGHT"))
}

/// Returns the path of the program for `target`, which has been built.
pub(super) fn path(target: &Target) -> PathBuf {
    target_folder().join(target.triple).join(PROFILE).join("cutpoint")
}
