//! Programs and servers that commands of pages need, and that a machine may lack.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cutpoint_testing::S3Server;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::names::Names;
use super::shell::Shell;

/// The maximum time until a server answers.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The programs behind a name. The first of several alternatives that is there is enough.
const PROGRAMS: [(&str, &[&str]); 9] = [
    ("borg", &["borg"]),
    ("docker", &["docker"]),
    ("git", &["git"]),
    ("nbd", &["nbdcopy", "nbdinfo"]),
    ("python", &["python3"]),
    ("qemu-img", &["qemu-img"]),
    ("rclone", &["rclone"]),
    ("restic", &["restic"]),
    ("sqlite", &["sqlite3"]),
];

/// Folders with programs that are not in the path of every user.
const MORE_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/libexec", "/usr/lib/openssh"];

/// The server of the pages, in the folder of a test.
const SSH: &str = "#!/bin/sh\ncd \"$NAS_FOLDER\" && exec \"$SFTP_SERVER\"\n";

/// What was started for a story.
pub(super) struct Needs {
    /// Programs that take the place of those of the system.
    tools: TempDir,
    /// The outcome of each start.
    started: BTreeMap<String, Result<(), String>>,
    servers: Vec<Server>,
}

/// A server with its folder.
struct Server {
    child: Child,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended in its own way, a server leaves nothing behind.
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(id, Signal::TERM).ok();
        }
        self.child.wait().ok();
    }
}

impl Needs {
    pub(super) fn new() -> Needs {
        let tools = tempfile::tempdir().expect("a temporary folder");
        Needs { tools, started: BTreeMap::new(), servers: Vec::new() }
    }

    /// Returns the folder of programs that come before those of the system.
    pub(super) fn tools(&self) -> &Path {
        self.tools.path()
    }

    /// Starts what has this name, once. Returns the name of what is missing.
    pub(super) fn start(
        &mut self,
        need: &str,
        home: &Path,
        shell: &mut Shell,
        names: &mut Names,
    ) -> Result<(), String> {
        if let Some(outcome) = self.started.get(need) {
            return outcome.clone();
        }
        let outcome = match need {
            "s3" => start_s3(shell, names),
            "sftp" => self.start_sftp(home, shell),
            "postgresql" => self.start_postgresql(shell, names),
            "mariadb" => self.start_mariadb(home),
            "fuse" => find("fusermount3").and_then(|_| match Path::new("/dev/fuse").exists() {
                true => Ok(()),
                false => Err("/dev/fuse".to_owned()),
            }),
            _ => {
                let known = PROGRAMS.iter().find(|(name, _)| *name == need);
                let (_, programs) = known.unwrap_or_else(|| panic!("needs-{need} is unknown"));
                programs.iter().try_for_each(|program| find(program).map(|_| ()))
            }
        };
        self.started.insert(need.to_owned(), outcome.clone());
        outcome
    }

    /// Puts a program `ssh` in front of that of the system, behind which is an SFTP server.
    fn start_sftp(&mut self, home: &Path, shell: &mut Shell) -> Result<(), String> {
        let server = find("sftp-server")?;
        let nas = home.join(".nas");
        fs::create_dir_all(&nas).expect("a folder");
        let ssh = self.tools.path().join("ssh");
        fs::write(&ssh, SSH).expect("a script");
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("it is ours");
        shell.set("NAS_FOLDER", &nas.to_string_lossy());
        shell.set("SFTP_SERVER", &server.to_string_lossy());
        Ok(())
    }

    /// Starts a PostgreSQL server for this story alone.
    fn start_postgresql(&mut self, shell: &mut Shell, names: &mut Names) -> Result<(), String> {
        let folder = newest_folder("/usr/lib/postgresql").map(|version| version.join("bin"));
        let folder = folder.or_else(|| Some(find("initdb").ok()?.parent()?.to_path_buf()));
        let programs = folder.filter(|folder| folder.join("initdb").is_file()).ok_or("initdb")?;
        let (place, user) = place_of("postgres")?;
        let data = place.path().join("data");
        let mut init = user.command(&programs.join("initdb"));
        init.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        init.args(["--no-locale", "--pgdata"]).arg(&data);
        let made = init.output().map_err(|error| error.to_string())?;
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = user.command(&programs.join("postgres"));
        server.args(["-F", "-c", "listen_addresses=", "-c", "wal_level=minimal"]);
        server.args(["-c", "max_wal_senders=0", "-c", "shared_buffers=16MB", "-D"]).arg(&data);
        server.arg("-k").arg(place.path());
        let socket = place.path().join(".s.PGSQL.5432");
        let folder = place.path().to_string_lossy().into_owned();
        self.serve(server, place, &socket);
        // The socket is there before the server takes connections.
        let mut ready = Command::new(programs.join("pg_isready"));
        ready.arg("--quiet").arg("--host").arg(&folder);
        wait_until(|| ready.status().is_ok_and(|status| status.success()), "PostgreSQL");
        names.replace(&folder, "/var/run/postgresql");
        shell.set("PGHOST", &folder);
        shell.set("PGUSER", "postgres");
        let path = format!("{}:{}", shell.variable("PATH"), programs.display());
        shell.set("PATH", &path);
        Ok(())
    }

    /// Starts a MariaDB server for this story alone.
    fn start_mariadb(&mut self, home: &Path) -> Result<(), String> {
        let (install, server) = (find("mariadb-install-db")?, find("mariadbd")?);
        find("mariadb-dump")?;
        let (place, user) = place_of("mysql")?;
        let data = place.path().join("data");
        let datadir = format!("--datadir={}", data.display());
        let mut init = user.command(&install);
        init.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        init.args(["--skip-test-db", &datadir]);
        let made = init.output().map_err(|error| error.to_string())?;
        assert!(made.status.success(), "mariadb-install-db: {made:?}");
        let socket = place.path().join("socket");
        let mut command = user.command(&server);
        command.args(["--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=8M"]);
        command.arg(&datadir).arg(format!("--socket={}", socket.display()));
        self.serve(command, place, &socket);
        let client = format!("[client]\nsocket = {}\n", socket.display());
        fs::write(home.join(".my.cnf"), client).expect("the file is written");
        Ok(())
    }

    fn serve(&mut self, mut command: Command, folder: TempDir, socket: &Path) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.servers.push(Server { child, _folder: folder });
        wait_until(|| socket.exists(), "a server");
    }
}

/// Waits for a server.
fn wait_until(mut is_there: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < START_LIMIT, "{what} does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The S3 server of all tests, with the address and the bucket of the pages.
fn start_s3(shell: &mut Shell, names: &mut Names) -> Result<(), String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let server = S3Server::shared(target).ok_or("an S3 server, which needs Go")?;
    for (name, value) in server.variables().iter().filter(|(name, _)| *name != "AWS_ENDPOINT_URL") {
        shell.set(name, value);
    }
    // Each page has a bucket of its own.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let bucket = format!("book-{}-{number}", std::process::id());
    server.create_bucket(&bucket, cutpoint_testing::Bucket::Plain);
    // A user who may not delete, for pages that show it.
    let user = format!("client-{bucket}");
    let client = server.create_user(&user, &bucket, &["ListBucket"], &["GetObject", "PutObject"]);
    for (name, value) in client.iter().filter(|(name, _)| name.contains("ACCESS_KEY")) {
        shell.set(&name.replace("AWS_", "CLIENT_"), value);
    }
    names.replace(&server.endpoint, "https://s3.example.org");
    names.replace(&format!("s3://{bucket}/"), "s3://bucket/");
    Ok(())
}

/// A user of the system who may run servers that root may not.
struct User(Option<(u32, u32)>);

impl User {
    fn command(&self, program: &Path) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command.current_dir("/").env("LC_ALL", "C");
        command
    }
}

/// Returns a folder for a server, and the user who runs it: `name` if this process is root.
fn place_of(name: &str) -> Result<(TempDir, User), String> {
    let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
    if !rustix::process::geteuid().is_root() {
        return Ok((folder, User(None)));
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let ids = fields
        .filter(|fields| fields.first() == Some(&name))
        .find_map(|fields| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)));
    let ids: (u32, u32) = ids.ok_or_else(|| format!("the user {name}"))?;
    chown(folder.path(), Some(ids.0), Some(ids.1)).expect("root may");
    Ok((folder, User(Some(ids))))
}

/// Returns the path of a program, or its name if it is missing.
fn find(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|program| program.is_file());
    found.ok_or_else(|| format!("{name} is not installed"))
}

fn newest_folder(name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(name).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.filter(|folder| folder.is_dir()).max()
}
