//! Units and metrics, as judged by the programs that read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use cutpoint_testing::{program, services};

use crate::sandbox::{Sandbox, run};

fn write_profile(sandbox: &Sandbox, folder: &str) {
    let folder = sandbox.path(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let place = sandbox.path("").display().to_string();
    let text = format!(
        "repository = \"{place}repo\"\nsources = [\"{place}source\"]\ncheck = \"100%\"\n\
         metrics = \"{place}home.prom\"\n[forget]\nkeep-last = 1\n[prune]\n"
    );
    let file = folder.join("home.toml");
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
}

#[test]
fn systemd_accepts_the_units() {
    if !services("the test of units by systemd-analyze") {
        return;
    }
    let analyze = program("systemd-analyze", "systemd");
    let sandbox = Sandbox::with_source();
    // Names that need each escape of systemd.
    let folder = "a b/50%/%h $HOME/\"x\"\\y";
    write_profile(&sandbox, folder);
    let program = sandbox.path("my $bin %n/cutpoint");
    fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    fs::copy(env!("CARGO_BIN_EXE_cutpoint"), &program).expect("copied");
    fs::create_dir(sandbox.path("units")).expect("a folder");
    for at in ["daily 02:30", "hourly", "sun,wed 3:05", "monthly 28 04:00", "Mon..Fri 12:00"] {
        let mut command = Command::new(&program);
        command.args(["schedule", "home", "--systemd", "--at", at, "--to"]);
        command.arg(sandbox.path("units")).arg("--config").arg(sandbox.path(folder));
        run(command.env("HOME", sandbox.path("home"))).well();
        let mut verify = Command::new(&analyze);
        verify.arg("verify").arg(sandbox.path("units/cutpoint-home.timer"));
        let verified = run(verify.arg(sandbox.path("units/cutpoint-home.service")));
        assert_eq!(verified.stderr, "", "{at}");
        verified.well();
    }
}

#[test]
fn promtool_accepts_the_metrics() {
    if !services("the test of metrics by promtool") {
        return;
    }
    let promtool = program("promtool", "prometheus");
    let sandbox = Sandbox::with_source();
    write_profile(&sandbox, "home/.config/cutpoint");
    for _ in 0..2 {
        sandbox.run(["run", "home"]).well();
        let file = fs::File::open(sandbox.path("home.prom")).expect("written");
        let mut check = Command::new(&promtool);
        let checked = run(check.args(["check", "metrics"]).stdin(Stdio::from(file)));
        assert_eq!((checked.text(), checked.stderr.as_str()), ("", ""), "nothing to say");
        checked.well();
    }
}
