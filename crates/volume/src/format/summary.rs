//! A summary: the blocks of the records before it.

use super::cursor::{Cursor, put_varint};
use super::record::{Body, SUMMARIZED_MAX};
use super::span::Span;

/// A record as summaries have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summarized {
    /// The blocks that a client has written by the record.
    pub(crate) span: Span,
    /// `Some(false)` and `Some(true)` for the first and the second one of two equal records.
    pub(crate) is_copy: Option<bool>,
}

impl Summarized {
    pub(crate) fn of(body: &Body) -> Summarized {
        let is_copy = match body {
            Body::Change { is_copy, .. } | Body::Fold { is_copy, .. } => Some(*is_copy),
            _ => None,
        };
        Summarized { span: body.written(), is_copy }
    }

    /// Returns the bytes of records, from the oldest to the newest.
    pub(crate) fn encode_all<'a>(records: impl IntoIterator<Item = &'a Summarized>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Summarized { span, is_copy } in records {
            bytes.push(is_copy.map_or(0, |is_copy| 1 + u8::from(is_copy)));
            for number in [span.layer.into(), span.first, span.count.into()] {
                put_varint(&mut bytes, number);
            }
        }
        bytes
    }

    /// Decodes all records of a payload. Returns `None` if the bytes are none.
    pub(crate) fn decode_all(bytes: &[u8]) -> Option<Vec<Summarized>> {
        let mut rest = Cursor(bytes);
        let mut records = Vec::new();
        while !rest.0.is_empty() {
            let is_copy = match rest.u8()? {
                0 => None,
                code @ 1..=2 => Some(code == 2),
                _ => return None,
            };
            let layer = u32::try_from(rest.varint()?).ok()?;
            let (first, count) = (rest.varint()?, u32::try_from(rest.varint()?).ok()?);
            records.push(Summarized { span: Span { layer, first, count }, is_copy });
        }
        (records.len() <= SUMMARIZED_MAX).then_some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::SUMMARY_LEN_MAX;
    use super::*;

    #[test]
    fn records_survive_their_bytes() {
        let largest = Span { layer: u32::MAX, first: u64::MAX, count: u32::MAX };
        let records: Vec<_> = [Span::default(), largest, Span { layer: 1, first: 300, count: 1 }]
            .into_iter()
            .zip([None, Some(false), Some(true)])
            .map(|(span, is_copy)| Summarized { span, is_copy })
            .cycle()
            .take(SUMMARIZED_MAX)
            .collect();
        let bytes = Summarized::encode_all(&records);
        assert_eq!(Summarized::decode_all(&bytes), Some(records.clone()));
        let all_largest = vec![records[1]; SUMMARIZED_MAX];
        assert_eq!(Summarized::encode_all(&all_largest).len(), SUMMARY_LEN_MAX);
        let too_many = [bytes.as_slice(), &bytes[..4]].concat();
        assert_eq!(Summarized::decode_all(&too_many), None);
        assert_eq!(Summarized::decode_all(&[3, 1, 1, 1]), None);
        assert_eq!(Summarized::decode_all(&[0, 1, 1]), None);
    }
}
