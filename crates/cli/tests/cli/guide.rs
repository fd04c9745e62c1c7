//! `README.md` and `docs/guide.md`: the program prints what these pages show.
//!
//! A block fenced as `console` has commands, each behind `$ `, and below each command the lines that
//! it prints. All blocks of a page run in order, in one shell and one home folder. A block that
//! cannot run here, because it needs S3 or a scheduler, is fenced as `text`.
//!
//! With `CUTPOINT_WRITE_GUIDE=1` (`cargo xtask guide --write`) the test does not compare, but writes
//! what the commands print into the pages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use cutpoint_testing::SplitMix64;

/// The home folder of the pages. It has as many parents as the real one, because the program counts
/// them as folders of a snapshot.
const HOME: &str = "/home/me";
/// The name of the machine in the pages.
const HOST: &str = "laptop";
/// The first time in each page. Later times keep their distance to it.
const FIRST_TIME: &str = "2026-11-22 07:30:00";
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S";
/// A byte that no command prints, around the exit code of each command.
const MARK: u8 = 0x1e;
/// The lengths of ids, in hexadecimal digits: short ids, ids of snapshots, ids of repositories.
const ID_LENS: [usize; 3] = [8, 24, 32];
/// The command that shows an exit code.
const SHOW_CODE: &str = "echo $?";

#[test]
fn readme_shows_what_the_program_prints() {
    check("README.md");
}

#[test]
#[ignore = "ids in random order and the place of planted damage differ between runs"]
fn guide_shows_what_the_program_prints() {
    check("docs/guide.md");
}

#[test]
fn changed_output_is_reported_with_both_texts() {
    let followed = follow("page.md", "```console\n$ echo one\ntwo\n$ echo same\nsame\n```\n");
    let expected = "page.md:2: `echo one` prints something else\n\
                    --- the page\ntwo\n--- the program\none\n---";
    assert_eq!(followed.differences, [expected], "one of two commands prints something else");
    assert_eq!(
        followed.text, "```console\n$ echo one\none\n$ echo same\nsame\n```\n",
        "the page as it would be written"
    );
}

#[test]
fn failure_that_a_page_does_not_show_is_reported() {
    let followed = follow("page.md", "```console\n$ false\n$ false\n$ echo $?\n1\n```\n");
    let expected = "page.md:2: `false` ends with 1, which the next line, `$ echo $?`, should show";
    assert_eq!(followed.differences, [expected], "the second failure is shown");
}

#[test]
fn ids_and_times_of_a_page_do_not_change() {
    let mut names = Names::new("/tmp/x", "build7");
    let text = "2031-01-31 23:59:59 build7 0123abcd 0123abcd00112233445566aa /tmp/x/y 0:07\n";
    let shown = names.shown(text);
    let id = &shown[27..35];
    assert_eq!(
        shown,
        format!("{FIRST_TIME} laptop {id} {} /home/me/y 0:00\n", &shown[36..60]),
        "all of it is replaced"
    );
    assert_eq!(&shown[36..44], id, "a short id begins the long one");
    assert_eq!(names.real(&format!("cutpoint hold {id}")), "cutpoint hold 0123abcd", "and back");
    assert_eq!(names.shown("2031-02-01 00:00:01"), "2026-11-22 07:30:02", "two seconds later");
}

#[test]
fn readme_is_short_and_names_the_check() {
    let text = read("README.md");
    let line_count = text.lines().count();
    assert!(line_count <= 120, "README.md has {line_count} lines; 120 are enough for a first page");
    assert!(text.contains("`cargo xtask check`"), "CI requires that README.md names the check");
}

/// The doctest compiles and runs, so the example does, too.
#[test]
fn readme_example_is_part_of_the_doctest() {
    let readme = read("README.md");
    let source = read("crates/chunking/src/lib.rs");
    let mut doctest = source.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let example = readme.lines().skip_while(|line| *line != "```rust").skip(1);
    let mut line_count = 0;
    for line in example.take_while(|line| *line != "```").filter(|line| !line.is_empty()) {
        assert!(doctest.any(|other| other == line), "not in the doctest of chunking: {line}");
        line_count += 1;
    }
    assert!(line_count > 3, "README.md has an example");
}

/// The table of `README.md` has the sizes that `research/results/peers.md` has.
#[test]
fn readme_sizes_are_measured_ones() {
    let results = read("research/results/peers.md");
    let mut rows = results.lines().skip_while(|line| !line.starts_with("**Repository after"));
    let mut row = |name: &str| -> Vec<String> {
        let row = rows.find(|line| cells(line).first().is_some_and(|cell| cell == name));
        cells(row.unwrap_or_else(|| panic!("no row {name} in peers.md")))
    };
    let (sets, ours, restic) = (row("tool"), row("cutpoint"), row("restic-debian"));
    let readme = read("README.md");
    let mut count = 0;
    for cells in readme.lines().map(cells).filter(|cells| cells.len() == 6) {
        let set = cells[0].rsplit(' ').next().unwrap_or_default();
        let Some(at) = sets.iter().position(|name| name == set) else { continue };
        assert_eq!(cells[3..5], [restic[at].clone(), ours[at].clone()], "sizes of {set}");
        count += 1;
    }
    assert!(count >= 4, "README.md compares {count} sets");
}

/// Returns the cells of a row of a Markdown table.
fn cells(line: &str) -> Vec<String> {
    let row = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    row.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).unwrap_or_default()
}

// ---------------------------------------------------------------------------------------------
// Pages.

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares a page with the program, or writes the page.
#[track_caller]
fn check(name: &str) {
    let followed = follow(name, &read(name));
    if std::env::var_os("CUTPOINT_WRITE_GUIDE").is_some_and(|value| value == "1") {
        fs::write(path(name), followed.text).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    assert!(
        followed.differences.is_empty(),
        "{}\n\nIf the program is right, `cargo xtask guide --write` writes the page.",
        followed.differences.join("\n\n")
    );
}

/// A command of a page.
struct Step {
    /// The number of its line, from 1 on.
    line: usize,
    command: String,
    /// The lines that the page shows below the command, as indices.
    printed: Range<usize>,
}

/// Returns the commands in the `console` blocks of a page.
fn steps(name: &str, lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    let mut continues = false;
    for (index, line) in lines.iter().enumerate() {
        let end = index + 1;
        if line.starts_with("```") {
            is_console = !is_console && *line == "```console";
            continues = false;
            continue;
        }
        if !is_console {
            continue;
        }
        if let Some(rest) = line.strip_prefix("> ").filter(|_| continues) {
            let step = steps.last_mut().expect("a command continues");
            step.command.push('\n');
            step.command.push_str(rest);
            step.printed = end..end;
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: end, command: command.to_owned(), printed: end..end });
        } else {
            let step = steps.last_mut().filter(|step| step.printed.end == index);
            step.unwrap_or_else(|| panic!("{name}:{end}: a block begins with `$ `")).printed.end =
                end;
        }
        let is_command = steps.last().is_some_and(|step| step.printed.is_empty());
        continues = is_command && line.ends_with('\\');
    }
    steps
}

/// The result of running the commands of a page.
struct Followed {
    /// The page with what the program prints.
    text: String,
    /// The differences between page and program.
    differences: Vec<String>,
}

/// Runs the commands of a page and compares their output.
fn follow(name: &str, text: &str) -> Followed {
    let lines: Vec<&str> = text.lines().collect();
    let steps = steps(name, &lines);
    // Below `/tmp`, whatever TMPDIR is, so that the number of parents is that of `HOME`.
    let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
    let home = folder.path().canonicalize().expect("the folder is there");
    let mut shell = Shell::start(&home);
    let uname = rustix::system::uname();
    let mut names = Names::new(&home.to_string_lossy(), &uname.nodename().to_string_lossy());
    let mut written: Vec<String> = Vec::new();
    let mut differences = Vec::new();
    let mut done = 0;
    for (number, step) in steps.iter().enumerate() {
        let (output, code) = shell.run(&names.real(&step.command));
        let output = names.shown(&output);
        let page = lines[step.printed.clone()].join("\n");
        let at = format!("{name}:{}: `{}`", step.line, step.command);
        written.extend(lines[done..step.printed.start].iter().map(|line| (*line).to_owned()));
        done = step.printed.end;
        if comparable(&page) == comparable(&output) {
            written.extend(lines[step.printed.clone()].iter().map(|line| (*line).to_owned()));
        } else {
            let output = output.trim_end_matches('\n');
            differences.push(format!(
                "{at} prints something else\n--- the page\n{page}\n--- the program\n{output}\n---"
            ));
            written.extend(output.lines().map(|line| line.trim_end().to_owned()));
        }
        let is_shown = steps.get(number + 1).is_some_and(|next| next.command == SHOW_CODE);
        if code != "0" && !is_shown {
            differences.push(format!(
                "{at} ends with {code}, which the next line, `$ {SHOW_CODE}`, should show"
            ));
        }
    }
    written.extend(lines[done..].iter().map(|line| (*line).to_owned()));
    Followed { text: written.join("\n") + "\n", differences }
}

/// A shell that runs the commands of a page, without a terminal.
struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(home: &Path) -> Shell {
        let program = Path::new(env!("CARGO_BIN_EXE_cutpoint"));
        let mut folders = vec![program.parent().expect("a folder").to_path_buf()];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(home)
            .env_clear()
            .env("PATH", std::env::join_paths(folders).expect("folders"))
            .env("HOME", home)
            .env("USER", "me")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("CUTPOINT_PASSPHRASE", "correct horse battery staple")
            // The files of the pages have just been made, whereas those of a reader are older than
            // the minute that times need until they prove that a file is unchanged.
            .env("CUTPOINT_TEST_SETTLING_S", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        // Both outputs in one, in the order of a terminal.
        input.write_all(b"exec 2>&1\n").expect("bash reads");
        Shell { child, input: Some(input), output }
    }

    /// Runs a command. Returns its output and its exit code.
    fn run(&mut self, command: &str) -> (String, String) {
        let script = format!(
            "{{ {command}\n}} </dev/null\n__code=$?; printf '\\036%s\\036' \"$__code\"; (exit $__code)\n"
        );
        let input = self.input.as_mut().expect("bash runs");
        input.write_all(script.as_bytes()).expect("bash reads");
        (self.until_mark(command), self.until_mark(command))
    }

    fn until_mark(&mut self, command: &str) -> String {
        let mut bytes = Vec::new();
        self.output.read_until(MARK, &mut bytes).expect("bash prints");
        assert_eq!(bytes.pop(), Some(MARK), "`{command}` ended the shell");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The end of its input ends the shell.
        self.input = None;
        self.output.read_to_end(&mut Vec::new()).ok();
        self.child.wait().ok();
    }
}

// ---------------------------------------------------------------------------------------------
// Values that differ from run to run.

/// The names of one run, and those that stand for them in a page: home folder, host, ids in the
/// order in which they appear, and times. A page therefore changes only where the program does.
struct Names {
    home: String,
    host: String,
    /// The first eight digits of each id, of this run and in the page.
    ids: Vec<(String, String)>,
    /// The first time that was printed, in seconds since 1970.
    first_s: Option<i64>,
}

impl Names {
    fn new(home: &str, host: &str) -> Names {
        Names { home: home.to_owned(), host: host.to_owned(), ids: Vec::new(), first_s: None }
    }

    /// Returns a command of the page with the ids of this run.
    fn real(&self, command: &str) -> String {
        let known = |word: &str| self.ids.iter().find(|(_, shown)| shown == word);
        words(command).map(|word| known(word).map_or(word, |(real, _)| real.as_str())).collect()
    }

    /// Returns output of this run as a page shows it.
    fn shown(&mut self, output: &str) -> String {
        let output = output.replace(&self.home, HOME);
        let mut shown = String::with_capacity(output.len());
        let mut rest = output.as_str();
        while !rest.is_empty() {
            let at_start = !shown.ends_with(|c: char| c.is_ascii_alphanumeric());
            if let Some(time) = rest.get(..TIME_LEN).filter(|_| at_start).and_then(parse_time) {
                let first_s = *self.first_s.get_or_insert(time);
                let separator = &rest[10..11];
                rest = &rest[TIME_LEN..];
                shown.push_str(&time_text(time - first_s).replace(' ', separator));
                if let Some(after) = fraction(rest) {
                    shown.push_str(".000000000Z");
                    rest = after;
                }
                continue;
            }
            if let Some(after) = rest.strip_prefix(&self.host).filter(|_| at_start)
                && !after.starts_with(|c: char| c.is_ascii_alphanumeric())
            {
                shown.push_str(HOST);
                rest = after;
                continue;
            }
            let word = words(rest).next().expect("the rest is not empty");
            rest = &rest[word.len()..];
            // A duration is `0:00`; a time of day has three parts.
            if is_number(word) && !shown.ends_with(':') {
                let minutes = rest.strip_prefix(':').and_then(|rest| words(rest).next());
                let after = minutes.filter(|m| m.len() == 2 && is_number(m)).map(|_| &rest[3..]);
                if let Some(after) = after.filter(|after| !is_time_part(after)) {
                    shown.push_str("0:00");
                    rest = after;
                    continue;
                }
            }
            if ID_LENS.contains(&word.len()) && is_hex(word) {
                let id = self.id(word);
                // Containers are in folders named by two digits of their hashes.
                if let Some(folder) = shown.strip_suffix('/')
                    && let Some(start) = folder.len().checked_sub(2)
                    && shown.get(start..start + 2).is_some_and(is_hex)
                    && shown[..start].ends_with('/')
                {
                    shown.replace_range(start..start + 2, &id[2..4]);
                }
                shown.push_str(&id);
            } else {
                shown.push_str(word);
            }
        }
        shown
    }

    /// Returns the id that stands for an id of this run in the page.
    fn id(&mut self, real: &str) -> String {
        let known = self.ids.iter().find(|(known, _)| real.starts_with(known));
        let shown = known.map(|(_, shown)| shown.clone()).unwrap_or_else(|| {
            let shown = digits(self.ids.len() as u64 + 1, 8);
            self.ids.push((real[..8].to_owned(), shown.clone()));
            shown
        });
        let seed = u64::from_str_radix(&shown, 16).expect("digits");
        let rest = digits(seed, real.len() - 8);
        let id = shown + &rest;
        // The name of a container is an id and a number.
        match real.get(24..).filter(|number| number.starts_with("000000")) {
            Some(number) => id[..24].to_owned() + number,
            None => id,
        }
    }
}

/// Returns hexadecimal digits that depend on `seed` only.
fn digits(seed: u64, count: usize) -> String {
    let bytes = SplitMix64::bytes(seed, count / 2);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Splits text into words of letters and digits, and single other characters.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let len = match rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(len);
        rest = after;
        Some(word)
    })
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns `true` if `text` begins with `:00`.
fn is_time_part(text: &str) -> bool {
    text.strip_prefix(':').and_then(|rest| words(rest).next()).is_some_and(is_number)
}

/// The length of `2026-01-31 23:59:59`.
const TIME_LEN: usize = 19;

/// Parses such a time, or one with `T` between date and time. Returns seconds since 1970.
fn parse_time(text: &str) -> Option<i64> {
    let text = text.replace('T', " ");
    let time = NaiveDateTime::parse_from_str(&text, TIME_FORMAT).ok()?;
    // Parsing also accepts numbers without leading zeros.
    let time = time.and_utc();
    (time.format(TIME_FORMAT).to_string() == text).then(|| time.timestamp())
}

/// Formats the time that is `seconds` after [`FIRST_TIME`].
fn time_text(seconds: i64) -> String {
    let first = parse_time(FIRST_TIME).expect("a time");
    let time = DateTime::from_timestamp(first + seconds, 0).expect("a time");
    time.format(TIME_FORMAT).to_string()
}

/// Returns the text behind `.123456789Z`.
fn fraction(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('.')?;
    let rest = rest.get(9..).filter(|_| rest.as_bytes()[..9].iter().all(u8::is_ascii_digit))?;
    rest.strip_prefix('Z')
}

/// Returns text without the values that differ from run to run or from machine to machine.
fn comparable(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut has_speeds = false;
    for line in text.trim_end_matches('\n').lines() {
        // The width of a column depends on the values in it.
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // Seconds pass between two commands.
        for word in words.iter_mut().filter(|word| is_date(word) || is_time_of_day(word)) {
            *word = "TIME".to_owned();
        }
        // The table of `estimate` ends with a column of speeds.
        has_speeds = match words.last() {
            Some(last) if last == "GB/s" => true,
            last => has_speeds && last.is_some(),
        };
        if has_speeds && let Some(last) = words.last_mut().filter(|last| *last != "GB/s") {
            *last = "SPEED".to_owned();
        }
        hide_secret_cuts(&mut words);
        // `init` takes the cipher that is faster on the machine.
        for word in &mut words {
            *word = word.replace("chacha20-poly1305", "aes256-gcm");
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

/// Returns `true` for `2026-01-31` and `2026-01-31T23:59:59.000000000Z`.
fn is_date(word: &str) -> bool {
    let date = word.split('T').next().unwrap_or_default();
    date.len() == 10 && NaiveDate::parse_from_str(date, "%Y-%m-%d").is_ok()
}

/// Returns `true` for `23:59:59`.
fn is_time_of_day(word: &str) -> bool {
    let mut parts = word.split(':');
    parts.clone().count() == 3 && parts.all(|part| is_number(bare(part)))
}

/// The units of sizes.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Hides the numbers that depend on the secret of a repository, which decides where its files are
/// cut: numbers of chunks, references and containers, shares, ratios and sizes. Sizes in parentheses are those of
/// files, and stay.
fn hide_secret_cuts(words: &mut [String]) {
    for at in 1..words.len() {
        if words[at - 1] == "ratio" {
            words[at] = "RATIO".to_owned();
        }
    }
    for at in 1..words.len() {
        let (number, word) = (words[at - 1].clone(), bare(&words[at]).to_owned());
        if bare(&number).parse::<f64>().is_err() || number.starts_with('(') {
            continue;
        }
        if word.is_empty() && words[at].starts_with('%') {
            words[at - 1] = "SHARE".to_owned();
            continue;
        }
        let counted = ["chunk", "reference", "container"];
        if let Some(counted) = counted.iter().find(|each| word.starts_with(**each)) {
            words[at - 1] = "N".to_owned();
            words[at] = format!("{counted}s");
        } else if UNITS.contains(&word.as_str()) {
            words[at - 1] = "SIZE".to_owned();
            words[at] = words[at].replace(&word, "UNIT");
        }
    }
}

/// Returns a word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}
