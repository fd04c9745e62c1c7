//! Hardware counters of the processor, if the system gives access to them.

/// The counts of the processor during some work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    pub(crate) cycles: u64,
    pub(crate) branches: u64,
    pub(crate) branch_misses: u64,
}

/// Counts the events of the processor in `work`, or returns the reason why they cannot be counted.
#[cfg(target_os = "linux")]
pub(crate) fn count(work: &mut dyn FnMut()) -> Result<Counts, String> {
    use perf_event::events::Hardware;
    use perf_event::{Builder, Group};

    let refused = |error: std::io::Error| format!("the system does not permit counters: {error}");
    let mut group = Group::new().map_err(refused)?;
    let mut add = |event| group.add(&Builder::new(event)).map_err(refused);
    let instructions = add(Hardware::INSTRUCTIONS)?;
    let cycles = add(Hardware::CPU_CYCLES)?;
    let branches = add(Hardware::BRANCH_INSTRUCTIONS)?;
    let misses = add(Hardware::BRANCH_MISSES)?;
    group.enable().map_err(refused)?;
    work();
    group.disable().map_err(refused)?;
    let counts = group.read().map_err(refused)?;
    Ok(Counts {
        instructions: counts[&instructions],
        cycles: counts[&cycles],
        branches: counts[&branches],
        branch_misses: counts[&misses],
    })
}

/// Returns the reason why events cannot be counted.
#[cfg(not(target_os = "linux"))]
pub(crate) fn count(_: &mut dyn FnMut()) -> Result<Counts, String> {
    Err("counters are available only on Linux".to_owned())
}
