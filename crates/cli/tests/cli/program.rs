//! The commands about the program itself, and the form of its output.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use cutpoint_testing::skipped;

use crate::sandbox::{Sandbox, run, run_with_input};

/// Runs another program. Returns `None`, with a report, if it is not installed.
fn other(program: &str, command: &mut Command) -> Option<Output> {
    let output = command.output().ok();
    if output.is_none() {
        skipped(&format!("{program} is not installed: what is made for it was not tried"));
    }
    output
}

#[test]
fn version_names_the_commit() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(["version"]).well().text().to_owned();
    assert!(
        text.starts_with(concat!("cutpoint ", env!("CARGO_PKG_VERSION"), " (commit ")),
        "{text}"
    );
    let event = &sandbox.json(["version"])[0];
    assert_eq!(event["program_version"], env!("CARGO_PKG_VERSION"));
    // Each feature that adds to the program; `default` is a set of features.
    let manifest = include_str!("../../Cargo.toml");
    let features = manifest.split("[features]").nth(1).expect("a section");
    let list = features.lines().find(|line| line.starts_with("default")).expect("the default");
    for feature in list.split('"').skip(1).step_by(2) {
        let is_named = event["features"].as_array().expect("a list").iter().any(|it| it == feature);
        let is_built = match feature {
            "clouds" => cfg!(feature = "clouds"),
            "import" => cfg!(feature = "import"),
            "mount" => cfg!(feature = "mount"),
            "rest" => cfg!(feature = "rest"),
            "s3" => cfg!(feature = "s3"),
            "serve" => cfg!(feature = "serve"),
            "volume" => cfg!(feature = "volume"),
            _ => panic!("{feature}: unknown to this test and perhaps to `version`"),
        };
        assert_eq!(is_named, is_built, "{feature}: {text}");
    }
    let git = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let Some(commit) = git.ok().filter(|git| git.status.success()) else { return };
    // The build script looks again after each commit, unless another variable names the commit.
    if std::env::var_os("CUTPOINT_COMMIT").is_none() {
        let commit = String::from_utf8(commit.stdout).expect("digits");
        assert_eq!(event["commit"].as_str(), Some(commit.trim()), "the commit of this checkout");
    }
}

#[test]
fn completions_complete_commands_and_options() {
    let sandbox = Sandbox::new();
    let script = |shell: &str| sandbox.run(["completions", shell]).well().text().to_owned();
    fs::write(sandbox.path("bash"), script("bash")).expect("written");
    let complete = "source ./bash; COMP_WORDS=(cutpoint res); COMP_CWORD=1; \
        _cutpoint cutpoint res cutpoint; echo ${COMPREPLY[@]}; \
        COMP_WORDS=(cutpoint restore --over); COMP_CWORD=2; \
        _cutpoint cutpoint --over restore; echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    if let Some(output) = other("bash", bash.args(["-c", complete]).current_dir(sandbox.path(""))) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "restore\n--overwrite\n", "{output:?}");
    }
    for (shell, arguments) in [("zsh", "-n"), ("fish", "--no-execute")] {
        fs::write(sandbox.path(shell), script(shell)).expect("written");
        let mut check = Command::new(shell);
        if let Some(output) = other(shell, check.arg(arguments).arg(sandbox.path(shell))) {
            assert!(output.status.success(), "{output:?}");
        }
    }
    assert!(script("nu").contains("export extern \"cutpoint restore\""), "Nushell");
    sandbox.run(["completions", "tcsh"]).ended(2, &["unknown value \"tcsh\"", "bash, zsh, fish"]);
}

#[test]
fn manual_pages_are_well_formed() {
    let sandbox = Sandbox::new();
    sandbox.run(["man", "pages"]).ended(0, &["manual pages to pages"]);
    let folder = fs::read_dir(sandbox.path("pages")).expect("a folder");
    let pages: Vec<_> = folder.map(|page| page.expect("a page").path()).collect();
    assert!(pages.len() > 25, "{} pages", pages.len());
    let page = fs::read_to_string(sandbox.path("pages/cutpoint-key-add.1")).expect("a page");
    assert!(page.contains("\\-\\-new\\-passphrase\\-file"), "options: {page}");
    assert!(page.contains(".SH EXAMPLES\n.nf\ncutpoint key add"), "examples: {page}");
    assert!(page.contains(".SH \"SEE ALSO\"\ncutpoint\\-options(1)"), "{page}");
    let page = fs::read_to_string(sandbox.path("pages/cutpoint-options.1")).expect("a page");
    for option in ["\\-\\-repo <LOCATION>", "\\-\\-limit\\-upload <RATE>"] {
        assert!(page.contains(option), "{option}: {page}");
    }
    let mut lint = Command::new("mandoc");
    if let Some(output) = other("mandoc", lint.args(["-Tlint", "-Wwarning"]).args(&pages)) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    fs::write(sandbox.path("file"), b"").expect("written");
    sandbox.run(["man", "file"]).ended(2, &["file"]);
}

#[test]
fn pages_in_markdown_have_every_command_and_topic() {
    let sandbox = Sandbox::new();
    sandbox.run(["man", "pages", "--markdown"]).ended(0, &["pages to pages"]);
    let read = |name: &str| {
        fs::read_to_string(sandbox.path("pages").join(name)).unwrap_or_else(|_| panic!("{name}"))
    };
    let index = read("index.md");
    let files: Vec<&str> = index
        .lines()
        .filter_map(|line| line.strip_prefix("- [")?.split(['(', ')']).nth(1))
        .collect();
    assert!(files.len() > 40, "{} pages", files.len());
    for file in &files {
        assert!(read(file).starts_with("# cutpoint "), "the title of {file}");
    }
    let count = fs::read_dir(sandbox.path("pages")).expect("a folder").count();
    assert_eq!(count, files.len() + 1, "all pages but the list are in the list");
    let backup = read("backup.md");
    assert!(backup.contains("\n- `--exclude <PATTERN>`: Exclude files"), "{backup}");
    assert!(read("key.md").contains("\n## cutpoint key add\n"), "subcommands are sections");
    assert!(read("help-options.md").contains("--repo <LOCATION>"), "the common options");
}

#[test]
fn times_are_local_with_their_offset() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let told = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        run(command.env("TZ", "Asia/Kolkata")).well().text().to_owned()
    };
    assert!(told(&["snapshots"]).contains(" +05:30  "), "local");
    assert!(told(&["snapshots", "--utc"]).contains(" +00:00  "), "UTC");
    let minutes = |text: &str| {
        let line = text.lines().nth(1).expect("a snapshot");
        let time: Vec<&str> = line.split_whitespace().nth(2).expect("a time").split(':').collect();
        time[0].parse::<u32>().expect("hours") * 60 + time[1].parse::<u32>().expect("minutes")
    };
    let (local, utc) = (minutes(&told(&["snapshots"])), minutes(&told(&["snapshots", "--utc"])));
    assert_eq!((local + 24 * 60 - utc) % (24 * 60), 5 * 60 + 30, "the time is that of the zone");
    let json = told(&["snapshots", "--json"]);
    assert!(json.contains("Z\",\"finished\""), "events are in UTC: {json}");
}

#[test]
fn names_in_pipes_are_escaped_unless_they_end_with_zero() {
    let sandbox = Sandbox::with_repository();
    fs::create_dir(sandbox.path("odd")).expect("a folder");
    let name = OsStr::from_bytes(b"a\nb\x1b[2J\xff");
    fs::write(sandbox.path("odd").join(name), b"x").expect("written");
    sandbox.backup("odd");
    let folder = format!("latest:{}", sandbox.path("odd").display());
    let listed = sandbox.run(["ls", &folder]).well();
    assert_eq!(listed.text(), "a\\nb\\x1b[2J\\xff\n");
    let raw = sandbox.command(["ls", "-0", &folder]).output().expect("it runs");
    assert_eq!(raw.stdout, [name.as_bytes(), b"\0"].concat());
    sandbox.run(["ls", "-0", "-l", &folder]).ended(2, &["--null", "cannot be used with"]);
}

/// The kit is shown on a terminal, and nothing else happens before Enter.
#[test]
fn recovery_kit_on_a_terminal_waits_for_enter() {
    let sandbox = Sandbox::new();
    let init = sandbox.command(["init", "--key-file", "key"]);
    let program = init.get_program().to_owned();
    let mut script = Command::new("script");
    script.current_dir(sandbox.path(""));
    for (name, value) in init.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let line = format!("{} init --key-file key; echo code $?", Path::new(&program).display());
    script.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
    if Command::new("script").arg("--version").output().is_err() {
        skipped("script is not installed: the recovery kit on a terminal was not looked at");
        return;
    }
    let done = run_with_input(&mut script, b"\n");
    let text = done.text();
    let kit = text.find("cutpoint recovery kit").expect("the kit");
    let prompt = text.find("then press Enter").expect("the prompt");
    assert!(kit < prompt && text.contains("code 0"), "{text}");
}

#[test]
fn cache_shows_local_copies_and_bounds_them() {
    let sandbox = Sandbox::with_source();
    assert_eq!(sandbox.run(["cache"]).ended(0, &["0 B in "]).text(), "", "no copy yet");
    let repository = sandbox.json(["config"]).iter().find_map(|it| {
        (it["name"] == "repository").then(|| it["value"].as_str().expect("an id").to_owned())
    });
    let repository = repository.expect("the id of the repository");
    // Small indexes are not copied, so the copies are made by hand.
    let cache = sandbox.path("home/.cache/cutpoint");
    let copies = [(repository.as_str(), 3000), (&"ab".repeat(16), 2000), (&"cd".repeat(16), 1000)];
    for (days, (name, len)) in (1_u64..).zip(copies) {
        fs::create_dir_all(cache.join(name).join("index")).expect("a folder");
        let file = fs::File::create(cache.join(name).join("index/run")).expect("a file");
        file.set_len(len).expect("a length");
        let ago = Duration::from_secs(3600 * 24 * (9 - days));
        for path in ["index/run", "index", ""] {
            let file = fs::File::open(cache.join(name).join(path)).expect("it is there");
            file.set_modified(SystemTime::now() - ago).expect("a time");
        }
    }
    fs::write(cache.join("other"), b"not of a repository").expect("written");
    let listed = sandbox.run(["cache"]).ended(0, &["5.9 KiB in "]);
    let lines: Vec<&str> = listed.text().lines().skip(1).collect();
    assert!(lines[0].starts_with(&repository) && lines[0].contains("2.9 KiB"), "{lines:?}");
    assert!(lines[0].ends_with(sandbox.path("repo").to_str().expect("text")), "{lines:?}");
    assert!(lines[2].starts_with("cdcd") && lines[2].ends_with("unknown"), "{lines:?}");
    let removed = sandbox.json(["cache", "--max-size", "2500"]);
    let summary = removed.last().expect("a summary");
    assert_eq!((&summary["size_bytes"], &summary["removed_bytes"]), (&1000.into(), &5000.into()));
    assert!(!cache.join(&repository).exists() && cache.join("cd".repeat(16)).exists());
    sandbox.run(["cache", "--max-size", "0"]).ended(0, &["Removed 1 copy, 1000 B."]);
    assert!(cache.join("other").exists(), "other files stay");
    sandbox.run(["snapshots"]).well();
}
