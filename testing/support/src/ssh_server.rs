//! An OpenSSH server for tests, with keys of its own. `ssh` starts it for each connection and talks
//! to it over a pipe, so that it needs no port and ends with the connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::services::{program, text_of};

/// The name of the server in the configuration of the client.
const HOST: &str = "testserver";

/// A server, of which the files are in a folder.
#[derive(Debug)]
pub struct SshServer {
    folder: PathBuf,
}

impl SshServer {
    /// Makes keys and configurations in `folder`. `options` are those of `sftp-server`, such as `-P
    /// hardlink` for a server without this extension.
    ///
    /// # Panics
    ///
    /// Panics if the programs of OpenSSH are not installed.
    pub fn new(folder: &Path, options: &str) -> SshServer {
        let sshd = program("sshd", "openssh-server");
        program("ssh", "openssh-client");
        fs::create_dir_all(folder).expect("the folder is made");
        // A server that root runs needs this folder.
        fs::create_dir_all("/run/sshd").ok();
        let server = SshServer { folder: folder.to_owned() };
        for key in ["host_key", "client_key"] {
            server.make_key(key);
        }
        let public = |key: &str| text_of(&folder.join(format!("{key}.pub")));
        server.write("authorized_keys", &public("client_key"));
        server.know("host_key");
        let place = folder.display();
        server.write(
            "sshd_config",
            &format!(
                "HostKey {place}/host_key\nAuthorizedKeysFile {place}/authorized_keys\nStrictModes \
                 no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile \
                 none\nSubsystem sftp internal-sftp {options}\n"
            ),
        );
        let proxy = format!("{} -i -f {place}/sshd_config -E {place}/log", sshd.display());
        server.write(
            "client",
            &format!(
                "Host {HOST}\nProxyCommand {proxy}\nHostKeyAlias {HOST}\nIdentityFile \
                 {place}/client_key\nIdentitiesOnly yes\nUserKnownHostsFile \
                 {place}/known_hosts\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking \
                 yes\nBatchMode yes\n"
            ),
        );
        server
    }

    /// Returns the command for `--ssh-command`.
    pub fn command(&self) -> String {
        format!("ssh -F {}/client", self.folder.display())
    }

    /// Returns the address of a folder: `path` is absolute, or below the home folder.
    pub fn address(&self, path: &Path) -> String {
        format!("sftp://{HOST}/{}", path.display())
    }

    /// Makes a new key pair.
    ///
    /// # Panics
    ///
    /// Panics if `ssh-keygen` fails.
    pub fn make_key(&self, name: &str) {
        fs::remove_file(self.folder.join(name)).ok();
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(self.folder.join(name))
            .stdin(Stdio::null())
            .status();
        assert!(made.expect("ssh-keygen runs").success(), "a key is made");
    }

    /// Makes the client know the server by the key pair `name` alone.
    pub fn know(&self, name: &str) {
        let public = text_of(&self.folder.join(format!("{name}.pub")));
        self.write("known_hosts", &format!("{HOST} {public}"));
    }

    /// Makes the client know no server.
    pub fn know_none(&self) {
        self.write("known_hosts", "");
    }

    /// Accepts the key pair `name` alone.
    pub fn accept(&self, name: &str) {
        let public = text_of(&self.folder.join(format!("{name}.pub")));
        self.write("authorized_keys", &public);
    }

    /// Returns the folder of the server's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("the file is written");
    }
}
