//! Parameters of a request. Names of files are any bytes, so values are bytes.

use percent_encoding::percent_decode_str;

use super::failure::Failure;
pub(super) use crate::chart::encoded;

/// The parameters of a request, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Parses the part of an address behind its question mark.
    pub(super) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), percent_decode_str(value).collect())
        };
        Query(pairs.map(pair).collect())
    }

    /// Returns the bytes of a parameter.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// Returns a parameter as text, if it is valid UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.bytes(name).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns a parameter that must be there.
    ///
    /// # Errors
    ///
    /// Fails if it is missing or no text.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name).ok_or_else(|| Failure::refused(format!("the parameter {name} is missing")))
    }

    /// Returns a number; `default` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the parameter is no number.
    pub(super) fn number(&self, name: &str, default: usize) -> Result<usize, Failure> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| Failure::refused(format!("the parameter {name} is no number"))),
        }
    }

    /// Returns the names of the path in the parameter `path`.
    pub(super) fn path(&self) -> Vec<&[u8]> {
        names(self.bytes("path").unwrap_or_default()).collect()
    }
}

/// Returns the names in a path.
pub(super) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_keeps_bytes_that_are_not_utf_8() {
        let query = Query::parse("path=/a%2fb%ff/c&from=7");
        assert_eq!(query.path(), [b"a".as_slice(), b"b\xff", b"c"], "a slash separates");
        assert_eq!(query.number("from", 0).ok(), Some(7), "a number");
        assert_eq!(query.number("count", 5).ok(), Some(5), "a default");
        assert!(query.required("snapshot").is_err(), "missing");
        assert_eq!(encoded(b"a/<\xff"), "a%2F%3C%FF", "and back");
    }
}
