//! Wrong clocks, made by a library that is preloaded into a process.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cutpoint_testing::{SplitMix64, skipped};

/// The maximum shift of a clock in either direction, in days.
const SHIFT_DAYS_MAX: usize = 40;
const DAY_S: usize = 24 * 60 * 60;

/// The built library.
#[derive(Debug)]
pub(crate) struct ClockShift {
    library: PathBuf,
}

impl ClockShift {
    /// Builds the library in `folder` and tests it. Returns `None` if that fails, which is
    /// reported.
    pub(crate) fn build(folder: &Path) -> Option<ClockShift> {
        let shift = ClockShift { library: folder.join("shift.so") };
        shift
            .try_build(folder)
            .map_err(|why| skipped(&format!("no clock was shifted: {why}")))
            .ok()?;
        Some(shift)
    }

    fn try_build(&self, folder: &Path) -> Result<(), String> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("only x86-64 Linux is supported".to_owned());
        }
        let source = folder.join("shift.c");
        fs::write(&source, include_str!("shift.c")).map_err(|error| error.to_string())?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&self.library).arg(&source);
        let compiled = compiler.stdin(Stdio::null()).output();
        let compiled = compiled.map_err(|error| format!("cc: {error}"))?;
        if !compiled.status.success() {
            return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
        }
        // A kernel that refuses the filter shifts nothing, which the library reports.
        let state = folder.join("clock of true");
        write_shift(&state, 0, 0);
        let tried = Command::new("true")
            .env("LD_PRELOAD", &self.library)
            .env("SHIFT_FILE", &state)
            .output()
            .map_err(|error| format!("true: {error}"))?;
        if tried.status.success() && tried.stderr.is_empty() {
            return Ok(());
        }
        Err(format!("{}: {}", tried.status, String::from_utf8_lossy(&tried.stderr)))
    }

    /// Returns the variables that make a process run by the clock in `state`.
    pub(crate) fn variables(&self, state: &Path) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.library.clone()), ("SHIFT_FILE", state.to_owned())]
    }
}

/// Returns a shift of the wall clock, in seconds: at most 40 days in either direction.
pub(crate) fn random_shift_s(random: &mut SplitMix64) -> i64 {
    let limit = SHIFT_DAYS_MAX * DAY_S;
    let shift = random.below(2 * limit + 1);
    i64::try_from(shift).expect("small") - i64::try_from(limit).expect("small")
}

/// Sets the clock in `state`: the shifts of the wall clock and of the clock that counts sleep, in
/// seconds. A process that runs by this clock has the file open, so the file is overwritten in
/// place, with equal length.
pub(crate) fn write_shift(state: &Path, realtime_s: i64, boottime_s: i64) {
    let text = format!("{realtime_s:>12} {boottime_s:>12}");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(state);
    file.and_then(|file| file.write_all_at(text.as_bytes(), 0)).expect("a clock is set");
}
