//! The parts of a run, in their order.

use std::sync::PoisonError;
use std::time::Instant;

use anyhow::Result;
use cutpoint_repository::verify::check::oldest_unread_ns;
use cutpoint_terminal::report::{Output, Record};

use super::history::HistoryRecord;
use super::hook::{Hook, execute_hook};
use super::outcome::{Outcome, Part, State};
use crate::args::{Args, Command, Global};
use crate::coverage::Memory;
use crate::exit::Exit;
use crate::interrupt::{AtSignal, Interrupt};
use crate::profile::Profile;
use crate::report::{PROGRAM, Report};
use crate::session::Session;
use crate::unlock;

/// Executes a command.
pub(crate) type Execute<'a> = &'a dyn Fn(&Args, &Report) -> Result<Exit>;

/// A run that is at work.
pub(super) struct Running<'a> {
    profile: &'a Profile,
    outcome: &'a mut Outcome,
    report: &'a Report,
    /// The earlier runs.
    history: &'a HistoryRecord,
    execute: Execute<'a>,
    /// Set once the remaining parts would be in vain.
    is_over: bool,
    interrupt: Interrupt,
}

impl<'a> Running<'a> {
    /// Prepares a run.
    pub(super) fn new(
        profile: &'a Profile,
        outcome: &'a mut Outcome,
        history: &'a HistoryRecord,
        report: &'a Report,
        execute: Execute<'a>,
    ) -> Running<'a> {
        // At a terminal, a part may prompt for a secret, and a signal ends the process then.
        let interrupt = match unlock::can_ask() {
            true => Interrupt::of_process(),
            false => Interrupt::listen(),
        };
        Running { profile, outcome, report, history, execute, is_over: false, interrupt }
    }

    /// Does all parts. With `finds_unread`, also finds the age of what was not read for longest.
    pub(super) fn run(mut self, finds_unread: bool) {
        let profile = self.profile;
        let is_ready = self.hooks("before", &profile.hooks.before);
        self.is_over |= !is_ready;
        for part in &profile.parts {
            self.part(part);
        }
        if finds_unread && !self.is_over && !self.outcome.is_dry_run {
            self.find_unread();
        }
        match is_ready {
            true => self.hooks("after", &profile.hooks.after),
            false => self.skip("after", &profile.hooks.after),
        };
        if self.outcome.is_dry_run || self.outcome.exit != Exit::Well {
            self.hooks("on-failure", &profile.hooks.on_failure);
        }
    }

    fn skip(&mut self, name: &'static str, commands: &[String]) -> bool {
        if !commands.is_empty() {
            self.outcome.add(Part::not_done(name, State::Skipped));
        }
        false
    }

    /// Executes the commands of a hook until one fails. Returns `true` if none has failed.
    fn hooks(&mut self, name: &'static str, commands: &[String]) -> bool {
        if commands.is_empty() {
            return true;
        }
        if self.outcome.is_dry_run {
            for command in commands {
                self.report.note(&format!("{name}: would execute: {command}"));
            }
            self.outcome.add(Part::not_done(name, State::Planned));
            return true;
        }
        let started = Instant::now();
        let mut failure = None;
        for command in commands {
            let hook = self.hook(name, command);
            if let Err(problem) = execute_hook(&hook) {
                failure = Some(format!("hook {name}: {problem}: {command}"));
                break;
            }
        }
        let mut part = match failure {
            None => Part::not_done(name, State::Done(Exit::Well)),
            Some(message) => {
                self.report.problem(self.profile.file.as_path(), &message);
                let exit = match self.interrupt.is_asked() {
                    true => Exit::Interrupted,
                    false => Exit::Failed,
                };
                Part::failed(name, exit, message)
            }
        };
        part.elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let is_well = part.state == State::Done(Exit::Well);
        self.outcome.add(part);
        is_well
    }

    fn hook<'h>(&self, name: &'static str, command: &'h str) -> Hook<'h> {
        let outcome = &*self.outcome;
        let mut variables = vec![
            ("CUTPOINT_HOOK", name.to_owned()),
            ("CUTPOINT_PROFILE", outcome.profile.clone()),
            ("CUTPOINT_RUN_ID", outcome.run_id.clone()),
            ("CUTPOINT_REPO", self.profile.repository.clone()),
        ];
        if name == "before" {
            return Hook { command, variables, input: None, at_signal: AtSignal::End };
        }
        variables.extend([
            ("CUTPOINT_EXIT_CODE", outcome.exit.code().to_string()),
            ("CUTPOINT_SNAPSHOT", outcome.snapshot().unwrap_or_default().to_owned()),
            ("CUTPOINT_SUMMARY", outcome.text()),
        ]);
        let mut history = self.history.clone();
        outcome.add_to(&mut history);
        let input = outcome.report(&history).ok();
        Hook { command, variables, input, at_signal: AtSignal::Finish }
    }

    fn part(&mut self, args: &Args) {
        let name = name_of(&args.command);
        if !self.is_over && self.interrupt.is_asked() {
            self.is_over = true;
            // A hook can have succeeded in spite of the signal.
            self.outcome.raise(Exit::Interrupted);
        }
        if self.is_over {
            self.outcome.add(Part::not_done(name, State::Skipped));
            return;
        }
        self.report.note(&format!("{}: {name}", self.profile.name));
        if let (Command::Check(check), true) = (&args.command, self.outcome.is_dry_run) {
            let extent = if check.read_data.is_some() { " and read data" } else { "" };
            self.report.note(&format!("Would check the repository{extent}."));
            self.outcome.add(Part::not_done(name, State::Planned));
            return;
        }
        self.report.flush().ok();
        let report =
            Report::new(PROGRAM, &args.global.output).of_command(name.to_owned()).recorded();
        let result = (self.execute)(args, &report);
        report.end_progress();
        let flushed = report.flush();
        let exit = match result.and_then(|exit| flushed.map(|()| exit)) {
            Ok(exit) => exit,
            Err(error) => report.fail(&error),
        };
        self.is_over |= exit == Exit::Interrupted;
        self.is_over |= name == "backup" && !matches!(exit, Exit::Well | Exit::Problems);
        let elapsed_ns = report.elapsed_ns();
        let record: Record = report.into_record();
        self.outcome.add(Part { name, state: State::Done(exit), record, elapsed_ns });
    }

    /// Finds the time since which the data that was not read for longest is unread. A failure is
    /// only a warning.
    fn find_unread(&mut self) {
        let Some(args) = self.profile.parts.first() else { return };
        match oldest_unread(&args.global) {
            Ok(time_ns) => self.outcome.oldest_unread_ns = time_ns,
            Err(error) => {
                self.report.warn(&format!("the age of unread data is not known: {error:#}"));
            }
        }
    }
}

/// Returns the time since which the stored byte that was read longest ago is unread.
fn oldest_unread(global: &Global) -> Result<Option<i64>> {
    // The parts have reported everything that opening the repository says.
    let output = Output { json: false, quiet: true, verbose: 0 };
    let silent = Report::new(PROGRAM, &output).silent();
    let session = Session::open_to_examine(global, &silent)?;
    let memory = Memory::open(&session.repository, &silent);
    let coverage = memory.coverage.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(oldest_unread_ns(&session.repository, &coverage)?)
}

fn name_of(command: &Command) -> &'static str {
    match command {
        Command::Backup(_) => "backup",
        Command::Forget(_) => "forget",
        Command::Prune(_) => "prune",
        _ => "check",
    }
}
