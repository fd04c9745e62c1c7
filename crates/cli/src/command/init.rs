//! `init`: creates a repository.

use anyhow::Result;

use crate::args::{Global, Init};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::place;
use crate::report::Report;
use crate::session::{self, New};

pub(crate) fn run(args: &Init, global: &Global, report: &Report) -> Result<Exit> {
    let location = session::location(global)?;
    if !session::is_missing(global)? {
        let message = format!("{}: a repository exists already", place::shown(&location));
        return Err(Failure::failed(message)
            .with_remedy("choose another --repo, or use the repository as it is")
            .into());
    }
    let new = New {
        settings: &args.settings,
        recovery_kit: args.recovery_kit.as_deref(),
        is_shared: args.shared,
        like: session::options_like(args, global, report)?,
    };
    let mut session = session::create(global, &new, report)?;
    session.state.save(report);
    let config = session.repository.config();
    if report.is_json() {
        report.event(&Event::Summary(Summary::Init {
            repository: config.repository.to_string(),
            encryption: config.suite.to_string(),
            cut: &config.cut,
        }))?;
    }
    Ok(Exit::Well)
}
