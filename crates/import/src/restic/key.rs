//! Key objects: the keys of a repository, sealed by a password.

use cutpoint_storage::{Error, Kind, Result};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::cipher::{Cipher, KEY_LEN};
use super::json::{Base64, decode};

/// The maximum memory of the key derivation in bytes. Restic itself uses 32 MiB to 128 MiB.
const MEMORY_MAX: u64 = 1 << 30;
/// The maximum work of the key derivation, in blocks of 128 bytes. Restic itself uses about 2^21.
const WORK_MAX: u64 = 1 << 26;

/// A key object.
#[derive(Deserialize)]
struct KeyFile {
    kdf: String,
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
    data: Base64,
    salt: Base64,
}

/// The plaintext of a key object.
#[derive(Deserialize)]
struct MasterKey {
    mac: MacKey,
    encrypt: Base64,
}

#[derive(Deserialize)]
struct MacKey {
    k: Base64,
    r: Base64,
}

/// Opens the key object `text` by a password. Returns `None` if the password is a wrong one.
///
/// # Errors
///
/// Returns `Corrupt` if the object is malformed, and `Unsupported` if it demands too much memory
/// or work.
pub(super) fn open(text: &[u8], password: &[u8]) -> Result<Option<Cipher>> {
    let file: KeyFile = decode(text)?;
    if file.kdf != "scrypt" {
        let message = format!("unknown key derivation `{}` (expected scrypt)", file.kdf);
        return Err(Error::new(Kind::Unsupported, "", message));
    }
    let memory = file.n.saturating_mul(u64::from(file.r)).saturating_mul(128);
    let work = memory.saturating_mul(u64::from(file.p)) / 128;
    if memory > MEMORY_MAX || work > WORK_MAX {
        let message = format!("the key derivation demands {memory} B (expected at most 1 GiB)");
        return Err(Error::new(Kind::Unsupported, "", message));
    }
    let log_n = file.n.checked_ilog2().filter(|log_n| 1 << log_n == file.n);
    let params = log_n.and_then(|log_n| u8::try_from(log_n).ok());
    let params = params.and_then(|log_n| scrypt::Params::new(log_n, file.r, file.p).ok());
    let Some(params) = params else {
        return Err(Error::corrupt("", "malformed: invalid numbers of the key derivation"));
    };
    let mut key = Zeroizing::new([0; KEY_LEN]);
    scrypt::scrypt(password, &file.salt.0, &params, &mut *key)
        .map_err(|error| Error::corrupt("", error))?;
    let opened = Cipher::of_key(&key).and_then(|cipher| cipher.open(&file.data.0).ok());
    let Some(opened) = opened.map(Zeroizing::new) else { return Ok(None) };
    let MasterKey { mac, encrypt } = decode(&opened)?;
    let (encrypt, k, r) = (Zeroizing::new(encrypt.0), Zeroizing::new(mac.k.0), mac.r.0);
    let cipher = Cipher::new(&encrypt, &k, &r);
    cipher.map(Some).ok_or_else(|| Error::corrupt("", "malformed: keys of a wrong length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_key_objects_cost_nothing() {
        let object = |n: &str, r: &str| {
            let text = format!(r#"{{"kdf":"scrypt","N":{n},"r":{r},"p":1,"data":"","salt":""}}"#);
            open(text.as_bytes(), b"password").expect_err("refused").kind()
        };
        assert_eq!(object("1099511627776", "8"), Kind::Unsupported);
        assert_eq!(object("18446744073709551615", "4294967295"), Kind::Unsupported);
        assert_eq!(object("1000", "8"), Kind::Corrupt);
        assert_eq!(object("0", "8"), Kind::Corrupt);
        assert_eq!(object("-1", "8"), Kind::Corrupt);
        for text in ["", "{}", "[]", r#"{"kdf":"argon2","N":2,"r":1,"p":1,"data":"","salt":""}"#] {
            open(text.as_bytes(), b"password").expect_err("refused");
        }
    }
}
