//! `serve`: shows snapshots as a page for a browser.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_page::server::{Page, PageOptions, ServedPage, ViewSource};
use cutpoint_repository::verify::check::oldest_unread_ns;
use cutpoint_repository::{Reader, View};

use crate::args::{Global, Serve};
use crate::coverage::Memory;
use crate::event::{self, Event, Summary, WebDav};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::session::{self, Session};
use crate::{place, units};

/// The maximum time until a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The maximum time that a request waits for a new list of snapshots.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// The end of a channel that takes a view, or the reason why there is none.
type Answer = Sender<Result<View, String>>;

pub(crate) fn run(args: &Serve, global: &Global, report: &Report) -> Result<Exit> {
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        Failure::failed(format!("--listen {}: {error}", args.listen))
            .with_remedy("choose another port, or leave --listen out for one that is free")
    })?;
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let snapshot_count = view.snapshots().len() as u64;
    let reader = Arc::new(session.reader(view, report)?);
    let (sender, questions) = channel();
    let options = PageOptions {
        place: place::shown(&session::location(global)?).to_string(),
        unread_since_ns: unread_since(&session, report),
        may_restore: args.allow_restore,
        has_dav: args.webdav,
    };
    let page = Page::new(Arc::clone(&reader), Box::new(Source(sender)), options);
    let served = page.and_then(|page| page.start(listener)).context("serve")?;
    let interrupt = Interrupt::listen_without_limit();
    tell(&served, args, snapshot_count, report)?;
    while !served.has_ended() && !interrupt.is_asked() {
        answer(&questions, &mut session, &reader, report);
    }
    served.stop().context("serve")?;
    if report.is_json() {
        let read = reader.statistics();
        report.event(&Event::Summary(Summary::Serve {
            problem_count: report.problem_count(),
            request_count: read.request_count,
            fetched_bytes: read.fetched_bytes,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.note("The page has ended.");
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns the time since which the stored data that was not read for longest is unread. It is not
/// shown if it cannot be found.
fn unread_since(session: &Session, report: &Report) -> Option<i64> {
    let memory = Memory::open(&session.repository, report);
    let coverage = memory.coverage.lock().unwrap_or_else(PoisonError::into_inner);
    oldest_unread_ns(&session.repository, &coverage).ok().flatten()
}

fn tell(served: &ServedPage, args: &Serve, snapshot_count: u64, report: &Report) -> Result<()> {
    let url = served.url();
    let dav = served.dav();
    if report.is_json() {
        report.event(&Event::Page(event::Page {
            url,
            snapshot_count,
            may_restore: args.allow_restore,
            webdav: dav.map(|(url, user, password)| WebDav { url, user, password }),
        }))?;
        return report.flush();
    }
    report.line(&url)?;
    report.flush()?;
    report.note(&format!(
        "{} at this address, which opens the page once. Ctrl-C ends the page.",
        units::count(snapshot_count, "snapshot")
    ));
    if let Some((url, user, password)) = dav {
        report.note(&format!("WebDAV: {url}, user {user}, password {password}"));
    }
    Ok(())
}

/// The end of the page. The thread of the command does what needs the session and the report.
struct Source(Sender<Answer>);

impl ViewSource for Source {
    fn view(&self) -> Result<View, String> {
        let (sender, answer) = channel();
        let ended = || "the command has ended".to_owned();
        self.0.send(sender).map_err(|_| ended())?;
        answer.recv_timeout(LIST_TIMEOUT).map_err(|_| ended())?
    }
}

/// Waits a moment for a question, and answers it.
fn answer(questions: &Receiver<Answer>, session: &mut Session, reader: &Reader, report: &Report) {
    match questions.recv_timeout(LOOK_EVERY) {
        Ok(answer) => {
            let listed = list(session, reader, report).map_err(|error| format!("{error:#}"));
            // Without a receiver, the request has ended.
            answer.send(listed).ok();
        }
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_EVERY),
    }
}

fn list(session: &mut Session, reader: &Reader, report: &Report) -> Result<View> {
    let view = reader.refresh()?;
    session.state.see(&view, report)?;
    session.state.save(report);
    Ok(view)
}
