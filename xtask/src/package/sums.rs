//! The sums of all files of a release, and their signature.

use std::fs;
use std::process::Command;

use super::release::{Release, sha256};
use crate::run;

/// The name of the list of sums, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";

/// The purpose of a signature, which a verification names as well.
const PURPOSE: &str = "cutpoint-release";

/// Writes the list of the sums of all files.
pub(super) fn write(release: &Release) -> Result<(), String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&release.folder).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && !name.starts_with(SUMS) {
            names.push(name);
        }
    }
    names.sort();
    let mut list = String::new();
    for name in &names {
        list += &format!("{}  {name}\n", sha256(&release.read(name)?));
    }
    release.write(SUMS, list.as_bytes())
}

/// Signs the list of sums with the private key of OpenSSH in the file `key`, which may be the public
/// one if an agent has the private one.
pub(super) fn sign(release: &Release, key: &str) -> Result<(), String> {
    // A signature of another list stays otherwise.
    let signature = release.folder.join(format!("{SUMS}.sig"));
    if signature.exists() {
        fs::remove_file(&signature).map_err(|error| format!("{}: {error}", signature.display()))?;
    }
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "sign", "-n", PURPOSE, "-f", key]).arg(release.folder.join(SUMS));
    run(command)
}
