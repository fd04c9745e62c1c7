//! The machine of the measurement.

use std::fs;

/// Returns the name of the processor as the system gives it, or the architecture if the system
/// gives no name.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line =
            text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        Some(line?.split_once(':')?.1.trim())
    };
    match (field("model name"), field("cpu family"), field("model")) {
        (Some(name), Some(family), Some(model)) => {
            format!("{name} (family {family}, model {model})")
        }
        (Some(name), ..) => name.to_owned(),
        _ => std::env::consts::ARCH.to_owned(),
    }
}
