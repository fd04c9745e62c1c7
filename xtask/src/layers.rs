//! The layers of the code: which crate may use which, which room of a crate may use which, and that no
//! two files need each other.
//!
//! A *room* is a module at the top of a crate, a file or a folder. An arrow leads from a module to each
//! module that it names in a `use` or in a path. Test modules are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use syn::visit::Visit;

use crate::{cargo, output};

/// For each crate of the workspace, the crates of the workspace that it may depend on.
const CRATES: [(&str, &[&str]); 23] = [
    ("cutpoint-chunking", &[]),
    ("cutpoint-fingerprint", &[]),
    ("cutpoint-delta", &[]),
    ("cutpoint-storage", &[]),
    ("cutpoint-repository", &["cutpoint-delta", "cutpoint-fingerprint", "cutpoint-storage"]),
    ("cutpoint-backup", &["cutpoint-chunking", "cutpoint-repository", "cutpoint-storage"]),
    ("cutpoint-import", &["cutpoint-backup", "cutpoint-repository", "cutpoint-storage"]),
    (
        "cutpoint-estimate",
        &[
            "cutpoint-backup",
            "cutpoint-chunking",
            "cutpoint-delta",
            "cutpoint-fingerprint",
            "cutpoint-repository",
            "cutpoint-storage",
        ],
    ),
    ("cutpoint-image", &[]),
    ("cutpoint-volume", &["cutpoint-delta", "cutpoint-fingerprint"]),
    ("cutpoint-nbdkit", &["cutpoint-volume"]),
    ("cutpoint-terminal", &["cutpoint-backup", "cutpoint-estimate", "cutpoint-storage"]),
    (
        "cutpoint-page",
        &["cutpoint-backup", "cutpoint-repository", "cutpoint-storage", "cutpoint-terminal"],
    ),
    (
        "cutpoint",
        &[
            "cutpoint-backup",
            "cutpoint-chunking",
            "cutpoint-estimate",
            "cutpoint-image",
            "cutpoint-import",
            "cutpoint-page",
            "cutpoint-repository",
            "cutpoint-storage",
            "cutpoint-terminal",
            "cutpoint-volume",
        ],
    ),
    ("cutpoint-testing", &[]),
    ("cutpoint-oracle", &["cutpoint-testing"]),
    ("cutpoint-paper-simd", &["cutpoint-chunking"]),
    ("cutpoint-burst", &["cutpoint-delta"]),
    (
        "cutpoint-bench",
        &[
            "cutpoint-chunking",
            "cutpoint-fingerprint",
            "cutpoint-oracle",
            "cutpoint-paper-simd",
            "cutpoint-testing",
        ],
    ),
    (
        "cutpoint-lab",
        &[
            "cutpoint-bench",
            "cutpoint-burst",
            "cutpoint-chunking",
            "cutpoint-estimate",
            "cutpoint-fingerprint",
            "cutpoint-oracle",
            "cutpoint-terminal",
            "cutpoint-testing",
        ],
    ),
    ("cutpoint-scale", &["cutpoint-testing"]),
    ("cutpoint-torture", &["cutpoint-testing"]),
    ("xtask", &["cutpoint-chunking", "cutpoint-oracle", "cutpoint-testing"]),
];

/// The rooms of a crate, lowest first: a room may use those of the lines before its own.
type Layers = &'static [&'static [&'static str]];

/// The crates whose rooms have an order.
const ROOMS: [(&str, Layers); 6] = [
    (
        "cutpoint-chunking",
        &[
            &["about", "error", "kernel", "key", "residue", "rolling", "table"],
            &["chunker", "keys"],
            &["segments"],
            &["candidates"],
            &["algorithm"],
            &["spec"],
            &["ahead", "window"],
            &["parallel"],
            &["push", "ranges", "stream"],
        ],
    ),
    (
        "cutpoint-storage",
        &[
            &["error", "hex", "kind", "stop", "system", "wait_notice"],
            &["environment"],
            &["wait"],
            &["storage", "throttle"],
            &["layer"],
            &["faulty", "limited", "local", "memory", "probe", "remote"],
            &["cloud", "rest", "s3", "sftp"],
        ],
    ),
    (
        "cutpoint-repository",
        &[
            &["rules"],
            &["format"],
            &["crypto", "util"],
            &["repo"],
            &["index", "parity"],
            &["read"],
            &["write"],
            &["snapshots"],
            &["gc"],
            &["verify"],
        ],
    ),
    (
        "cutpoint-backup",
        &[
            &["platform"],
            &["source"],
            &["restore", "tar_input", "trees"],
            &["archive", "browse", "save"],
            &["copy"],
        ],
    ),
    (
        "cutpoint-volume",
        &[
            &["error", "folder", "keys", "rules", "zeros"],
            &["mode"],
            &["format"],
            &["cache", "codec", "key_slots", "spares"],
            &["core"],
            &["log", "tree"],
            &["tables"],
            &["reader"],
            &["volume"],
            &["device"],
            &["nbd"],
        ],
    ),
    (
        "cutpoint-estimate",
        &[
            &["clock", "counter", "error", "files", "savings", "scratch"],
            &["scan"],
            &["sampler"],
            &["estimate"],
        ],
    ),
];

/// Checks crates, rooms and files.
pub(crate) fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    let packages = packages()?;
    wrong.extend(check_crates(&packages));
    for package in &packages {
        let modules = Modules::read(&package.src)?;
        let place = &package.name;
        if let Some((_, layers)) = ROOMS.iter().find(|(name, _)| *name == package.name) {
            wrong.extend(
                check_rooms(&modules, layers).into_iter().map(|it| format!("{place}: {it}")),
            );
        }
        wrong.extend(circles(&modules).into_iter().map(|it| format!("{place}: {it}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A crate of the workspace.
struct Package {
    name: String,
    /// The workspace's crates that it depends on, but for tests.
    dependencies: Vec<String>,
    /// The folder of its sources.
    src: PathBuf,
}

fn packages() -> Result<Vec<Package>, String> {
    let metadata = output(cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let dependencies = package["dependencies"].as_array()?.iter();
        let own = dependencies.filter(|each| each["path"].is_string() && each["kind"] != "dev");
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            dependencies: own.filter_map(|each| Some(each["name"].as_str()?.to_owned())).collect(),
            src: manifest.parent()?.join("src"),
        })
    };
    packages
        .iter()
        .map(|each| package(each).ok_or_else(|| "a package is incomplete".to_owned()))
        .collect()
}

fn check_crates(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == package.name) else {
            wrong.push(format!("{}: is not in the list of crates (layers.rs)", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|it| !allowed.contains(&it.as_str())) {
            wrong.push(format!("{}: must not depend on {dependency}", package.name));
        }
    }
    let is_there = |name: &str| packages.iter().any(|package| package.name == name);
    let gone = CRATES.iter().filter(|(name, _)| !is_there(name));
    wrong.extend(gone.map(|(name, _)| format!("{name}: is listed (layers.rs) and does not exist")));
    wrong
}

/// A module: the names from the root of its crate on.
type Module = Vec<String>;

/// The modules of a crate that are files, and the modules that each of them names.
struct Modules(BTreeMap<Module, BTreeSet<Module>>);

impl Modules {
    fn read(src: &Path) -> Result<Modules, String> {
        let mut files = BTreeMap::new();
        find(src, &mut Vec::new(), &mut files)?;
        let known: BTreeSet<Module> = files.keys().cloned().collect();
        let mut modules = BTreeMap::new();
        for (module, path) in files {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            modules.insert(module.clone(), arrows(&text, &module, &known, &path)?);
        }
        Ok(Modules(modules))
    }
}

/// Finds the files below `folder`, the folder of `module`.
fn find(
    folder: &Path,
    module: &mut Module,
    files: &mut BTreeMap<Module, PathBuf>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(stem);
            find(&path, module, files)?;
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut own = module.clone();
            if !matches!(stem.as_str(), "mod" | "lib" | "main") {
                own.push(stem);
            }
            files.insert(own, path);
        }
    }
    Ok(())
}

/// Returns the modules of `known` that the text of `module` names.
fn arrows(
    text: &str,
    module: &Module,
    known: &BTreeSet<Module>,
    path: &Path,
) -> Result<BTreeSet<Module>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut found = Names { module, known, found: BTreeSet::new() };
    found.visit_file(&file);
    Ok(found.found)
}

/// Collects the modules that paths name.
struct Names<'a> {
    module: &'a Module,
    known: &'a BTreeSet<Module>,
    found: BTreeSet<Module>,
}

impl Names<'_> {
    fn path(&mut self, segments: &[String]) {
        let mut rest = segments;
        let mut full: Module = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            // A module of this file's own.
            Some(first)
                if self.known.contains(&[self.module.as_slice(), &[first.to_owned()]].concat()) =>
            {
                self.module.clone()
            }
            _ => return,
        };
        while let Some(first) = rest.first() {
            match first.as_str() {
                "super" => drop(full.pop()),
                "crate" | "self" => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        full.extend(rest.iter().cloned());
        while !full.is_empty() && !self.known.contains(&full) {
            full.pop();
        }
        // The root re-exports: an arrow to it says nothing.
        if !full.is_empty() && full != *self.module {
            self.found.insert(full);
        }
    }

    fn tree(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|each| self.tree(prefix, each));
            }
            syn::UseTree::Name(name) => self.leaf(prefix, &name.ident),
            syn::UseTree::Rename(rename) => self.leaf(prefix, &rename.ident),
            syn::UseTree::Glob(_) => self.path(prefix),
        }
    }

    fn leaf(&mut self, prefix: &[String], name: &syn::Ident) {
        self.path(&[prefix, &[name.to_string()]].concat());
    }

    /// Paths among the words of a macro, which has no other syntax.
    fn words(&mut self, tokens: &proc_macro2::TokenStream) {
        let text = tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let segments: Vec<String> = word.split("::").map(str::to_owned).collect();
            if segments.len() > 1 {
                self.path(&segments);
            }
        }
    }
}

/// Returns `true` for the attributes of an item that exists in tests only.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let tokens = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (tokens == "test"
                || tokens.starts_with("all (test")
                || tokens.starts_with("all(test"))
    })
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // What a parent re-exports of its own modules is no use of them.
        if !is_test(&item.attrs) && matches!(item.vis, syn::Visibility::Inherited) {
            self.tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|each| each.ident.to_string()).collect();
        if segments.len() > 1 {
            self.path(&segments);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.words(&item.tokens);
    }
}

fn check_rooms(modules: &Modules, layers: Layers) -> Vec<String> {
    let mut wrong = Vec::new();
    let layer = |room: &str| layers.iter().position(|rooms| rooms.contains(&room));
    let rooms: BTreeSet<&String> = modules.0.keys().filter_map(|module| module.first()).collect();
    for room in &rooms {
        if layer(room).is_none() {
            wrong.push(format!("room {room} is in no layer (layers.rs)"));
        }
    }
    let listed = layers.iter().flat_map(|rooms| rooms.iter());
    let gone = listed.filter(|room| !rooms.iter().any(|each| each == *room));
    wrong.extend(
        gone.map(|room| format!("room {room} is in a layer (layers.rs) and does not exist")),
    );
    for (module, arrows) in &modules.0 {
        let Some(from) = module.first() else { continue };
        for arrow in arrows.iter().filter(|arrow| arrow[0] != *from) {
            if layer(from) <= layer(&arrow[0]) {
                let (module, arrow) = (module.join("/"), arrow.join("/"));
                wrong.push(format!("{module} uses {arrow}, which is not below it"));
            }
        }
    }
    wrong
}

/// Names the files that need each other: each reaches all others of its circle. A module and those below
/// it may name each other: the upper one is the face of its room.
fn circles(modules: &Modules) -> Vec<String> {
    let is_kin = |one: &Module, other: &Module| one.starts_with(other) || other.starts_with(one);
    let arrows: BTreeMap<&Module, Vec<&Module>> = modules
        .0
        .iter()
        .map(|(module, arrows)| (module, arrows.iter().filter(|it| !is_kin(module, it)).collect()))
        .collect();
    let reached = |from: &Module| {
        let mut reached: BTreeSet<&Module> = BTreeSet::new();
        let mut left: Vec<&Module> = arrows.get(from).cloned().unwrap_or_default();
        while let Some(module) = left.pop() {
            if reached.insert(module) {
                left.extend(arrows.get(module).into_iter().flatten());
            }
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (*module, reached(module))).collect();
    let mut named: BTreeSet<&Module> = BTreeSet::new();
    let mut wrong = Vec::new();
    for (module, others) in &reached {
        if !others.contains(module) || named.contains(module) {
            continue;
        }
        let circle: Vec<&Module> = others
            .iter()
            .copied()
            .filter(|it| reached.get(it).is_some_and(|back| back.contains(module)))
            .collect();
        named.extend(&circle);
        let names: Vec<String> = circle.iter().map(|it| it.join("/")).collect();
        wrong.push(format!("need each other: {}", names.join(", ")));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let module = |name: &str| -> Module { name.split('/').map(str::to_owned).collect() };
        let known: BTreeSet<Module> = files.iter().map(|(name, _)| module(name)).collect();
        let arrows = |(name, text): &(&str, &str)| {
            let own = module(name);
            let arrows = arrows(text, &own, &known, Path::new(name)).expect("it parses");
            (own, arrows)
        };
        Modules(files.iter().map(arrows).collect())
    }

    const LAYERS: Layers = &[&["low", "beside"], &["high"]];

    #[test]
    fn arrow_to_a_lower_room_is_allowed() {
        let text = "use crate::low::Thing;\nfn f() { crate::beside::g(); }";
        let modules = modules(&[("low", ""), ("beside", ""), ("high", text)]);
        assert_eq!(check_rooms(&modules, LAYERS), [""; 0]);
    }

    #[test]
    fn arrow_back_is_found_in_use_path_and_macro() {
        for text in [
            "use crate::high::Thing;",
            "use super::{high::Thing};",
            "fn f() -> crate::high::Thing { todo() }",
            "fn f() { assert!(crate::high::g()); }",
        ] {
            let modules = modules(&[("low", text), ("beside", ""), ("high", "")]);
            assert_eq!(check_rooms(&modules, LAYERS).len(), 1, "{text}");
        }
    }

    #[test]
    fn arrow_beside_is_found() {
        let modules = modules(&[("low", "use crate::beside;"), ("beside", ""), ("high", "")]);
        assert_eq!(check_rooms(&modules, LAYERS), ["low uses beside, which is not below it"]);
    }

    #[test]
    fn rooms_and_layers_must_name_each_other() {
        let modules = modules(&[("low", ""), ("high", ""), ("new", "")]);
        let wrong = check_rooms(&modules, LAYERS);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn tests_and_reexports_are_no_arrows() {
        let text =
            "pub use crate::high::Thing;\n#[cfg(test)] mod tests { use crate::high::Thing; }";
        let modules = modules(&[("low", text), ("beside", ""), ("high", "")]);
        assert_eq!(check_rooms(&modules, LAYERS), [""; 0]);
    }

    #[test]
    fn circle_of_files_is_found() {
        let files = [
            ("room", "use one::One;"),
            ("room/one", "use super::two::Two; use super::Face;"),
            ("room/two", "use super::three::Three;"),
            ("room/three", "fn f() { super::one::g() }"),
        ];
        assert_eq!(circles(&modules(&files)), ["need each other: room/one, room/three, room/two"]);
        assert_eq!(circles(&modules(&files[..3])), [""; 0]);
    }
}
