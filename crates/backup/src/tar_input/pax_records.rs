//! The records of a PAX header.

use std::io;

use cutpoint_repository::Time;

/// The records of the extended headers before a member, in their order: keywords and values. Of
/// several records with the same keyword, the last one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct PaxRecords(Vec<(Vec<u8>, Vec<u8>)>);

impl PaxRecords {
    /// Appends the records of the extended header `bytes`. Each is `LENGTH KEYWORD=VALUE` and a line
    /// feed; the length counts all of it.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` for a malformed record.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // Some programs pad with zeros.
            if bytes.iter().all(|&byte| byte == 0) {
                break;
            }
            let (record, rest) = split_record(bytes).ok_or_else(malformed)?;
            let at = record.iter().position(|&byte| byte == b'=').ok_or_else(malformed)?;
            self.0.push((record[..at].to_vec(), record[at + 1..].to_vec()));
            bytes = rest;
        }
        Ok(())
    }

    /// Returns the value of the keyword, if there is one. An empty value stands for none.
    pub(super) fn get(&self, keyword: &str) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(each, _)| each == keyword.as_bytes());
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// Returns the decimal number of the keyword.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the value is no number.
    pub(super) fn number(&self, keyword: &str) -> io::Result<Option<u64>> {
        self.get(keyword).map(|value| decimal(value).ok_or_else(malformed)).transpose()
    }

    /// Returns the time of the keyword; `None` if there is none or it is no time.
    pub(super) fn time(&self, keyword: &str) -> Option<Time> {
        self.get(keyword).and_then(time)
    }

    /// Returns all keywords and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(keyword, value)| (keyword.as_slice(), value.as_slice()))
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed PAX header in the tar archive")
}

/// Splits off the first record, without its length and its line feed.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // A length has at most 20 digits.
    let space = bytes.iter().take(21).position(|&byte| byte == b' ')?;
    let len = usize::try_from(decimal(&bytes[..space])?).ok()?;
    let record = bytes.get(space + 1..len)?;
    let (last, record) = record.split_last()?;
    (*last == b'\n').then_some((record, &bytes[len..]))
}

/// Parses a decimal number.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Parses a decimal number of seconds since 1970. Digits after the ninth are dropped.
fn time(text: &[u8]) -> Option<Time> {
    let (is_negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let fraction = text.get(point + 1..).unwrap_or_default();
    let mut digits = [b'0'; 9];
    for (digit, &given) in digits.iter_mut().zip(fraction) {
        *digit = given;
    }
    let (whole, nanoseconds) = (decimal(&text[..point])?, decimal(&digits)?);
    let nanoseconds = u32::try_from(nanoseconds).ok()?;
    if !is_negative {
        return Some(Time { seconds: i64::try_from(whole).ok()?, nanoseconds });
    }
    // The nanoseconds count forward from a whole second.
    let seconds = 0_i64.checked_sub_unsigned(whole)?;
    Some(match nanoseconds {
        0 => Time { seconds, nanoseconds },
        _ => Time { seconds: seconds.checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_values_of_any_bytes() {
        let mut records = PaxRecords::default();
        records.append(b"13 path=a=\n\n\n9 path=b\n11 size=12\n\0\0\0").expect("well formed");
        assert_eq!(records.get("path"), Some(&b"b"[..]), "the last one");
        assert_eq!(records.number("size").ok(), Some(Some(12)), "a number");
        assert_eq!(records.iter().next(), Some((&b"path"[..], &b"a=\n\n"[..])), "any bytes");
        let malformed = [
            &b"9 path=b"[..],
            b"12 path=b\n",
            b"0 path=b\n",
            b"1 \n",
            b"6 path\n",
            b"99999999999999999999 path=b\n",
            b"18446744073709551615 a=b\n",
            b"x path=b\n",
            b" =\n",
        ];
        for bytes in malformed {
            let text = String::from_utf8_lossy(bytes);
            assert!(PaxRecords::default().append(bytes).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn times_are_decimal_numbers() {
        for (text, seconds, nanoseconds) in [
            ("0", 0, 0),
            ("1.5", 1, 500_000_000),
            ("1.0000000019", 1, 1),
            ("-1", -1, 0),
            ("-0.5", -1, 500_000_000),
            ("-1.000000001", -2, 999_999_999),
        ] {
            let expected = Time { seconds, nanoseconds };
            assert_eq!(time(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["", "-", "1.x", "x", "1e5", "99999999999999999999"] {
            assert_eq!(time(text.as_bytes()), None, "{text:?} was accepted");
        }
    }
}
