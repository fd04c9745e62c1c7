//! Repositories in Azure Blob Storage (Azurite) and in Google Cloud Storage (fake-gcs-server).

use std::process::Command;

use cutpoint_testing::{CloudServer, services};

use crate::sandbox::{Run, Sandbox, make_source, run};

/// Saves, restores and prunes, and lets `doctor` test the place.
fn holds_a_repository(scheme: &str, variables: &[(String, String)], sandbox: &Sandbox) {
    make_source(&sandbox.path("source"));
    let run_at = |place: &str, arguments: &[&str]| -> Run {
        let mut command: Command = sandbox.command(arguments);
        command.env("CUTPOINT_REPO", format!("{scheme}://box/{place}"));
        run(command.envs(variables.iter().cloned()))
    };
    let here = |arguments: &[&str]| run_at("a/b", arguments);
    run_at("new", &["doctor"]).ended(0, &["holds no repository"]);
    here(&["snapshots"]).ended(10, &["no repository found"]);
    here(&["init", "--encryption", "none"]).ended(0, &["Created repository"]);
    here(&["init", "--encryption", "none"]).ended(2, &["a repository exists already"]);
    here(&["backup", "source"]).ended(0, &["Created snapshot"]);
    here(&["doctor"]).ended(0, &["holds a repository"]);
    here(&["restore", "latest", "--to", "back"]).ended(0, &["Restored"]);
    let back = sandbox.path("back").join(sandbox.path("source").strip_prefix("/").expect("a path"));
    let of = |folder| crate::sandbox::describe(folder);
    assert_eq!(of(&back), of(&sandbox.path("source")), "the restored files");
    here(&["forget", "latest"]).ended(0, &[]);
    here(&["prune", "--exclusive", "--yes"]).ended(0, &[]);
    here(&["check", "--read-data"]).ended(0, &["No problems found"]);
}

#[test]
fn azurite_holds_a_repository() {
    if !services("the tests of repositories in Azure") {
        return;
    }
    let sandbox = Sandbox::new();
    let (_server, variables) = CloudServer::azurite(&sandbox.path("served"));
    holds_a_repository("azure", &variables, &sandbox);
}

#[test]
fn gcs_server_holds_a_repository() {
    if !services("the tests of repositories in Google Cloud Storage") {
        return;
    }
    let sandbox = Sandbox::new();
    let (_server, variables) = CloudServer::gcs();
    holds_a_repository("gs", &variables, &sandbox);
}
