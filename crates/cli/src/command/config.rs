//! `config`: shows and changes the settings.

use std::sync::Arc;

use anyhow::{Context, Result};
use cutpoint_repository::Repository;

use crate::args::{ConfigArgs, DeltaMode, Global, Mode};
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::{Session, canonical_cut, try_out, without_seed};
use crate::units;

pub(crate) fn run(args: &ConfigArgs, global: &Global, report: &Report) -> Result<Exit> {
    let ConfigArgs { settings: args, probe } = args;
    let mut session = Session::open(global, report)?;
    session.look_for_heads(report)?;
    let mut config = session.repository.config().clone();
    if let Some(cut) = &args.cut {
        let cut = canonical_cut(cut, config.cut_is_keyed)?;
        if cut != config.cut {
            report.warn(
                "the cut changes: duplicates of data saved before are no longer found, so the next \
                 backups store again all data that they read",
            );
        }
        config.cut = cut;
    }
    if let Some(preset) = args.mode.map(Mode::preset) {
        config.region_size = preset.region_size;
        config.container_size = preset.container_size;
        config.compression_level = preset.compression_level;
    }
    config.region_size = args.region_size.unwrap_or(config.region_size);
    config.container_size = args.container_size.unwrap_or(config.container_size);
    config.compression_level = args.compression_level.unwrap_or(config.compression_level);
    match args.delta {
        None => {}
        Some(DeltaMode::On) => config.set_burst(None),
        Some(DeltaMode::Burst(options)) => config.set_burst(Some(options)),
        Some(DeltaMode::Off) if !config.uses_delta_chunks() => {}
        Some(DeltaMode::Off) => {
            let message = "--delta off: delta encoding cannot be turned off, because this repository \
                           may hold delta chunks, and requires every client to support them";
            let remedy = "`cutpoint init --delta off` creates another repository without \
                          delta encoding; `cutpoint config --compression-level 1` makes backups into \
                          this one faster";
            return Err(Failure::failed(message).with_remedy(remedy).into());
        }
    }
    config.parity_percent = args.parity.unwrap_or(config.parity_percent);
    if *probe {
        let storage = session.repository.storage();
        let probed = try_out(&**storage, report)?;
        config.record_probe(storage.visibility()?, probed.may_be_shared());
    }
    if config != *session.repository.config() {
        config.check_features(true)?;
        config.created_ns = session.repository.environment().now_ns();
        let repository =
            Arc::get_mut(&mut session.repository).context("the repository is in use")?;
        repository.set_config(config)?;
        session.state.set_settings(&session.repository);
    }
    session.state.save(report);
    show(&session.repository, report)?;
    Ok(Exit::of_problems(report.problem_count()))
}

fn show(repository: &Repository, report: &Report) -> Result<()> {
    let (config, number) = (repository.config(), repository.config_number());
    let delta = match config.burst() {
        Some(options) => DeltaMode::Burst(options),
        None if config.uses_delta_chunks() => DeltaMode::On,
        None => DeltaMode::Off,
    };
    let size = |bytes: u32| units::size(bytes.into());
    let plain =
        |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let creates_atomically = repository.creates_atomically()?;
    // The name for JSON, which ends in the unit, its value, and the name and value for people.
    let settings: [(&str, serde_json::Value, &str, Option<String>); 12] = [
        ("repository", config.repository.to_string().into(), "repository", None),
        ("config_number", number.into(), "config-number", None),
        ("changed", units::rfc3339_ns(config.created_ns).into(), "changed", None),
        ("encryption", config.suite.to_string().into(), "encryption", None),
        ("cut", config.cut.clone().into(), "cut", Some(without_seed(&config.cut).to_owned())),
        ("cut_is_secret", config.cut_is_keyed.into(), "cut-is-secret", None),
        (
            "region_size_bytes",
            config.region_size.into(),
            "region-size",
            Some(size(config.region_size)),
        ),
        (
            "container_size_bytes",
            config.container_size.into(),
            "container-size",
            Some(size(config.container_size)),
        ),
        ("compression_level", config.compression_level.into(), "compression-level", None),
        ("delta", delta.to_string().into(), "delta", None),
        (
            "parity_percent",
            config.parity_percent.into(),
            "parity",
            Some(format!("{}%", config.parity_percent)),
        ),
        ("creates_atomically", creates_atomically.into(), "creates-atomically", None),
    ];
    for (name, value, shown, text) in settings {
        if report.is_json() {
            report.event(&Event::Setting { name, value })?;
        } else {
            report.line(&format!("{shown:<18} {}", text.unwrap_or_else(|| plain(&value))))?;
        }
    }
    Ok(())
}
