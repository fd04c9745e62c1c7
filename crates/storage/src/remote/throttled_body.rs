//! The body of a request, which is sent no faster than a limit.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::throttle::{Direction, Throttle};

/// A body of known length. Each piece takes tokens before it is sent. A body that is given up takes
/// no more of them.
#[derive(Debug)]
pub(crate) struct ThrottledBody {
    rest: Bytes,
    throttle: Throttle,
    /// The wait for the next piece, and the length of that piece.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl ThrottledBody {
    /// Creates a body of `bytes`.
    pub(crate) fn new(bytes: Bytes, throttle: &Throttle) -> ThrottledBody {
        ThrottledBody { rest: bytes, throttle: throttle.clone(), waiting: None }
    }
}

impl Body for ThrottledBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        let len = match &mut this.waiting {
            Some((sleep, len)) => {
                if sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                *len
            }
            None => {
                let piece_len = this.throttle.piece_len(Direction::Upload).unwrap_or(usize::MAX);
                let len = piece_len.min(this.rest.len());
                let time = this.throttle.take(Direction::Upload, len);
                if !time.is_zero() {
                    let mut sleep = Box::pin(tokio::time::sleep(time));
                    if sleep.as_mut().poll(context).is_pending() {
                        this.waiting = Some((sleep, len));
                        return Poll::Pending;
                    }
                }
                len
            }
        };
        this.waiting = None;
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
