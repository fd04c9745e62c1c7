//! `cargo xtask package`: what a release consists of, in `target/package`.
//!
//! Every file depends on the commit, `Cargo.lock`, `rust-toolchain.toml` and
//! `packaging/requirements.txt` alone: two builds in two folders are equal byte by byte.

mod archive;
mod build;
mod deb;
mod elf;
mod formula;
mod notices;
mod oci;
mod parts;
mod release;
mod rpm;
mod rpm_header;
mod sbom;
mod sums;

use release::{Release, TARGETS, Target};

/// The packages that are made for each target.
const FOR_TARGET: [(&str, ForTarget); 5] = [
    ("binary", binary),
    ("tar", archive::package),
    ("deb", deb::package),
    ("rpm", rpm::package),
    ("sbom", sbom::package),
];

/// The files that are made once, in an order in which each has what it needs.
const FOR_ALL: [(&str, ForAll); 4] = [
    ("oci", oci::package),
    ("source", archive::source),
    ("formula", formula::package),
    ("sums", sums::write),
];

type ForTarget = fn(&Release, &Target) -> Result<(), String>;

type ForAll = fn(&Release) -> Result<(), String>;

/// Makes the packages that `words` name: all by default, and for all targets unless one is named.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    if let ["sign", key] = words {
        return sums::sign(&Release::of_checkout(true)?, key);
    }
    let options = Options::parse(words)?;
    let release = Release::of_checkout(options.allows_changes)?;
    let is_chosen = |name| options.kind.is_none_or(|kind| kind == name);
    for (name, make) in FOR_TARGET {
        for target in TARGETS.iter().filter(|each| options.has_target(each) && is_chosen(name)) {
            println!("xtask: package {name} for {}", target.triple);
            make(&release, target)?;
        }
    }
    // What covers all targets is left out where one target is chosen.
    let is_whole = options.target.is_none();
    for (name, make) in FOR_ALL.iter().filter(|(name, _)| is_whole && is_chosen(name)) {
        println!("xtask: package {name}");
        make(&release)?;
    }
    Ok(())
}

/// Makes the program alone.
fn binary(release: &Release, target: &Target) -> Result<(), String> {
    let program = build::program(release, target)?;
    let name = format!("cutpoint-{}-{}", release.version, target.triple);
    release.write_program(&name, &program)
}

/// The words of the command line.
struct Options<'a> {
    kind: Option<&'a str>,
    target: Option<&'a str>,
    allows_changes: bool,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a str]) -> Result<Options<'a>, String> {
        let mut options = Options { kind: None, target: None, allows_changes: false };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match *word {
                "--allow-changes" => options.allows_changes = true,
                "--target" => {
                    let triple = rest.next().ok_or("--target needs a triple")?;
                    let known = TARGETS.iter().find(|target| target.triple == *triple);
                    options.target = Some(known.ok_or(format!("no packages for {triple}"))?.triple);
                }
                kind if options.kind.is_none() && is_kind(kind) => options.kind = Some(kind),
                other => return Err(format!("unknown word {other:?}")),
            }
        }
        Ok(options)
    }

    fn has_target(&self, target: &Target) -> bool {
        self.target.is_none_or(|triple| triple == target.triple)
    }
}

fn is_kind(word: &str) -> bool {
    let names = FOR_TARGET.iter().map(|(name, _)| *name);
    names.chain(FOR_ALL.iter().map(|(name, _)| *name)).any(|name| name == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_unknown_words_are_refused() {
        let options = Options::parse(&["deb", "--target", TARGETS[1].triple]);
        let options = options.ok().filter(|options| options.kind == Some("deb"));
        let chosen = options.map(|options| TARGETS.map(|target| options.has_target(&target)));
        assert_eq!(chosen, Some([false, true]));
        for wrong in [&["deb", "rpm"][..], &["msi"], &["--target", "sparc"], &["--target"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
