//! Signed requests to an S3 server (AWS Signature Version 4), for what the storage under test cannot
//! ask for.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::digest::{hex, sha256};

/// The block size of SHA-256, in bytes.
const BLOCK_LEN: usize = 64;

/// Signs requests to one server with one access key.
pub(crate) struct Signer<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) region: &'a str,
    /// The host and the port of the server.
    pub(crate) host: &'a str,
}

impl Signer<'_> {
    /// Returns a whole request, signed now. `path` needs no encoding.
    pub(crate) fn sign(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let time = basic_time(now);
        let day = &time[..8];
        let sum = sha256(body.as_bytes());
        let (digest, checksum) = (hex(&sum), base64(&sum));
        let own = [
            ("host", self.host),
            ("x-amz-checksum-sha256", &checksum),
            ("x-amz-content-sha256", &digest),
            ("x-amz-date", &time),
        ];
        // Some requests with a body require a checksum.
        let own = if body.is_empty() { vec![own[0], own[2], own[3]] } else { own.to_vec() };
        let mut headers = [headers, &own[..]].concat();
        headers.sort_unstable();
        let mut query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        query.sort_unstable();
        let query = query.join("&");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let canonical = hex(&sha256(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}");
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [day, self.region, "s3", "aws4_request"] {
            key = hmac(&key, part.as_bytes()).to_vec();
        }
        let signature = hex(&hmac(&key, text.as_bytes()));
        let head: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!(
            "{method} {path}?{query} HTTP/1.1\r\n{head}content-length: {}\r\nauthorization: \
             AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}\r\n\
             connection: close\r\n\r\n{body}",
            body.len(),
            self.access_key
        )
    }
}

/// Returns the HMAC of `text` with SHA-256 (RFC 2104).
pub(crate) fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_LEN];
    let hashed = sha256(key);
    let key = if key.len() > BLOCK_LEN { &hashed } else { key };
    block[..key.len()].copy_from_slice(key);
    let inner = [&block.map(|byte| byte ^ 0x36)[..], text].concat();
    sha256(&[&block.map(|byte| byte ^ 0x5c)[..], &sha256(&inner)].concat())
}

/// Encodes bytes in Base64 (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=part.len()].copy_from_slice(part);
        let word = u32::from_be_bytes(word);
        for at in 0..4 {
            let digit = usize::from((word >> (18 - 6 * at)).to_le_bytes()[0] & 63);
            text.push(if at <= part.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    text
}

/// Encodes the characters of a query's value that are not plain.
fn encoded(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}

/// Returns a time in seconds since 1970 as `20261123T180000Z`.
fn basic_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats after 400 years, which begin in March here.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let times = [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_795_456_842, "20261123T180042Z"),
        ];
        for (seconds, time) in times {
            assert_eq!(basic_time(seconds), time);
        }
    }

    #[test]
    fn base64_equals_the_examples_of_its_standard() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(
            [of("f"), of("fo"), of("foo"), of("foob")],
            ["Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }

    /// The second test case of RFC 4231.
    #[test]
    fn hmac_equals_a_published_one() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), expected);
    }
}
