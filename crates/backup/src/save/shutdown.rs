//! The end of a run. It has one owner, on which every wait of every stage depends.
//!
//! A stage waits through [`Shutdown`] only. A wait ends when the message comes, when every sender
//! of the channel is gone, or when the run is over, whichever is first. The run is over at the
//! first failure or panic of any stage, so no stage waits for one that has ended:
//!
//! - A stage that fails or panics ends the run ([`Shutdown::stage`]).
//! - A stage that ends well drops its ends of all channels, because each end belongs to one stage
//!   and is moved into it.
//!
//! The first failure is the result of the run. A stage that ends only because the run is over has
//! no error at all: [`Over`] is not an error and cannot become one.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select};
use cutpoint_storage::Error;

#[cfg(feature = "faults")]
use super::faults::Faults;

/// The run is over, for a reason that [`Shutdown`] knows. Only [`Shutdown`] creates this value.
#[derive(Debug)]
pub(super) struct Over(());

/// The end of a stage before its work was done.
#[derive(Debug)]
pub(super) enum Halt {
    /// The run is over, because of another stage.
    Over(Over),
    /// A failure of this stage.
    Failed(Error),
}

impl From<Over> for Halt {
    fn from(over: Over) -> Halt {
        Halt::Over(over)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

/// The result of the work of a stage.
pub(super) type Result<T, E = Halt> = std::result::Result<T, E>;

/// The result of a wait with a limit.
#[derive(Debug)]
pub(super) enum WaitResult<T> {
    /// The message.
    Message(T),
    /// There was no message within the limit.
    Nothing,
    /// No message can come, because every sender is gone.
    Ended,
}

/// The owner of the end of one run.
#[derive(Debug)]
pub(super) struct Shutdown {
    state: Mutex<ShutdownState>,
    /// A channel that is disconnected once the run is over.
    over: Receiver<Infallible>,
    #[cfg(feature = "faults")]
    faults: Faults,
}

#[derive(Debug)]
struct ShutdownState {
    /// The sender of `over`, kept until the run is over.
    open: Option<Sender<Infallible>>,
    /// The first failure.
    cause: Option<Error>,
    /// The first panic.
    panic: Option<Box<dyn Any + Send>>,
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        let (open, over) = bounded(0);
        Shutdown {
            state: Mutex::new(ShutdownState { open: Some(open), cause: None, panic: None }),
            over,
            #[cfg(feature = "faults")]
            faults: Faults::take(),
        }
    }
}

impl Shutdown {
    fn state(&self) -> MutexGuard<'_, ShutdownState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a stage. A failure or panic of the stage ends the run. Returns `None` if the stage did
    /// not complete.
    pub(super) fn stage<T>(&self, stage: impl FnOnce() -> Result<T>) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(stage)) {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(Halt::Over(_))) => {}
            Ok(Err(Halt::Failed(error))) => self.fail(error),
            Err(panic) => {
                let mut state = self.state();
                state.panic.get_or_insert(panic);
                state.open = None;
            }
        }
        None
    }

    /// Ends the run with a failure.
    fn fail(&self, error: Error) {
        self.note(error);
        self.state().open = None;
    }

    /// Records a failure after which the run continues, to store what it has. The first failure
    /// recorded is the result of the run.
    pub(super) fn note(&self, error: Error) {
        self.state().cause.get_or_insert(error);
    }

    /// Returns the result of the run. Called after all stages have ended.
    ///
    /// # Errors
    ///
    /// Returns the first failure recorded.
    ///
    /// # Panics
    ///
    /// Resumes the first panic of a stage.
    pub(super) fn result(self) -> Result<(), Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        state.cause.map_or(Ok(()), Err)
    }

    /// Returns `true` if the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits until the run is over. Called where another stage is known to have failed, whose failure
    /// is recorded a moment after its ends of the channels are gone.
    pub(super) fn wait_until_over(&self) -> Over {
        // Nothing is ever sent, so this returns when the channel is disconnected.
        self.over.recv().ok();
        Over(())
    }

    /// Ends a stage if the run is over.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] if the run is over.
    pub(super) fn check(&self) -> Result<(), Over> {
        if self.is_over() { Err(Over(())) } else { Ok(()) }
    }

    /// Waits for a message. Returns `None` once every sender is gone.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] as soon as the run is over.
    pub(super) fn receive<T>(&self, receiver: &Receiver<T>) -> Result<Option<T>, Over> {
        self.check()?;
        select! {
            recv(receiver) -> message => Ok(message.ok()),
            recv(self.over) -> _ => Err(Over(())),
        }
    }

    /// Waits for a message that must come, because its sender ends without it only if the run
    /// fails.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] as soon as the run is over, or if every sender is gone.
    pub(super) fn expect<T>(&self, receiver: &Receiver<T>) -> Result<T, Over> {
        self.receive(receiver)?.ok_or(Over(()))
    }

    /// Waits for a message, at most for `limit`.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] as soon as the run is over.
    pub(super) fn receive_within<T>(
        &self,
        receiver: &Receiver<T>,
        limit: Duration,
    ) -> Result<WaitResult<T>, Over> {
        self.check()?;
        select! {
            recv(receiver) -> message => Ok(message.map_or(WaitResult::Ended, WaitResult::Message)),
            recv(self.over) -> _ => Err(Over(())),
            default(limit) => Ok(WaitResult::Nothing),
        }
    }

    /// Waits for a message that must come, at most for `limit`. Returns `None` if it has not come
    /// by then.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] as soon as the run is over, or if every sender is gone. A stage that fails
    /// drops its ends of the channels a moment before its failure is recorded, so missing senders
    /// are no failure of their own.
    pub(super) fn expect_within<T>(
        &self,
        receiver: &Receiver<T>,
        limit: Duration,
    ) -> Result<Option<T>, Over> {
        match self.receive_within(receiver, limit)? {
            WaitResult::Message(message) => Ok(Some(message)),
            WaitResult::Nothing => Ok(None),
            WaitResult::Ended => Err(Over(())),
        }
    }

    /// Sends a message. If the channel is bounded, waits until there is room.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] as soon as the run is over, or if the receiver is gone. In the latter case
    /// the receiving stage has failed, because it ends well only after its last message.
    pub(super) fn send<T>(&self, sender: &Sender<T>, message: T) -> Result<(), Over> {
        self.begin_send()?;
        select! {
            send(sender, message) -> sent => sent.map_err(|_| Over(())),
            recv(self.over) -> _ => Err(Over(())),
        }
    }

    /// Sends a message back to a stage that may have ended well before.
    ///
    /// # Errors
    ///
    /// Returns [`Over`] if the run is over.
    pub(super) fn offer<T>(&self, sender: &Sender<T>, message: T) -> Result<(), Over> {
        self.begin_send()?;
        // These channels are unbounded, so this does not wait.
        sender.try_send(message).ok();
        Ok(())
    }

    fn begin_send(&self) -> Result<(), Over> {
        #[cfg(feature = "faults")]
        if let Err(error) = self.faults.at_send() {
            self.fail(error);
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use crossbeam_channel::unbounded;
    use cutpoint_storage::Kind;

    use super::*;

    fn failure(message: &str) -> Error {
        Error::new(Kind::Storage, "a test", message)
    }

    /// Waits in each way in one thread, and fails in another.
    #[test]
    fn every_wait_ends_with_the_run() {
        let waits: [fn(&Shutdown); 5] = [
            |shutdown| {
                shutdown.wait_until_over();
            },
            |shutdown| {
                // The sender is alive.
                let (_sender, receiver) = unbounded::<u8>();
                assert!(shutdown.receive(&receiver).is_err(), "a receive");
            },
            |shutdown| {
                let (_sender, receiver) = unbounded::<u8>();
                assert!(shutdown.expect(&receiver).is_err(), "an expectation");
            },
            |shutdown| {
                let (_sender, receiver) = unbounded::<u8>();
                let within = shutdown.receive_within(&receiver, Duration::from_secs(3600));
                assert!(within.is_err(), "a receive with a limit");
            },
            |shutdown| {
                // The receiver is alive, and there is no room.
                let (sender, _receiver) = bounded::<u8>(0);
                assert!(shutdown.send(&sender, 1).is_err(), "a send");
            },
        ];
        for wait in waits {
            let (done, ended) = mpsc::channel();
            std::thread::spawn(move || {
                let shutdown = Shutdown::default();
                std::thread::scope(|scope| {
                    let waiter = scope.spawn(|| wait(&shutdown));
                    shutdown.stage(|| -> Result<()> { Err(failure("the first").into()) });
                    waiter.join().expect("it waits as it should");
                });
                done.send(shutdown.result()).ok();
            });
            let result = ended.recv_timeout(Duration::from_secs(20)).expect("the wait ends");
            assert_eq!(result.expect_err("it failed").to_string(), "a test: the first");
        }
    }

    /// Another stage can see the dropped channel ends of a failing stage before its failure is
    /// recorded.
    #[test]
    fn missing_message_is_no_failure_of_its_own() {
        let shutdown = Shutdown::default();
        let (sender, receiver) = unbounded::<u8>();
        drop(sender);
        let waited = shutdown.stage(|| Ok(shutdown.expect(&receiver)?));
        assert!(waited.is_none(), "it waits no longer");
        let limit = Duration::from_secs(3600);
        let waited = shutdown.stage(|| Ok(shutdown.expect_within(&receiver, limit)?));
        assert!(waited.is_none(), "it waits no longer");
        let (sender, gone) = unbounded::<u8>();
        drop(gone);
        let sent = shutdown.stage(|| Ok(shutdown.send(&sender, 1)?));
        assert!(sent.is_none(), "it sends no longer");
        shutdown.stage(|| -> Result<()> { Err(failure("the cause").into()) });
        let error = shutdown.result().expect_err("it failed");
        assert_eq!(error.to_string(), "a test: the cause");
    }

    #[test]
    fn first_failure_is_the_result() {
        let shutdown = Shutdown::default();
        shutdown.note(failure("the source"));
        assert!(!shutdown.is_over(), "what was read is stored");
        shutdown.stage(|| -> Result<()> { Err(failure("a put").into()) });
        assert!(shutdown.is_over(), "nothing can be stored");
        let stopped = shutdown.stage(|| Ok(shutdown.check()?));
        assert!(stopped.is_none(), "it was stopped");
        let error = shutdown.result().expect_err("it failed");
        assert_eq!(error.to_string(), "a test: the source");
    }
}
