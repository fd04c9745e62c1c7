//! Where secrets come from: files, commands, the environment, the terminal.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use cutpoint_store::environment::{Environment, System};
use cutpoint_store::seal::{Secret, Unlock};
use zeroize::Zeroizing;

use crate::args::{Encryption, Secrets};
use crate::escape;
use crate::exit::{Exit, Failure};
use crate::recovery;

/// The first word of a key file; the key follows, in hexadecimal.
const KEY_FILE_WORD: &str = "cutpoint-key-v1";

/// The environment variable with a passphrase.
const PASSPHRASE_VARIABLE: &str = "CUTPOINT_PASSPHRASE";

/// More than this is no passphrase and no key file, in bytes.
const SECRET_LEN_MAX: u64 = 64 * 1024;

/// The secret that the user has named, for opening a repository; `None` where none is named.
pub(crate) fn given(secrets: &Secrets) -> Result<Option<Unlock>> {
    if secrets.encryption == Some(Encryption::None) {
        refuse_secret(secrets)?;
        return Ok(Some(Unlock::Nothing));
    }
    if let Some(path) = &secrets.key_file {
        return read_key_file(path).map(Some);
    }
    passphrase(secrets)
}

/// Whether a person can be asked.
pub(crate) fn can_ask() -> bool {
    // The answer is read from the terminal itself: standard input may be what is to be saved.
    io::stderr().is_terminal() && fs::File::open("/dev/tty").is_ok()
}

/// Asks a person for the passphrase of an existing repository.
pub(crate) fn ask(repository: &str) -> Result<Unlock> {
    let prompt = format!("Passphrase of {}: ", escape::for_terminal(repository.as_bytes()));
    let passphrase = prompt_passphrase(&prompt)?;
    Ok(Unlock::Passphrase(passphrase))
}

/// What is to unlock a new repository, and the path of a key file if one was made for it.
pub(crate) struct NewSecret<'a> {
    /// The secret.
    pub(crate) unlock: Unlock,
    made: Option<&'a Path>,
}

impl NewSecret<'_> {
    /// The path of the key file that was made.
    pub(crate) fn made_file(&self) -> Option<&Path> {
        self.made
    }
}

/// The secret for a new repository: as named, else asked for twice.
pub(crate) fn for_new(secrets: &Secrets) -> Result<NewSecret<'_>> {
    let named = |unlock| NewSecret { unlock, made: None };
    if secrets.encryption == Some(Encryption::None) {
        refuse_secret(secrets)?;
        return Ok(named(Unlock::Nothing));
    }
    if let Some(path) = &secrets.key_file {
        if !path.exists() {
            return Ok(NewSecret { unlock: make_key_file(path)?, made: Some(path) });
        }
        let unlock = read_key_file(path)?;
        if matches!(unlock, Unlock::Keyring(_)) {
            let message = format!(
                "{} is a recovery kit; it opens the repository that it belongs to, and cannot be \
                 the key of a new one",
                path.display()
            );
            return Err(Failure::failed(message).into());
        }
        return Ok(named(unlock));
    }
    if let Some(unlock) = passphrase(secrets)? {
        return Ok(named(unlock));
    }
    if !can_ask() {
        return Err(Failure::new(Exit::WrongKey, "a new repository needs a passphrase or a key")
            .with_remedy(
                "give one with CUTPOINT_PASSPHRASE, --passphrase-file, --passphrase-command or \
                 --key-file, or say --encryption none",
            )
            .into());
    }
    let passphrase = prompt_passphrase("Passphrase of the new repository: ")?;
    if prompt_passphrase("The same again: ")? != passphrase {
        return Err(Failure::new(Exit::WrongKey, "the two passphrases differ").into());
    }
    Ok(named(Unlock::Passphrase(passphrase)))
}

fn refuse_secret(secrets: &Secrets) -> Result<()> {
    let named = secrets.key_file.is_some()
        || secrets.passphrase_file.is_some()
        || secrets.passphrase_command.is_some();
    if named {
        let message = "--encryption none and a passphrase or key do not go together";
        return Err(Failure::failed(message).into());
    }
    Ok(())
}

fn passphrase(secrets: &Secrets) -> Result<Option<Unlock>> {
    let (bytes, origin) = if let Some(path) = &secrets.passphrase_file {
        (read_secret(path, "passphrase file")?, path.display().to_string())
    } else if let Some(command) = &secrets.passphrase_command {
        (run_command(command)?, "the passphrase command".to_owned())
    } else if let Some(passphrase) = std::env::var_os(PASSPHRASE_VARIABLE) {
        use std::os::unix::ffi::OsStringExt;
        // Set to nothing is as good as not set: a script may have no other way to take it back.
        if passphrase.is_empty() {
            return Ok(None);
        }
        return Ok(Some(Unlock::Passphrase(Zeroizing::new(passphrase.into_vec()))));
    } else {
        return Ok(None);
    };
    let passphrase = without_line_end(bytes);
    if passphrase.is_empty() {
        return Err(Failure::new(Exit::WrongKey, format!("{origin}: gives no passphrase")).into());
    }
    Ok(Some(Unlock::Passphrase(passphrase)))
}

/// One line end at the end is the editor's, not the passphrase's.
fn without_line_end(mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}

fn prompt_passphrase(prompt: &str) -> Result<Zeroizing<Vec<u8>>> {
    let passphrase = rpassword::prompt_password(prompt).context("cannot ask for a passphrase")?;
    let passphrase = Zeroizing::new(passphrase.into_bytes());
    if passphrase.is_empty() {
        return Err(Failure::new(Exit::WrongKey, "no passphrase was given").into());
    }
    Ok(passphrase)
}

fn run_command(command: &std::ffi::OsStr) -> Result<Zeroizing<Vec<u8>>> {
    let output = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run the passphrase command")?;
    let stdout = Zeroizing::new(output.stdout);
    if !output.status.success() {
        let message = format!("the passphrase command failed: {}", output.status);
        return Err(Failure::new(Exit::WrongKey, message).into());
    }
    Ok(stdout)
}

fn read_secret(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>> {
    let context = || format!("{what} {}", path.display());
    let file = fs::File::open(path).with_context(context)?;
    let mut bytes = Zeroizing::new(Vec::new());
    io::Read::read_to_end(&mut io::Read::take(file, SECRET_LEN_MAX), &mut bytes)
        .with_context(context)?;
    Ok(bytes)
}

fn read_key_file(path: &Path) -> Result<Unlock> {
    let bytes = read_secret(path, "key file")?;
    let is_wrong = |why: &str| {
        Failure::new(Exit::WrongKey, format!("{}: {why}", path.display()))
            .with_remedy("`cutpoint init --key-file FILE` makes a key file that does not exist yet")
    };
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(is_wrong("is neither a key file nor a recovery kit").into());
    };
    if let Some(hex) = text.trim().strip_prefix(KEY_FILE_WORD) {
        let key = recovery::parse_hex(hex.trim())
            .and_then(|key| <[u8; 32]>::try_from(&key[..]).ok())
            .ok_or_else(|| is_wrong("is damaged: 64 hexadecimal digits should follow the word"))?;
        return Ok(Unlock::KeyFile(Secret(key)));
    }
    if recovery::is_kit(text) {
        return recovery::parse(text).map(Unlock::Keyring).map_err(|error| is_wrong(&error).into());
    }
    Err(is_wrong("is neither a key file nor a recovery kit").into())
}

/// Makes a key file that nobody else can read; it must not exist.
fn make_key_file(path: &Path) -> Result<Unlock> {
    let mut key = Secret([0; 32]);
    System.random(&mut key.0)?;
    let text =
        Zeroizing::new(format!("{KEY_FILE_WORD} {}\n", *Zeroizing::new(escape::hex(&key.0))));
    create_private(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .with_context(|| format!("key file {}", path.display()))?;
    Ok(Unlock::KeyFile(key))
}

/// Makes a file that must not exist, for its owner only.
pub(crate) fn create_private(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
