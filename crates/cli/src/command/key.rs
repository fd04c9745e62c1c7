//! `key`: manages the keys that open the repository.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cutpoint_repository::repo::keys::{KeyEntry, KeyEpoch, OtherKeysPolicy};
use cutpoint_repository::{KeyMethod, Repository, Unlock};

use crate::args::{Global, Key, KeyAdd, KeyCommand, KeyRemove, KeyRotate, NewSecrets};
use crate::defaults::ID_DIGITS_MIN;
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::recovery::Kit;
use crate::report::Report;
use crate::session::Session;
use crate::units::DATE_TIME_WIDTH;
use crate::{escape, machine_key, units, unlock};

/// The number of digits shown of the id of a key.
const ID_DIGITS: usize = 8;

pub(crate) fn run(args: &Key, global: &Global, report: &Report) -> Result<Exit> {
    let (mut session, unlock) = Session::open_with_secret(global, report)?;
    session.look_for_heads(report)?;
    session.state.save(report);
    match &args.command {
        KeyCommand::List => list(&session, report),
        KeyCommand::Add(add) => self::add(add, &session, report),
        KeyCommand::Remove(remove) => self::remove(remove, &session, report),
        KeyCommand::Passwd(secrets) => passwd(secrets, &mut session, report),
        KeyCommand::Rotate(rotate) => self::rotate(rotate, unlock, &mut session, report),
    }?;
    session.state.set_settings(&session.repository);
    session.state.save(report);
    Ok(Exit::of_problems(report.problem_count()))
}

fn list(session: &Session, report: &Report) -> Result<()> {
    let repository = &session.repository;
    let entries = repository.list_keys()?;
    if report.is_json() {
        return entries.iter().try_for_each(|entry| report.event(&Event::Key(as_event(entry))));
    }
    report.line(&format!(
        "{:<ID_DIGITS$}  {:<12}  {:<DATE_TIME_WIDTH$}  {:<7}  label",
        "id", "opened by", "created", "state"
    ))?;
    for entry in &entries {
        let made = entry.about.as_ref().map_or_else(
            || "unknown".to_owned(),
            |about| units::date_time(about.made_ns.div_euclid(1_000_000_000)),
        );
        let label = entry.about.as_ref().map_or("", |about| &about.label);
        let line = format!(
            "{}  {:<12}  {made:<DATE_TIME_WIDTH$}  {:<7}  {}",
            shown(entry.id),
            method_name(entry),
            state_name(entry),
            escape::for_terminal(label.as_bytes())
        );
        report.line(line.trim_end())?;
    }
    report.flush()?;
    if repository.key_id().is_none() {
        report.note("The repository was opened with a recovery kit that is not in the list.");
    }
    explain(&entries, report);
    Ok(())
}

/// Prints remarks about keys in an unusual state.
fn explain(entries: &[KeyEntry], report: &Report) {
    let told = |is_odd: fn(&KeyEntry) -> bool, what: &str| {
        let odd: Vec<String> = entries.iter().filter(|e| is_odd(e)).map(|e| shown(e.id)).collect();
        if !odd.is_empty() {
            report.note(&format!("{}: {what}", odd.join(", ")));
        }
    };
    told(
        |entry| entry.epoch == KeyEpoch::Old,
        "created before the newest epoch; no longer opens the repository",
    );
    told(
        |entry| entry.epoch == KeyEpoch::Unknown && entry.copy_count > 0,
        "from a `key rotate` that was interrupted or is still running",
    );
    told(|entry| entry.copy_count == 0, "both copies are damaged");
    told(
        |entry| entry.copy_count == 1,
        "only one of the two copies is intact; add the key again and remove this one",
    );
}

fn as_event(entry: &KeyEntry) -> event::Key<'_> {
    // A kit needs no object, so the state of the copies does not matter.
    let is_kit = entry.method == Some(KeyMethod::RecoveryKit);
    event::Key {
        id: id_of(entry.id),
        method: method_name(entry).replace(' ', "_"),
        created: entry.about.as_ref().map(|about| units::rfc3339_ns(about.made_ns)),
        label: entry.about.as_ref().map(|about| about.label.as_str()),
        epoch: entry.about.as_ref().map(|about| about.epoch),
        copy_count: entry.copy_count as u64,
        in_use: entry.is_in_use,
        opens: entry.opens() || (is_kit && entry.epoch == KeyEpoch::Current),
    }
}

fn method_name(entry: &KeyEntry) -> &'static str {
    match entry.method {
        Some(KeyMethod::Nothing) => "nothing",
        Some(KeyMethod::Passphrase) => "passphrase",
        Some(KeyMethod::KeyFile) => "key file",
        Some(KeyMethod::RecoveryKit) => "recovery kit",
        None => "unknown",
    }
}

fn state_name(entry: &KeyEntry) -> &'static str {
    match entry.epoch {
        _ if entry.is_in_use => "in use",
        _ if entry.copy_count == 0 => "damaged",
        KeyEpoch::Current => "",
        KeyEpoch::Old => "old",
        KeyEpoch::Unknown => "unknown",
    }
}

fn id_of(id: [u8; 16]) -> String {
    escape::hex(&id)
}

fn shown(id: [u8; 16]) -> String {
    id_of(id)[..ID_DIGITS].to_owned()
}

/// Writes the summary event of an action, and of the key it concerns, if any.
fn tell(
    action: &str,
    key: Option<[u8; 16]>,
    repository: &Repository,
    report: &Report,
) -> Result<()> {
    if report.is_json() {
        report.event(&Event::Summary(Summary::Key {
            action,
            key: key.map(id_of),
            epoch: repository.keys().epoch(),
        }))?;
    }
    Ok(())
}

fn add(args: &KeyAdd, session: &Session, report: &Report) -> Result<()> {
    let repository = &session.repository;
    let id = if let Some(path) = &args.new_recovery_kit {
        let kit = Kit::create(path, report)?;
        kit.write(repository, &args.label, report)?
    } else {
        let of_machine = match args.for_machine {
            true => Some(NewSecrets {
                new_passphrase_file: None,
                new_passphrase_command: None,
                new_key_file: Some(machine_key::file()?),
            }),
            false => None,
        };
        let secrets = of_machine.as_ref().unwrap_or(&args.secrets);
        let secret = unlock::for_new_key(secrets, report)?;
        note_made(&secret, report);
        let id = repository.add_key(&secret.unlock, &args.label)?;
        if let Some(path) = of_machine.as_ref().and_then(|secrets| secrets.new_key_file.as_ref()) {
            report.note(&machine_key::advice(path));
        }
        id
    };
    report.note(&format!("Added key {}, which opens the repository.", shown(id)));
    tell("add", Some(id), repository, report)
}

fn note_made(secret: &unlock::NewSecret<'_>, report: &Report) {
    if let Some(path) = secret.made_file() {
        report.note(&format!("Created key file {}.", path.display()));
    }
}

fn remove(args: &KeyRemove, session: &Session, report: &Report) -> Result<()> {
    let repository = &session.repository;
    let entries = repository.list_keys()?;
    let entry = find(&args.id, &entries)?;
    if entry.is_in_use && entry.opens() && !args.force {
        let message = format!("key {}: in use", shown(entry.id));
        return Err(Failure::failed(message)
            .with_remedy(
                "use `key passwd` to replace the key, or `key remove --force` to remove it",
            )
            .into());
    }
    repository.remove_key(entry.id, args.force)?;
    report.note(&format!("Removed key {}, both copies.", shown(entry.id)));
    let remark = match entry.method {
        Some(KeyMethod::RecoveryKit) => {
            "Only the record of the recovery kit is removed. The kit still opens the repository \
             until a new epoch begins, and gives access to the present data permanently."
        }
        _ => {
            "The secret of the removed key, with an old copy of that key, still gives access to \
             the present data, and to new data until a new epoch begins (`cutpoint key rotate`)."
        }
    };
    if entry.epoch == KeyEpoch::Current {
        report.note(remark);
    }
    tell("remove", Some(entry.id), repository, report)
}

/// Finds the key whose id begins with `text`.
fn find<'a>(text: &str, entries: &'a [KeyEntry]) -> Result<&'a KeyEntry> {
    let wanted = text.strip_prefix("keys/").unwrap_or(text).to_lowercase();
    let shown = escape::for_terminal(text.as_bytes());
    if wanted.len() < ID_DIGITS_MIN {
        let message =
            format!("`{shown}`: too short (expected at least {ID_DIGITS_MIN} digits of an ID)");
        return Err(Failure::failed(message)
            .with_remedy("`cutpoint key list` lists all keys")
            .into());
    }
    let mut found = entries.iter().filter(|entry| id_of(entry.id).starts_with(&wanted));
    match (found.next(), found.next()) {
        (Some(entry), None) => Ok(entry),
        (None, _) => Err(Failure::failed(format!("key `{shown}`: not found"))
            .with_remedy("`cutpoint key list` lists all keys")
            .into()),
        (Some(_), Some(_)) => Err(Failure::failed(format!(
            "`{shown}`: ambiguous (several key IDs begin with these digits)",
        ))
        .into()),
    }
}

fn passwd(args: &NewSecrets, session: &mut Session, report: &Report) -> Result<()> {
    let repository = writable(session)?;
    let entries = repository.list_keys()?;
    let used = entries.iter().find(|entry| entry.is_in_use && entry.opens()).ok_or_else(|| {
        Failure::failed("no key in use that could be replaced")
            .with_remedy("`cutpoint key add` adds a key, also with a recovery kit")
    })?;
    let secret = unlock::for_new_key(args, report)?;
    note_made(&secret, report);
    let id = repository.replace_key(used.id, &secret.unlock)?;
    report.note(&format!(
        "Replaced key {} by {}, which opens the repository. The old secret, with a copy of the old \
         key, still gives access to the present data, and to new data until a new epoch begins \
         (`cutpoint key rotate`).",
        shown(used.id),
        shown(id)
    ));
    explain(&repository.list_keys()?, report);
    tell("passwd", Some(id), repository, report)
}

fn rotate(args: &KeyRotate, unlock: Unlock, session: &mut Session, report: &Report) -> Result<()> {
    if matches!(unlock, Unlock::Keyring(_)) {
        return Err(Failure::failed("a recovery kit cannot be updated for a new epoch")
            .with_remedy("add a key with `cutpoint key add`, and use that key")
            .into());
    }
    let repository = writable(session)?;
    let mut secrets = vec![unlock];
    secrets.extend(unlock::in_files(&args.keep_passphrase_file, &args.keep_key_file, report)?);
    let kit = args.new_recovery_kit.as_deref().map(|path| Kit::create(path, report)).transpose()?;
    let others = if args.remove_others { OtherKeysPolicy::Remove } else { OtherKeysPolicy::Refuse };
    let epoch = repository.keys().epoch();
    let made = match repository.begin_epoch(&secrets, others) {
        Ok(made) => made,
        Err(error) if repository.keys().epoch() > epoch => {
            report.problem(
                Path::new("keys"),
                &format!(
                    "not all obsolete keys could be removed ({error}): `cutpoint key list` lists \
                     them, `cutpoint key remove` removes them"
                ),
            );
            repository.key_id().into_iter().collect()
        }
        Err(error) => {
            // The kit is still empty.
            if let Some(kit) = &kit {
                kit.discard();
            }
            let is_about_others = error.kind() == cutpoint_storage::Kind::Invalid;
            let error = anyhow::Error::new(error);
            return Err(if is_about_others && others == OtherKeysPolicy::Refuse {
                Failure::failed(error.to_string())
                    .with_remedy(
                        "give their secrets with --keep-passphrase-file and --keep-key-file, or \
                         use --remove-others",
                    )
                    .into()
            } else {
                error
            });
        }
    };
    report.note(&format!(
        "Epoch {} has begun: new data is sealed with new keys. {} {} {} the repository.",
        repository.keys().epoch(),
        if made.len() == 1 { "Key" } else { "Keys" },
        made.iter().map(|id| shown(*id)).collect::<Vec<_>>().join(", "),
        if made.len() == 1 { "opens" } else { "open" }
    ));
    match kit {
        Some(kit) => {
            kit.write(repository, "", report)?;
        }
        None => report.warn(
            "earlier recovery kits no longer open the repository; `cutpoint key add \
             --new-recovery-kit FILE` writes a new one",
        ),
    }
    tell("rotate", made.first().copied(), repository, report)
}

fn writable(session: &mut Session) -> Result<&mut Repository> {
    Arc::get_mut(&mut session.repository).context("the repository is in use")
}
