//! `debug`: prints a decoded object of the repository, or the names of all objects.

use anyhow::Result;
use cutpoint_repository::ObjectName;
use cutpoint_repository::verify::describe::describe;
use cutpoint_storage::ObjectKind;

use crate::args::{Debug, Global};
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;

pub(crate) fn run(args: &Debug, global: &Global, report: &Report) -> Result<Exit> {
    let session = Session::open_to_examine(global, report)?;
    let Some(object) = &args.object else {
        list(&session, report)?;
        return Ok(Exit::of_problems(report.problem_count()));
    };
    let name = ObjectName::parse(object).map_err(|error| {
        Failure::failed(error.to_string()).with_remedy("`cutpoint debug --list` lists all names")
    })?;
    let text = describe(&session.repository, name)?;
    if report.is_json() {
        let (name, text) = (name.to_string(), Some(text.as_str()));
        report.event(&Event::Object { name: &name, stored_bytes: None, text })?;
    } else {
        report.write(text.as_bytes())?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn list(session: &Session, report: &Report) -> Result<()> {
    for kind in ObjectKind::ALL {
        for (name, stored_len) in session.repository.storage().list(kind.folder())? {
            if report.is_json() {
                let stored_bytes = Some(stored_len);
                report.event(&Event::Object { name: &name, stored_bytes, text: None })?;
            } else {
                report.line(&format!("{stored_len:>12}  {name}"))?;
            }
        }
    }
    Ok(())
}
