//! `debug`: prints a decoded object of the repository, or the names of all objects.

use anyhow::Result;
use cutpoint_repository::ObjectName;
use cutpoint_repository::verify::describe::{describe, describe_mark};
use cutpoint_storage::{Kind, ObjectKind};

use crate::args::{Debug, Global};
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::units;

const LIST: &str = "`cutpoint debug --list` lists all names";

pub(crate) fn run(args: &Debug, global: &Global, report: &Report) -> Result<Exit> {
    let session = Session::open_to_examine(global, report)?;
    let Some(object) = &args.object else {
        list(&session, report)?;
        return Ok(Exit::of_problems(report.problem_count()));
    };
    let mark = describe_mark(&session.repository, object).transpose();
    let (name, kind, shown) = match mark {
        Some(mark) => (object.clone(), ObjectKind::Ticket, mark),
        None => {
            let name = ObjectName::parse(object)
                .map_err(|error| Failure::failed(error.to_string()).with_remedy(LIST))?;
            (name.to_string(), name.kind(), describe(&session.repository, name))
        }
    };
    let shown = shown.map_err(|error| {
        match error.kind() == Kind::Missing && error.object() == name {
            // Nothing says that the object should exist.
            true => not_found(&name).into(),
            false => anyhow::Error::new(error),
        }
    })?;
    if report.is_json() {
        report.event(&Event::ObjectContent {
            name: &name,
            kind: kind.folder(),
            length_bytes: shown.length,
            epoch: shown.epoch,
            text: &shown.text,
        })?;
    } else {
        report.write(shown.text.as_bytes())?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn not_found(name: &str) -> Failure {
    Failure::failed(format!("{name}: object not found")).with_remedy(LIST)
}

fn list(session: &Session, report: &Report) -> Result<()> {
    if !report.is_json() {
        report.line(&format!("{:>10}  name", "stored"))?;
    }
    for kind in ObjectKind::ALL {
        for (name, stored_len) in session.repository.storage().list(kind.folder())? {
            if report.is_json() {
                report.event(&Event::Object { name: &name, stored_bytes: stored_len })?;
            } else {
                report.line(&format!("{:>10}  {name}", units::size(stored_len)))?;
            }
        }
    }
    Ok(())
}
