//! Clients of other projects, where they are installed.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_testing::{SplitMix64, skipped};
use cutpoint_volume::Mode;
use cutpoint_volume::nbd::{Address, Clients, Server, Tls, VolumeExports};

use crate::local::{create, open};

/// Runs a program. Returns `None`, with a report, if it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    let output = command.output().ok();
    if output.is_none() {
        let program = command.get_program().to_string_lossy().into_owned();
        skipped(&format!("{program} is not installed: the NBD server was not tried with it"));
    }
    output
}

/// Ends the servers when the test ends, also by a panic.
struct Over<'a>(&'a AtomicBool);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Serves a volume at a socket and at a port while `test` runs with their addresses.
fn served(path: &Path, test: impl FnOnce(&[String])) {
    let volume = open(path);
    let exports = VolumeExports(Arc::clone(&volume.volume));
    let socket = path.with_extension("socket");
    let unix = Server::listen(&Address::Unix(socket), None).expect("listens");
    let tcp = Server::listen(&"tcp:0".parse().expect("an address"), None).expect("listens");
    let addresses = [&unix, &tcp].map(|server| server.address().expect("an address").to_string());
    let is_over = AtomicBool::new(false);
    let stop = || is_over.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| unix.run(&exports, &stop).expect("served"));
        scope.spawn(|| tcp.run(&exports, &stop).expect("served"));
        test(&addresses);
        drop(over);
    });
    assert_eq!(volume.audit(), Ok(()), "the tables");
}

#[test]
fn nbdinfo_shows_size_and_abilities() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    served(&path, |addresses| {
        for address in addresses {
            let Some(output) = run(Command::new("nbdinfo").arg("--json").arg(address)) else {
                return;
            };
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{output:?}");
            for part in [
                "\"export-size\": 1048576",
                "\"can_multi_conn\": true",
                "\"can_fua\": true",
                "\"can_trim\": true",
                "\"can_zero\": true",
                "\"is_read_only\": false",
                "base:allocation",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    });
}

#[test]
fn nbdcopy_copies_a_file_there_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut bytes = SplitMix64::bytes(1, 1 << 20);
    bytes[300_000..700_000].fill(0);
    let copy = bytes[..65536].to_vec();
    bytes[800_000..865_536].copy_from_slice(&copy);
    std::fs::write(&source, &bytes).expect("written");
    served(&path, |addresses| {
        let [unix, tcp] = addresses else { panic!("two addresses") };
        let mut command = Command::new("nbdcopy");
        let command = command.args(["--connections=4", "--flush"]).arg(&source).arg(unix);
        let Some(output) = run(command) else { return };
        assert!(output.status.success(), "{output:?}");
        let output = run(Command::new("nbdcopy").arg(tcp).arg(&target)).expect("installed");
        assert!(output.status.success(), "{output:?}");
        assert!(std::fs::read(&target).expect("copied") == bytes, "the copy differs");
        let map = run(Command::new("nbdinfo").arg("--map").arg(unix)).expect("installed");
        let map = String::from_utf8_lossy(&map.stdout).into_owned();
        assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    });
    if !target.exists() {
        return;
    }
    let volume = open(&path);
    let mut all = vec![0; 1 << 20];
    volume.read(0, &mut all).expect("read");
    assert!(all == bytes, "after the server");
}

#[test]
fn fio_verifies_what_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    served(&path, |addresses| {
        for (name, address) in ["unix", "tcp"].iter().zip(addresses) {
            let mut command = Command::new("fio");
            command.current_dir(folder.path()).args([
                &format!("--name={name}"),
                "--ioengine=nbd",
                &format!("--uri={address}"),
                "--rw=randrw",
                "--bsrange=512-64k",
                "--bs_unaligned=0",
                "--size=1m",
                "--iodepth=8",
                "--verify=crc32c",
                "--fsync=16",
                "--number_ios=1500",
            ]);
            let Some(output) = run(&mut command) else { return };
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            if text.contains("engine nbd not loadable") || text.contains("failed to load engine") {
                skipped("fio has no engine for NBD: the server was not tried with it");
                return;
            }
            assert!(output.status.success(), "{output:?}");
        }
    });
}

/// Writes a certificate authority, and certificates that it has signed, for a server and a client, with
/// `openssl`. Returns `None`, with a report, if that is not installed.
fn certificates(folder: &Path) -> Option<()> {
    let openssl = |words: &str| {
        let mut command = Command::new("openssl");
        command.args(words.split_whitespace()).current_dir(folder);
        run(&mut command).map(|output| assert!(output.status.success(), "{words}: {output:?}"))
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout ca-key.pem -out ca-cert.pem -days 2 -subj /CN=authority"
    ))?;
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1")
        .expect("names");
    for name in ["server", "client"] {
        openssl(&format!("req {key} -keyout {name}-key.pem -out {name}.csr -subj /CN=localhost"))?;
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
             -extfile names -out {name}-cert.pem"
        ))?;
    }
    Some(())
}

#[test]
fn clients_with_a_certificate_connect_by_tls_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate_folder = folder.path().join("certificates");
    let foreign = folder.path().join("foreign");
    for path in [&certificate_folder, &foreign] {
        std::fs::create_dir(path).expect("a folder");
        let Some(()) = certificates(path) else { return };
    }
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    let volume = open(&path);
    let exports = VolumeExports(Arc::clone(&volume.volume));
    let tls = Tls::read(&certificate_folder, Clients::WithCertificate).expect("certificates");
    let address = "tcp:127.0.0.1:0".parse().expect("an address");
    let server = Server::listen(&address, Some(tls)).expect("listens");
    let Ok(Address::Tcp(address)) = server.address() else { panic!("a port") };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| server.run(&exports, &|| is_over.load(Ordering::SeqCst)).expect("served"));
        let info = |scheme: &str, certificates: Option<&Path>| {
            let tls = certificates.map(|path| format!("?tls-certificates={}", path.display()));
            let uri =
                format!("{scheme}://localhost:{}/main{}", address.port(), tls.unwrap_or_default());
            run(Command::new("nbdinfo").arg(uri))
        };
        if let Some(output) = info("nbds", Some(&certificate_folder)) {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("1M"), "{output:?}");
            assert!(text.contains("with TLS"), "{text}");
            let refused = info("nbds", Some(&foreign)).expect("installed");
            assert!(!refused.status.success(), "another authority");
            let refused = info("nbd", None).expect("installed");
            assert!(!refused.status.success(), "without TLS");
        }
        drop(over);
    });
    let missing = Tls::read(folder.path(), Clients::Any).expect_err("no certificates");
    assert!(missing.to_string().contains("server-cert.pem"), "{missing}");
}

#[test]
fn other_machines_cannot_connect_without_tls() {
    let address = "tcp:0.0.0.0:0".parse().expect("an address");
    let error = Server::listen(&address, None).expect_err("refused");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn socket_of_another_server_at_the_same_path_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listen = || Server::listen(&Address::Unix(path.clone()), None).expect("listens");
    let first = listen();
    std::fs::rename(&path, folder.path().join("moved")).expect("moved");
    let second = listen();
    drop(first);
    assert!(path.exists(), "the socket of the second server");
    drop(second);
    assert!(!path.exists(), "its own socket is removed");
}
