//! Azure Blob Storage (Azurite) and Google Cloud Storage (fake-gcs-server).

use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{
    Cloud, CloudSettings, Environment, Kind, Put, Storage, System, Throttle, probe,
};
use cutpoint_testing::{CloudServer, services};

use crate::contract::keeps_the_contract;
use crate::throttle::{assert_moves_slowly, limits};

fn settings(address: &str, variables: &[(String, String)]) -> CloudSettings {
    let mut settings = CloudSettings::parse(address).expect("an address");
    settings.variables = variables.to_vec();
    settings
}

fn open(address: &str, variables: &[(String, String)]) -> Cloud {
    Cloud::open(&settings(address, variables), Arc::new(System)).expect("it opens")
}

/// Checks that a place beside another keeps the contract, creates atomically, and has stamps.
fn is_a_storage(scheme: &str, variables: &[(String, String)]) {
    let outer = open(&format!("{scheme}://box/outer"), variables);
    let inner = open(&format!("{scheme}://box/outer/data2/in er"), variables);
    keeps_the_contract(&inner).expect(scheme);
    inner.put_new("data/x", Bytes::from_static(b"x")).expect("it is put");
    let stamp_ns = inner.stamp_ns("data/x").expect("it answers").expect("objects have times");
    assert!((System.now_ns() - stamp_ns).abs() < 60_000_000_000, "{stamp_ns}");
    keeps_the_contract(&outer).expect("beside another repository");
    assert_eq!(inner.list("data").expect("it lists"), [("data/x".to_owned(), 1)], "it stays");
    assert_eq!(inner.stamp_ns("data/y").expect("it answers"), None, "there is no such object");
    let probed = probe(&outer, &System).expect("it answers");
    assert!(probed.may_be_shared(), "{probed}");
    inner.replace("data/x", Bytes::from_static(b"other")).expect("a repair replaces");
    assert_eq!(inner.get("data/x").expect("it is read"), "other", "it is replaced");
}

/// Checks that requests are limited, and that a container that does not exist is named.
fn has_limits_and_remedies(scheme: &str, variables: &[(String, String)]) {
    let mut settings = settings(&format!("{scheme}://box/slow"), variables);
    settings.throttle = Throttle::new(limits(1 << 20, 2 << 20), Arc::new(System));
    assert_moves_slowly(&Cloud::open(&settings, Arc::new(System)).expect("it opens"));
    let absent = open(&format!("{scheme}://absent/a"), variables);
    let put = absent.put_new("tmp/a", Bytes::from_static(b"a"));
    let error = put.expect_err("there is no such container");
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("create the")), "{error}");
}

#[test]
fn azurite_keeps_the_contract() {
    if !services("the tests over Azure") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_server, variables) = CloudServer::azurite(folder.path());
    is_a_storage("azure", &variables);
    has_limits_and_remedies("azure", &variables);
    let mut wrong = variables.clone();
    wrong.push(("AZURE_STORAGE_KEY".to_owned(), "AAAA".to_owned()));
    let error = open("azure://box/a", &wrong).list("config").expect_err("another key");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("AZURE_STORAGE_KEY")), "{error}");
}

#[test]
fn gcs_server_keeps_the_contract() {
    if !services("the tests over Google Cloud Storage") {
        return;
    }
    let (_server, variables) = CloudServer::gcs();
    is_a_storage("gs", &variables);
    has_limits_and_remedies("gs", &variables);
    let storage = open("gs://box/a", &variables);
    assert_eq!(storage.put_new("tmp/a", Bytes::new()).expect("a put"), Put::Created, "empty");
}
