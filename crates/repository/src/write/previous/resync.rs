//! Resynchronization: the position of the new stream after much was inserted or removed.

use cutpoint_delta::Resync;
use cutpoint_storage::Result;

use super::stream::{AROUND_LEN, OldStream, RESYNC_LEN_MAX};
use crate::write::references::References;

/// Length of old bytes to index for one new chunk, as a multiple of the length of the chunk.
const AHEAD_TIMES: u64 = 8;

/// Finds the position of a new stream that is out of sync, in a long stretch of its old stream.
#[derive(Debug, Default)]
pub(super) struct Resynchronizer {
    /// Created at the first use, because it takes 4 MiB.
    index: Option<Resync>,
}

impl Resynchronizer {
    /// Sets the expected position of `stream` to that of `chunk`, if it is found further ahead.
    pub(super) fn find(
        &mut self,
        references: &References<'_>,
        stream: &mut OldStream<'_>,
        chunk: &[u8],
    ) -> Result<()> {
        let begin = stream.pieces.start().unwrap_or(stream.known);
        let first = stream.known.saturating_sub(AROUND_LEN).max(begin);
        let capacity = usize::try_from(RESYNC_LEN_MAX).unwrap_or(usize::MAX);
        let index = self.index.get_or_insert_with(|| Resync::new(capacity, first));
        if !std::mem::replace(&mut stream.is_resyncing, true) {
            index.restart(first);
        }
        let wanted = index.end() + chunk.len() as u64 * AHEAD_TIMES;
        let wanted = wanted.min(first + RESYNC_LEN_MAX);
        let mut number = stream.pieces.number_at(index.end());
        while index.end() < wanted {
            let Some(old) = stream.pieces.get(number) else { break };
            // The first piece is used only from the end of the index on, because what lies before
            // it is of no use.
            let skipped = usize::try_from(index.end().saturating_sub(old.position)).unwrap_or(0);
            let piece = references.piece(&old.fingerprint, (old.offset, old.len), |_| Ok(true));
            let piece = match piece {
                Err(error) if !error.is_loss() => return Err(error),
                piece => piece.ok().flatten(),
            };
            let bytes =
                piece.as_ref().and_then(|(chunk, range)| chunk.get(range.clone())?.get(skipped..));
            match bytes {
                Some(bytes) => index.push(bytes),
                // An unreadable piece is skipped.
                None => index.restart(old.end()),
            }
            number += 1;
        }
        if let Some(position) = index.locate(chunk) {
            stream.expected = position;
        }
        Ok(())
    }
}
