//! The release that is packaged: version, commit and time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::{output, root, target};

/// The name in packages of those who maintain it. An address of the reserved domain `invalid` reaches
/// nobody.
pub(super) const MAINTAINER: &str = "Cutpoint maintainers <maintainers@cutpoint.invalid>";

/// The one-line description in packages.
pub(super) const SUMMARY: &str = "Encrypted, deduplicating backup";

/// The description in packages, in lines of at most 72 columns.
pub(super) const DESCRIPTION: [&str; 5] = [
    "Cutpoint saves files, disk images and streams in a repository: a folder,",
    "an SSH server, or a bucket of S3, Azure or Google. Every snapshot can be",
    "restored on its own and takes space only for what changed. It also",
    "serves deduplicated virtual disks to NBD clients, and imports snapshots",
    "of restic and Borg.",
];

/// The folder of the project on the web.
pub(super) const HOMEPAGE: &str = "https://github.com/cutpoint/cutpoint";

/// The revision of packages that have one.
pub(super) const REVISION: &str = "1";

/// A platform that has packages, under the names that others have for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    pub(super) deb: &'static str,
    pub(super) rpm: &'static str,
    pub(super) oci: &'static str,
    /// The number of the architecture in the first bytes of an RPM package.
    pub(super) rpm_number: u16,
}

/// The platforms that have packages. All programs are static.
pub(crate) const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        deb: "amd64",
        rpm: "x86_64",
        oci: "amd64",
        rpm_number: 1,
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        deb: "arm64",
        rpm: "aarch64",
        oci: "arm64",
        rpm_number: 19,
    },
];

impl Target {
    /// Returns the target whose programs run on this machine.
    pub(super) fn native() -> Result<&'static Target, String> {
        let here = std::env::consts::ARCH;
        let found = TARGETS.iter().find(|target| target.rpm == here);
        found.ok_or(format!("no packages are made for {here}, so no program runs here"))
    }
}

/// What is packaged.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) version: &'static str,
    /// The commit, in hexadecimal digits.
    pub(super) commit: String,
    /// The time of the commit, in seconds of Unix.
    pub(super) time_s: u64,
    /// The folder of the results.
    pub(super) folder: PathBuf,
}

impl Release {
    /// Returns the release of the commit that is checked out.
    ///
    /// # Errors
    ///
    /// Returns an error if tracked files differ from the commit, unless `allows_changes`.
    pub(super) fn of_checkout(allows_changes: bool) -> Result<Release, String> {
        if !allows_changes && !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            let advice = "commit them, or try packages with --allow-changes";
            return Err(format!("tracked files differ from the commit: {advice}"));
        }
        let time = git(&["log", "-1", "--format=%ct"])?;
        let folder = target().join("package");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Release {
            version: env!("CARGO_PKG_VERSION"),
            commit: git(&["rev-parse", "HEAD"])?,
            time_s: time.parse().map_err(|_| format!("git: {time:?} is no time"))?,
            folder,
        })
    }

    /// Writes a file of the release.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("xtask: {name}: {} bytes, SHA-256 {}", bytes.len(), sha256(bytes));
        Ok(())
    }

    /// Writes a program of the release, which can be executed.
    pub(super) fn write_program(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, bytes)?;
        let path = self.folder.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads a file of the release that was made before.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        read(&self.folder.join(name))
    }
}

/// Reads a file. An error names it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns what git prints, without the line end.
pub(super) fn git(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(words).current_dir(root());
    Ok(String::from_utf8_lossy(&output(command)?).trim_end().to_owned())
}

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a time in UTC: year, month, day, hour, minute, second, and the day of the week, Sunday as 0.
fn civil(time_s: u64) -> [u64; 7] {
    let (days, second) = (time_s / 86_400, time_s % 86_400);
    // Days since 0000-03-01, in eras of 400 years, because a leap day ends a year that begins in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let year = era * 400 + year_of_era + u64::from(is_next);
    let month = if is_next { month - 9 } else { month + 3 };
    [year, month, day, second / 3600, second / 60 % 60, second % 60, (days + 4) % 7]
}

/// Returns a time as in mails.
pub(super) fn rfc2822(time_s: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 13] =
        ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = |names: &[&'static str], number: u64| {
        usize::try_from(number).ok().and_then(|number| names.get(number).copied()).unwrap_or("")
    };
    let [year, month, day, hour, minute, second, weekday] = civil(time_s);
    let (weekday, month) = (name(&DAYS, weekday), name(&MONTHS, month));
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

/// Returns a time in the form of ISO 8601.
pub(super) fn rfc3339(time_s: u64) -> String {
    let [year, month, day, hour, minute, second, _] = civil(time_s);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_commit_is_printed_in_utc() {
        assert_eq!(rfc2822(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc3339(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(rfc3339(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(rfc2822(1_795_937_059), "Sun, 29 Nov 2026 07:24:19 +0000");
    }

    #[test]
    fn sum_is_that_of_the_standard() {
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223b00361a3"));
    }
}
