//! `version`: prints the version of the program.

use anyhow::Result;

use crate::event::{Event, Version};
use crate::exit::Exit;
use crate::report::Report;

/// The commit that the program was built from, if it is known.
const COMMIT: Option<&str> = option_env!("CUTPOINT_COMMIT");
/// The platform that the program was built for.
const TARGET: &str = env!("CUTPOINT_TARGET");
/// The features that the program was built with.
const FEATURES: &[&str] = &[
    #[cfg(feature = "bundled-roots")]
    "bundled-roots",
    #[cfg(feature = "clouds")]
    "clouds",
    #[cfg(feature = "import")]
    "import",
    #[cfg(feature = "mount")]
    "mount",
    #[cfg(feature = "rest")]
    "rest",
    #[cfg(feature = "s3")]
    "s3",
    #[cfg(feature = "volume")]
    "volume",
];

pub(crate) fn run(report: &Report) -> Result<Exit> {
    let version = Version {
        program_version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        target: TARGET,
        features: FEATURES,
    };
    if report.is_json() {
        report.event(&Event::Version(version))?;
    } else {
        let commit = COMMIT.map_or("unknown", |commit| commit.get(..12).unwrap_or(commit));
        report.line(&format!(
            "cutpoint {} (commit {commit}, {TARGET}, features: {})",
            version.program_version,
            if FEATURES.is_empty() { "none".to_owned() } else { FEATURES.join(", ") }
        ))?;
    }
    Ok(Exit::Well)
}
