//! The link to a storage behind a connection: the threads of its requests, and their repetition.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::runtime::Runtime;

#[cfg(any(feature = "clouds", feature = "s3"))]
use super::hedge::{Failed, Hedge, PUT_TWICE};
use super::{Passing, Patience};
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
#[cfg(any(feature = "clouds", feature = "s3"))]
use crate::throttle::{Direction, Throttle};

/// Maximum number of requests at a time for small objects. Their transfer takes no time, so the
/// number is limited by what a server accepts of one client.
const SMALL_REQUESTS_MAX: usize = 32;
/// Number of threads that move bytes between connections and the threads that wait for them.
const RUNTIME_THREADS: usize = 2;

/// The threads of a storage's requests, and the state of their repetition.
#[derive(Debug)]
pub(crate) struct Link {
    address: String,
    pub(crate) patience: Patience,
    runtime: Runtime,
    #[cfg(any(feature = "clouds", feature = "s3"))]
    reads: Hedge,
    #[cfg(any(feature = "clouds", feature = "s3"))]
    puts: Hedge,
}

impl Link {
    /// Starts threads with the name `thread_name` for the storage at `address`. Each request gets
    /// at most `tries_max` answers.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the threads cannot be started.
    pub(crate) fn new(
        address: String,
        thread_name: &str,
        environment: Arc<dyn Environment>,
        tries_max: u32,
    ) -> Result<Link> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name(thread_name)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Error::new(Kind::Storage, &address, format!("cannot start threads: {error}"))
        })?;
        Ok(Link {
            address,
            patience: Patience::new(environment, tries_max),
            runtime,
            #[cfg(any(feature = "clouds", feature = "s3"))]
            reads: Hedge::default(),
            #[cfg(any(feature = "clouds", feature = "s3"))]
            puts: Hedge::default(),
        })
    }

    /// Returns the address of the storage, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Enters the threads' runtime, to which a client that is made meanwhile gives its tasks.
    #[cfg(any(feature = "clouds", feature = "rest", feature = "s3"))]
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs `requests`, unless a request to stop leaves no time for them.
    pub(crate) fn block_on<T, F: Passing>(
        &self,
        requests: impl Future<Output = Result<T, F>>,
    ) -> Result<T, F> {
        self.runtime.block_on(self.patience.unless_over(requests))
    }

    /// Reads about `len` bytes by `read`. A read that stalls is made twice, unless `throttle` limits the
    /// rate of what is received.
    #[cfg(any(feature = "clouds", feature = "s3"))]
    pub(crate) async fn read<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        throttle: &Throttle,
        len: u64,
        read: impl Fn() -> F,
    ) -> Result<T, E> {
        match throttle.waited(Direction::Download).is_zero() {
            true => {
                let done = self.reads.run(len, || self.patience.now_ns(), read, |_| false).await;
                done.map_err(|failed| failed.error)
            }
            false => read().await,
        }
    }

    /// Puts `len` bytes as the object `name` by `put`, which does not replace an object. A put that
    /// stalls is made twice if the name allows it ([`PUT_TWICE`]), unless `throttle` limits the rate of
    /// what is sent.
    ///
    /// # Errors
    ///
    /// Returns the failure of `put`. If the put was made twice, a failure that `is_answer` may tell one
    /// of both of the other's object. It is returned at once, as one after which the caller has to
    /// look for its own.
    #[cfg(any(feature = "clouds", feature = "s3"))]
    pub(crate) async fn put<T, E: Passing, F: Future<Output = Result<T, E>>>(
        &self,
        throttle: &Throttle,
        (name, len): (&str, u64),
        put: impl Fn() -> F,
        is_answer: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let folder = name.split_once('/').map_or("", |(folder, _)| folder);
        let is_limited = !throttle.waited(Direction::Upload).is_zero();
        if is_limited || !PUT_TWICE.contains(&folder) {
            return put().await;
        }
        let done = self.puts.run(len, || self.patience.now_ns(), put, &is_answer).await;
        done.map_err(|Failed { error, is_of_two }| match is_of_two && is_answer(&error) {
            true => error.again(),
            false => error,
        })
    }

    /// Runs the last requests of a storage, also after a request to stop.
    #[cfg(any(feature = "rest", feature = "sftp"))]
    pub(crate) fn finish<T>(&self, requests: impl Future<Output = T>) -> T {
        self.runtime.block_on(requests)
    }

    /// Makes `count` requests, several at a time, each of them once.
    pub(crate) fn at_once<T, F: Passing>(
        &self,
        count: usize,
        requests: impl Iterator<Item = impl Future<Output = Result<T, F>>>,
    ) -> Vec<Result<T, F>> {
        let answers = futures_util::stream::iter(requests).buffered(SMALL_REQUESTS_MAX);
        let answered = self.block_on(async { Ok(answers.collect::<Vec<_>>().await) });
        if let Ok(answered) = &answered
            && answered.iter().any(|answer: &Result<T, F>| answer.as_ref().is_err_and(F::is_outage))
        {
            self.patience.note_outage();
        }
        answered.unwrap_or_else(|_: F| (0..count).map(|_| Err(F::interrupted())).collect())
    }

    /// Repeats `act`, which is one attempt, until it succeeds or must not be tried again.
    pub(crate) fn tries<T, F: Passing>(
        &self,
        verb: &str,
        name: &str,
        act: impl FnMut() -> Result<T, F>,
    ) -> Result<T> {
        let tried = self.patience.attempts(act);
        tried.map_err(|(tries, failure)| self.error(verb, name, tries, failure))
    }

    /// Returns the error of a request for `name` that failed at attempt `tries`.
    pub(crate) fn error(&self, verb: &str, name: &str, tries: u32, failure: impl Passing) -> Error {
        let (address, text) = (&self.address, failure.text());
        let text = format!("cannot {verb} in {address}, attempt {tries}: {text}");
        failure.into_error(name, text)
    }
}
