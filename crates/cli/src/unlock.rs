//! The sources of secrets: files, commands, the environment, the terminal.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use cutpoint_repository::repo::remembered::create_private_file;
use cutpoint_repository::{Secret, Unlock};
use cutpoint_storage::{Environment, System};
use zeroize::Zeroizing;

use crate::args::{Encryption, NewSecrets, Secrets};
use crate::exit::{Exit, Failure};
use crate::interrupt::Prompting;
use crate::report::Report;
use crate::{escape, recovery};

/// The first word of a key file. The key follows in hexadecimal.
const KEY_FILE_WORD: &str = "cutpoint-key-v1";

/// The environment variable with a passphrase.
const PASSPHRASE_VARIABLE: &str = "CUTPOINT_PASSPHRASE";

/// The maximum length of a passphrase or a key file, in bytes.
const SECRET_LEN_MAX: usize = 64 * 1024;

/// The permission bits of all users but the owner: of the group and of all others.
const OTHERS_MODE: u32 = 0o077;

/// The environment variable with the passphrase of a new key.
const NEW_PASSPHRASE_VARIABLE: &str = "CUTPOINT_NEW_PASSPHRASE";

/// The environment variable with the passphrase of the repository that `copy` reads.
const FROM_PASSPHRASE_VARIABLE: &str = "CUTPOINT_FROM_PASSPHRASE";

/// The environment variable with the password of a server of the REST protocol.
pub(crate) const REST_PASSWORD_VARIABLE: &str = "CUTPOINT_REST_PASSWORD";

/// The same for the server that `copy` reads.
pub(crate) const FROM_REST_PASSWORD_VARIABLE: &str = "CUTPOINT_FROM_REST_PASSWORD";

/// The environment variables with secrets of this program. They are withheld from the commands that
/// it runs.
pub(crate) const SECRET_VARIABLES: [&str; 5] = [
    PASSPHRASE_VARIABLE,
    NEW_PASSPHRASE_VARIABLE,
    FROM_PASSPHRASE_VARIABLE,
    REST_PASSWORD_VARIABLE,
    FROM_REST_PASSWORD_VARIABLE,
];

/// The possible sources of one secret. The first one present is used.
struct Sources<'a> {
    key_file: Option<&'a Path>,
    passphrase_file: Option<&'a Path>,
    passphrase_command: Option<&'a OsStr>,
    variable: &'static str,
}

impl<'a> Sources<'a> {
    fn of(secrets: &'a Secrets) -> Sources<'a> {
        Sources {
            key_file: secrets.key_file.as_deref(),
            passphrase_file: secrets.passphrase_file.as_deref(),
            passphrase_command: secrets.passphrase_command.as_deref(),
            variable: match secrets.is_source {
                true => FROM_PASSPHRASE_VARIABLE,
                false => PASSPHRASE_VARIABLE,
            },
        }
    }

    fn of_new(secrets: &'a NewSecrets) -> Sources<'a> {
        Sources {
            key_file: secrets.new_key_file.as_deref(),
            passphrase_file: secrets.new_passphrase_file.as_deref(),
            passphrase_command: secrets.new_passphrase_command.as_deref(),
            variable: NEW_PASSPHRASE_VARIABLE,
        }
    }
}

/// Returns the secret that the user has named for opening a repository; `None` if none is named.
pub(crate) fn given(secrets: &Secrets, report: &Report) -> Result<Option<Unlock>> {
    if secrets.encryption == Some(Encryption::None) {
        refuse_secret(secrets)?;
        return Ok(Some(Unlock::Nothing));
    }
    if let Some(path) = &secrets.key_file {
        return read_key_file(path, report).map(Some);
    }
    passphrase(&Sources::of(secrets), report)
}

/// Reads the secrets in these files: passphrases and key files.
pub(crate) fn in_files(
    passphrase_files: &[PathBuf],
    key_files: &[PathBuf],
    report: &Report,
) -> Result<Vec<Unlock>> {
    let passphrases = passphrase_files.iter().map(|path| read_passphrase(path, report));
    let keys = key_files.iter().map(|path| match read_key_file(path, report)? {
        Unlock::Keyring(_) => Err(is_kit(path).into()),
        unlock => Ok(unlock),
    });
    passphrases.chain(keys).collect()
}

fn is_kit(path: &Path) -> Failure {
    Failure::failed(format!(
        "{}: a recovery kit belongs to one repository, and cannot be the key of a new repository \
         or a new key",
        path.display()
    ))
}

/// Returns `true` if there is a terminal to prompt at.
pub(crate) fn can_ask() -> bool {
    // The answer is read from the terminal itself, because standard input may be the data to save.
    io::stderr().is_terminal() && fs::File::open("/dev/tty").is_ok()
}

/// Waits until Enter is pressed at the terminal, after showing `prompt` there. Returns at once if
/// there is no terminal.
pub(crate) fn wait_for_enter(prompt: &str) {
    let Ok(terminal) = fs::File::open("/dev/tty") else { return };
    write!(io::stderr(), "{prompt}").ok();
    // The end of the terminal counts as the key.
    io::BufReader::new(terminal).read_line(&mut String::new()).ok();
}

/// Prompts for the passphrase of an existing repository.
pub(crate) fn ask(repository: &str) -> Result<Unlock> {
    let prompt = format!("Passphrase of {}: ", escape::for_terminal(repository.as_bytes()));
    let passphrase = prompt_passphrase(&prompt)?;
    Ok(Unlock::Passphrase(passphrase))
}

/// Returns the secret of another program's repository: from a file, a command or a variable. `None`
/// if none is given.
#[cfg(feature = "import")]
pub(crate) fn of_other(
    file: Option<&Path>,
    command: Option<&OsStr>,
    variable: &'static str,
    report: &Report,
) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let sources =
        Sources { key_file: None, passphrase_file: file, passphrase_command: command, variable };
    Ok(match passphrase(&sources, report)? {
        Some(Unlock::Passphrase(passphrase)) => Some(passphrase),
        _ => None,
    })
}

/// Returns the output of a command that prints the secret of another program's repository.
#[cfg(feature = "import")]
pub(crate) fn output_of(command: &OsStr) -> Result<Zeroizing<Vec<u8>>> {
    Ok(without_line_end(run_command(command)?))
}

/// Prompts for the secret of another program's repository. Fails with `remedy` if there is no
/// terminal.
#[cfg(feature = "import")]
pub(crate) fn ask_other(repository: &str, remedy: &'static str) -> Result<Zeroizing<Vec<u8>>> {
    if !can_ask() {
        let message = format!("{repository}: no password given");
        return Err(Failure::new(Exit::WrongKey, message).with_remedy(remedy).into());
    }
    let shown = escape::for_terminal(repository.as_bytes());
    prompt_passphrase(&format!("Password of {shown}: "))
}

/// The secret of a new repository or of a new key, and the path of the key file if one was created
/// for it.
pub(crate) struct NewSecret<'a> {
    /// The secret.
    pub(crate) unlock: Unlock,
    made: Option<&'a Path>,
}

impl NewSecret<'_> {
    /// Returns the path of the key file that was created.
    pub(crate) fn made_file(&self) -> Option<&Path> {
        self.made
    }
}

/// Returns the secret of a new object, a repository or a volume: the named one, or a passphrase typed
/// twice.
pub(crate) fn for_new<'a>(
    secrets: &'a Secrets,
    object: &str,
    report: &Report,
) -> Result<NewSecret<'a>> {
    if secrets.encryption == Some(Encryption::None) {
        refuse_secret(secrets)?;
        return Ok(NewSecret { unlock: Unlock::Nothing, made: None });
    }
    let prompt = format!("Passphrase of the new {object}: ");
    new_by(&Sources::of(secrets), &prompt, report)?.ok_or_else(|| {
        let message = format!("no passphrase and no key given for the new {object}");
        Failure::new(Exit::WrongKey, message)
            .with_remedy(
                "give one with CUTPOINT_PASSPHRASE, --passphrase-file, --passphrase-command or \
                 --key-file, or use --encryption none",
            )
            .into()
    })
}

/// Returns the secret of a new key of a repository: the named one, or a passphrase typed twice.
pub(crate) fn for_new_key<'a>(secrets: &'a NewSecrets, report: &Report) -> Result<NewSecret<'a>> {
    new_by(&Sources::of_new(secrets), "Passphrase of the new key: ", report)?.ok_or_else(|| {
        Failure::failed("no secret given for the new key")
            .with_remedy(
                "give one with CUTPOINT_NEW_PASSPHRASE, --new-passphrase-file, \
                 --new-passphrase-command or --new-key-file",
            )
            .into()
    })
}

/// Returns a new secret; `None` if none is named and there is no terminal to prompt at.
fn new_by<'a>(
    sources: &Sources<'a>,
    prompt: &str,
    report: &Report,
) -> Result<Option<NewSecret<'a>>> {
    let named = |unlock| Ok(Some(NewSecret { unlock, made: None }));
    if let Some(path) = sources.key_file {
        if !path.exists() {
            return Ok(Some(NewSecret { unlock: make_key_file(path)?, made: Some(path) }));
        }
        return match read_key_file(path, report)? {
            Unlock::Keyring(_) => Err(is_kit(path).into()),
            unlock => named(unlock),
        };
    }
    if let Some(unlock) = passphrase(sources, report)? {
        return named(unlock);
    }
    if !can_ask() {
        return Ok(None);
    }
    let passphrase = prompt_passphrase(prompt)?;
    if prompt_passphrase("Repeat the passphrase: ")? != passphrase {
        return Err(Failure::new(Exit::WrongKey, "the passphrases differ").into());
    }
    named(Unlock::Passphrase(passphrase))
}

fn refuse_secret(secrets: &Secrets) -> Result<()> {
    let named = secrets.key_file.is_some()
        || secrets.passphrase_file.is_some()
        || secrets.passphrase_command.is_some();
    if named {
        let message = "--encryption none cannot be combined with a passphrase or key";
        return Err(Failure::failed(message).into());
    }
    Ok(())
}

fn passphrase(sources: &Sources<'_>, report: &Report) -> Result<Option<Unlock>> {
    if let Some(path) = sources.passphrase_file {
        return read_passphrase(path, report).map(Some);
    }
    if let Some(command) = sources.passphrase_command {
        return as_passphrase(run_command(command)?, "passphrase command").map(Some);
    }
    use std::os::unix::ffi::OsStringExt;
    let variable = std::env::var_os(sources.variable).map(OsStringExt::into_vec);
    // An empty variable counts as unset, because a script may have no other way to unset it.
    let passphrase = variable.map(Zeroizing::new).filter(|passphrase| !passphrase.is_empty());
    Ok(passphrase.map(Unlock::Passphrase))
}

fn read_passphrase(path: &Path, report: &Report) -> Result<Unlock> {
    let bytes = read_secret(path, "passphrase file", report)?;
    as_passphrase(bytes, &path.display().to_string())
}

fn as_passphrase(bytes: Zeroizing<Vec<u8>>, origin: &str) -> Result<Unlock> {
    let passphrase = without_line_end(bytes);
    if passphrase.is_empty() {
        return Err(Failure::new(Exit::WrongKey, format!("{origin}: empty passphrase")).into());
    }
    Ok(Unlock::Passphrase(passphrase))
}

/// Removes one line end at the end, which editors add.
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
    let prompting = Prompting::begin();
    let passphrase = rpassword::prompt_password(prompt);
    drop(prompting);
    let passphrase = match passphrase {
        // Ctrl-C was pressed; the signal follows.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Err(
                Failure::new(Exit::Interrupted, cutpoint_terminal::report::INTERRUPTED).into()
            );
        }
        other => other.context("cannot prompt for a passphrase")?,
    };
    let passphrase = Zeroizing::new(passphrase.into_bytes());
    if passphrase.is_empty() {
        return Err(Failure::new(Exit::WrongKey, "empty passphrase").into());
    }
    Ok(passphrase)
}

fn run_command(command: &OsStr) -> Result<Zeroizing<Vec<u8>>> {
    let context = || "cannot run the passphrase command";
    let mut shell = Command::new("sh");
    for variable in SECRET_VARIABLES {
        shell.env_remove(variable);
    }
    let mut child = shell
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(context)?;
    let secret = child.stdout.take().map(read_bounded);
    let status = child.wait().with_context(context)?;
    if !status.success() {
        let message = format!(
            "passphrase command {}: failed ({status})",
            escape::for_terminal(std::os::unix::ffi::OsStrExt::as_bytes(command))
        );
        let remedy = "the command must print the passphrase to standard output and end with 0";
        return Err(Failure::new(Exit::WrongKey, message).with_remedy(remedy).into());
    }
    Ok(secret.transpose().with_context(context)?.unwrap_or_default())
}

fn read_secret(path: &Path, what: &str, report: &Report) -> Result<Zeroizing<Vec<u8>>> {
    let context = || format!("{what} {}", path.display());
    let file = fs::File::open(path).with_context(context)?;
    let about = file.metadata().with_context(context)?;
    if about.is_file() && about.mode() & OTHERS_MODE != 0 {
        let mode = about.mode() & 0o7777;
        let others = if mode & 0o007 == 0 { "the group" } else { "every user of this machine" };
        let shown = path.display();
        report.warning(
            path,
            &format!(
                "accessible to {others} (mode {mode:04o}, expected 0600 or less); `chmod 600 \
                 {shown}` prevents that"
            ),
        );
    }
    read_bounded(file).with_context(context)
}

/// Reads a secret into a buffer of full size, because a vector that grows leaves copies behind.
fn read_bounded(source: impl io::Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_LEN_MAX + 1));
    source.take(SECRET_LEN_MAX as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_key_file(path: &Path, report: &Report) -> Result<Unlock> {
    let bytes = read_secret(path, "key file", report)?;
    let is_wrong = |why: &str| {
        Failure::new(Exit::WrongKey, format!("{}: {why}", path.display())).with_remedy(
            "`cutpoint init --key-file FILE` creates the key file if FILE does not exist",
        )
    };
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(is_wrong("neither a key file nor a recovery kit").into());
    };
    if let Some(hex) = text.trim().strip_prefix(KEY_FILE_WORD) {
        let key = recovery::parse_hex(hex.trim())
            .and_then(|key| <[u8; 32]>::try_from(&key[..]).ok())
            .ok_or_else(|| {
                is_wrong("damaged key file (expected 64 hexadecimal digits after the first word)")
            })?;
        return Ok(Unlock::KeyFile(Secret(key)));
    }
    if recovery::is_kit(text) {
        return recovery::parse(text).map(Unlock::Keyring).map_err(|error| is_wrong(&error).into());
    }
    Err(is_wrong("neither a key file nor a recovery kit").into())
}

/// Creates a key file that no other user can read. The file must not exist.
fn make_key_file(path: &Path) -> Result<Unlock> {
    let mut key = Secret([0; 32]);
    System.random(&mut key.0)?;
    let text =
        Zeroizing::new(format!("{KEY_FILE_WORD} {}\n", *Zeroizing::new(escape::hex(&key.0))));
    create_private_file(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .with_context(|| format!("key file {}", path.display()))?;
    Ok(Unlock::KeyFile(key))
}
