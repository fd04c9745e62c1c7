//! Deletion in an object storage: credentials that may not delete, buckets that keep versions, and
//! buckets that lock objects. The commands that bring back a hidden object are those of
//! `docs/storage.md`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cutpoint_testing::{Bucket, S3Server, SplitMix64};

use crate::sandbox::{Run, Sandbox, make_source, run};

fn server() -> Option<&'static S3Server> {
    S3Server::shared(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A repository in a bucket of its own.
struct Place<'a> {
    server: &'a S3Server,
    bucket: &'static str,
    sandbox: Sandbox,
    variables: [(&'static str, String); 4],
}

impl<'a> Place<'a> {
    /// Creates a bucket, which the commands use as its owner.
    fn new(server: &'a S3Server, bucket: &'static str, kind: Bucket) -> Place<'a> {
        server.create_bucket(bucket, kind);
        Place { server, bucket, sandbox: Sandbox::new(), variables: server.variables() }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut command: Command = self.sandbox.command(arguments);
        command.env("CUTPOINT_REPO", format!("s3://{}/r", self.bucket));
        run(command.envs(self.variables.clone()))
    }

    /// Returns the last line of `--json`.
    fn summary(&self, arguments: &[&str], code: i32) -> serde_json::Value {
        let run = self.run(&[arguments, &["--json"]].concat()).ended(code, &[]);
        run.events().pop().expect("a summary")
    }

    /// Returns the names of the objects below `folder`.
    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = format!("r/{folder}");
        let query = [("list-type", "2"), ("prefix", prefix.as_str())];
        let page = self.server.expect("GET", &format!("/{}", self.bucket), &query, &[], "");
        let names = elements(&page, "Key").into_iter();
        names.filter_map(|key| key.strip_prefix("r/").map(str::to_owned)).collect()
    }

    fn path(&self, name: &str) -> String {
        format!("/{}/r/{name}", self.bucket)
    }

    /// Makes two snapshots, and forgets the first. Returns the names of its containers, which the
    /// second does not need.
    fn forget_first_of_two(&self) -> Vec<String> {
        self.run(&["init", "--encryption", "none"]).well();
        let source = self.sandbox.path("source");
        fs::create_dir(&source).expect("it is made");
        fs::write(source.join("first"), SplitMix64::bytes(1, 300_000)).expect("it is written");
        self.run(&["backup", "source"]).well();
        let first = [self.names("data/"), self.names("meta/")].concat();
        fs::remove_file(source.join("first")).expect("it is removed");
        fs::write(source.join("second"), SplitMix64::bytes(2, 300_000)).expect("it is written");
        self.run(&["backup", "source"]).well();
        self.run(&["forget", "--keep-last", "1"]).well();
        assert_eq!(first.len(), 2, "a container of data, and one of metadata: {first:?}");
        first
    }

    /// Returns the ids of the versions of an object, and of the marks that hide it.
    fn versions(&self, name: &str) -> (Vec<String>, Vec<String>) {
        let prefix = format!("r/{name}");
        let query = [("versions", ""), ("prefix", prefix.as_str())];
        let page = self.server.expect("GET", &format!("/{}", self.bucket), &query, &[], "");
        let ids = |element| {
            let found = elements(&page, element).into_iter();
            found.flat_map(|found| elements(&found, "VersionId")).collect()
        };
        (ids("Version"), ids("DeleteMarker"))
    }

    fn retain(&self, name: &str, until: &str) {
        let body = format!(
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        // The owner may shorten a retention of this kind.
        let headers = [("x-amz-bypass-governance-retention", "true")];
        self.server.expect("PUT", &self.path(name), &[("retention", "")], &headers, &body);
    }

    fn hold(&self, name: &str, status: &str) {
        let body = format!("<LegalHold><Status>{status}</Status></LegalHold>");
        self.server.expect("PUT", &self.path(name), &[("legal-hold", "")], &[], &body);
    }
}

/// Returns the texts of all elements `name` of a document.
fn elements(document: &str, name: &str) -> Vec<String> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let rest = document.split(&begin).skip(1);
    rest.filter_map(|rest| Some(rest.split_once(&end)?.0.to_owned())).collect()
}

/// Everything but deletion works with credentials that may only put, get and list. What cannot be
/// deleted is found before anything is condemned or stored again.
#[test]
fn credentials_without_deletion_serve_for_all_but_prune() {
    let Some(server) = server() else { return };
    let owner = Place::new(server, "cli-no-delete", Bucket::Plain);
    let variables = server.create_user(
        "cli-writer",
        owner.bucket,
        &["ListBucket"],
        &["GetObject", "PutObject"],
    );
    let writer = Place { sandbox: Sandbox::new(), variables, ..owner };
    make_source(&writer.sandbox.path("source"));
    // A warning is said about it.
    fs::remove_file(writer.sandbox.path("source/pipe")).expect("it is removed");
    let init = writer.run(&["init", "--encryption", "none"]);
    init.ended(0, &["Created repository", "21 test objects in tmp/ could not be deleted"]);
    let quiet = ["warning:", "problem:", "denied", "Denied", "permission"];
    let commands: [&[&str]; 9] = [
        &["backup", "source"],
        &["backup", "source"],
        &["snapshots"],
        &["check", "--read-data"],
        &["tag", "latest", "--add", "x"],
        &["hold", "latest"],
        &["forget", "--keep-last", "1"],
        &["restore", "latest:", "--to", "back"],
        &["prune", "--dry-run"],
    ];
    for command in commands {
        let run = writer.run(command).well();
        let alarm = quiet.iter().find(|word| run.stderr.contains(**word));
        assert_eq!(alarm, None, "{command:?} says: {}", run.stderr);
    }
    let names = || [writer.names("data/"), writer.names("meta/"), writer.names("prunes/")].concat();
    let before = names();
    let lacks = [
        "tmp/probe-",
        "cannot delete",
        "403 AccessDenied",
        "nothing was condemned or deleted, and nothing is lost",
        "without the permission s3:DeleteObject",
        "run this command with credentials that have it",
    ];
    for command in [&["prune"][..], &["prune", "--exclusive", "--yes"], &["optimize"]] {
        writer.run(command).ended(2, &lacks);
    }
    assert_eq!(names(), before, "nothing was condemned, and nothing stored again");
    let doctor = writer.run(&["doctor"]).ended(1, &["without the permission s3:DeleteObject"]);
    assert!(doctor.text().contains("Prune: not with these credentials."), "{}", doctor.text());
    assert_eq!(writer.summary(&["doctor"], 1)["deletion"], "refused");
    // The owner of the bucket prunes.
    let owner = Place { variables: server.variables(), ..writer };
    owner.run(&["prune", "--settle", "0"]).well();
    assert_eq!(owner.summary(&["doctor"], 0)["deletion"], "removes");
}

#[test]
fn prune_leaves_locked_objects_and_names_them() {
    let Some(server) = server() else { return };
    let place = Place::new(server, "cli-locked", Bucket::Locking);
    let first = place.forget_first_of_two();
    let (data, meta) = (&first[0], &first[1]);
    place.retain(data, "2030-12-31T00:00:00Z");
    place.hold(meta, "ON");
    let prune = ["prune", "--settle", "0"];
    let held = ["2 condemned objects", "locked by the bucket", data, meta, "legal hold"];
    place.run(&prune).ended(1, &held);
    assert!(place.names("").contains(data) && place.names("").contains(meta), "they stay");
    let hidden = place.versions("").1.len();
    place.hold(meta, "OFF");
    let until = ["1 condemned object ", data, "the last lock ends at 2030-12-31 00:00:00 +00:00"];
    place.run(&prune).ended(1, &until);
    assert!(!place.names("").contains(meta), "it is deleted as soon as that is allowed");
    assert!(place.versions("").1.len() > hidden, "and hidden");
    let summary = place.summary(&prune, 1);
    assert_eq!(summary["locked_object_count"], 1, "{summary}");
    assert_eq!(summary["locked_until"], "2030-12-31T00:00:00.000000000Z", "{summary}");
    assert_eq!(summary["deleted_are_hidden"], true, "{summary}");
    place.run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    place.run(&["backup", "source"]).well();

    let soon = Command::new("date").args(["-u", "-d", "+2 seconds", "+%FT%TZ"]).output();
    let soon = String::from_utf8(soon.expect("it runs").stdout).expect("ASCII");
    place.retain(data, soon.trim());
    std::thread::sleep(Duration::from_millis(2100));
    let summary = place.summary(&prune, 0);
    assert_eq!(summary["deleted_container_count"], 1, "{summary}");
    assert_eq!(summary["locked_object_count"], 0, "{summary}");
    assert!(!place.names("").contains(data), "its retention has ended");
    assert_eq!(place.versions(data).0.len(), 1, "it stays as an older version");
    let again = place.summary(&prune, 0);
    assert_eq!(again["deleted_container_count"], 0, "nothing is left to delete: {again}");
    let doctor = place.run(&["doctor"]).well();
    let told = doctor.text();
    assert!(told.contains("Object lock: yes") && told.contains("lifecycle rule"), "{told}");
}

/// A client that may not see locks could hide a locked object.
#[test]
fn prune_that_may_not_ask_for_locks_deletes_nothing() {
    let Some(server) = server() else { return };
    let owner = Place::new(server, "cli-blind", Bucket::Locking);
    let objects = ["GetObject", "PutObject", "DeleteObject"];
    let variables = server.create_user("cli-blind", owner.bucket, &["ListBucket"], &objects);
    let place = Place { variables, ..owner };
    let first = place.forget_first_of_two();
    let prune = ["prune", "--settle", "0"];
    place.run(&prune).ended(2, &["the permission s3:GetBucketObjectLockConfiguration"]);
    let of_bucket = ["ListBucket", "GetBucketObjectLockConfiguration"];
    server.permit("cli-blind", place.bucket, &of_bucket, &objects);
    place.run(&prune).ended(2, &["the permission s3:GetObjectRetention"]);
    assert!(place.names("prunes/").is_empty(), "nothing is condemned");
    assert!(first.iter().all(|name| place.names("").contains(name)), "nothing is deleted");
    place.run(&["doctor"]).ended(1, &["without the permission s3:GetObjectRetention"]);
}

#[test]
fn prune_says_that_a_bucket_with_versions_frees_nothing() {
    let Some(server) = server() else { return };
    let place = Place::new(server, "cli-versioned", Bucket::Versioned);
    let first = place.forget_first_of_two();
    let told = ["keeps deleted objects as older versions", "a lifecycle rule", "Deleted 2"];
    place.run(&["prune", "--settle", "0"]).ended(0, &told);
    for name in &first {
        assert!(!place.names("").contains(name), "{name} is hidden");
        let (versions, marks) = place.versions(name);
        assert_eq!((versions.len(), marks.len()), (1, 1), "{name}");
    }
    let doctor = place.run(&["doctor"]).well();
    assert!(doctor.text().contains("Deleted objects: the bucket keeps"), "{}", doctor.text());
    assert_eq!(place.summary(&["doctor"], 0)["deletion"], "hides");
}

#[test]
fn hidden_object_comes_back_as_documented() {
    let Some(server) = server() else { return };
    let place = Place::new(server, "cli-hidden", Bucket::Locking);
    place.run(&["init", "--encryption", "none"]).well();
    make_source(&place.sandbox.path("source"));
    place.run(&["backup", "source"]).well();
    let mut names = [place.names("data/"), place.names("meta/"), place.names("commits/")].concat();
    names.sort();
    for name in &names {
        place.retain(name, "2030-12-31T00:00:00Z");
        // The server says that the locked object is deleted.
        place.server.expect("DELETE", &place.path(name), &[], &[], "");
    }
    assert!(names.iter().all(|name| !place.names("").contains(name)), "all of them are hidden");
    let hidden = place.run(&["restore", "latest:", "--to", "back"]);
    assert_ne!(hidden.code, Some(0), "there is no snapshot: {}", hidden.stderr);
    for name in &names {
        let (versions, marks) = place.versions(name);
        assert_eq!((versions.len(), marks.len()), (1, 1), "{name}");
        let mark = [("versionId", marks[0].as_str())];
        place.server.expect("DELETE", &place.path(name), &mark, &[], "");
        let version = [("versionId", versions[0].as_str())];
        let (status, refused) =
            place.server.request("DELETE", &place.path(name), &version, &[], "");
        assert_eq!(status, 403, "the version itself is locked: {refused}");
    }
    place.run(&["check", "--read-data"]).ended(0, &["No problems found"]);
    place.run(&["restore", "latest:", "--to", "back"]).well();
}
