//! The number of connections over SFTP that a failing command makes: each may ask its user for a
//! passphrase.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectRange, Sftp, SftpSettings, Storage, System};

/// Calls a method of a storage, and returns its errors.
type Call = fn(&Sftp) -> Vec<Error>;

fn errors<T>(results: Vec<Result<T, Error>>) -> Vec<Error> {
    results.into_iter().filter_map(Result::err).collect()
}

fn names() -> Vec<String> {
    ["data/00/a", "data/00/b", "data/00/c"].map(str::to_owned).to_vec()
}

const CALLS: [(&str, Call); 9] = [
    ("list", |storage| errors(vec![storage.list("keys")])),
    ("get", |storage| errors(vec![storage.get("keys/a")])),
    ("get_range", |storage| errors(vec![storage.get_range("data/00/a", 0, 10)])),
    ("get_many", |storage| {
        let wanted: Vec<_> = names().into_iter().map(|name| (name, 1000)).collect();
        errors(storage.get_many(&wanted))
    }),
    ("get_ranges", |storage| {
        let range = |name| ObjectRange { name, offset: 0, len: 10 };
        let wanted: Vec<_> = names().into_iter().map(range).collect();
        errors(storage.get_ranges(&wanted))
    }),
    ("all_exist", |storage| errors(vec![storage.all_exist(&names())])),
    ("delete_many", |storage| errors(storage.delete_many(&names()))),
    ("put_new", |storage| errors(vec![storage.put_new("keys/a", Bytes::new())])),
    ("create_folder", |storage| errors(vec![storage.create_folder()])),
];

#[test]
fn first_connection_that_is_refused_is_made_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (script, log) = (folder.path().join("ssh"), folder.path().join("ssh.log"));
    let text = "echo connected >> \"$0.log\"\necho 'me@nas: Permission denied (publickey).' >&2\nexit 255\n";
    fs::write(&script, text).expect("a script");
    for (name, call) in CALLS {
        fs::remove_file(&log).ok();
        let mut settings = SftpSettings::parse("sftp://me@nas/r").expect("an address");
        settings.command = format!("sh {}", script.display());
        let storage = Sftp::open(&settings, Arc::new(System)).expect("threads start");
        let errors = call(&storage);
        assert!(!errors.is_empty(), "{name}");
        for error in errors {
            assert_eq!(error.kind(), Kind::Storage, "{name}: {error}");
            assert!(error.to_string().contains("Permission denied (publickey)"), "{name}: {error}");
            assert!(
                error.remedy().is_some_and(|remedy| remedy.contains("authorized_keys")),
                "{name}"
            );
        }
        let connected = fs::read_to_string(&log).expect("it was run");
        assert_eq!(connected, "connected\n", "{name}");
    }
}
