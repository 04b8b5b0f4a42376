//! Rules over the tree that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::layers;
use crate::workspace::{self, Package};

/// File names that name no thing: what is in them belongs where it is used, under its noun.
const NAMELESS: &[&str] = &[
    "utils", "util", "common", "helpers", "manager", "handler", "misc",
];

/// Longest source file, in lines: far above the usual 100 to 400; past it a file has two subjects.
const LONGEST: usize = 800;

/// Folders that are not ours to judge.
const FOREIGN: &[&str] = &[
    "target",
    ".git",
    ".tools",
    "node_modules",
    "results",
    ".peers",
];

/// Prints one line a fault; whether there was none.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn run() -> Result<bool> {
    let faults = faults()?;
    for fault in &faults {
        println!("{fault}");
    }
    println!("tidy: {} faults", faults.len());
    Ok(faults.is_empty())
}

fn faults() -> Result<Vec<String>> {
    let packages = workspace::packages()?;
    let mut faults = layers::faults(&packages);
    for package in &packages {
        faults.extend(of_crate(package)?);
    }
    let mut pages = Vec::new();
    find(workspace::root(), "md", &mut pages)?;
    for page in pages {
        faults.extend(dead_links(&page)?);
    }
    Ok(faults)
}

fn of_crate(package: &Package) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut fault = |what: &str| faults.push(format!("{}: {what}", package.name));
    if package.description.is_empty() {
        fault("Cargo.toml has no description");
    }
    if package.license != "Apache-2.0" {
        fault("Cargo.toml: license is not the workspace's Apache-2.0");
    }
    let manifest = read(&package.folder.join("Cargo.toml"))?;
    if !inherits_lints(&manifest) {
        fault("Cargo.toml has no `[lints] workspace = true`");
    }
    let readme = fs::read_to_string(package.folder.join("README.md")).unwrap_or_default();
    if readme.lines().count() < 5 {
        fault("README.md says nothing: what the crate is for, and ten lines that run");
    }
    if package.is_library && !package.is_program && !has_example(&readme) {
        fault("README.md has no example that runs");
    }
    if package.is_library {
        let root = read(&package.folder.join("src/lib.rs"))?;
        if !root.contains(r#"#![doc = include_str!("../README.md")]"#) {
            fault("src/lib.rs does not take README.md as its doc");
        }
    }
    let mut sources = Vec::new();
    find(&package.folder, "rs", &mut sources)?;
    for source in sources {
        faults.extend(of_source(&source)?);
    }
    Ok(faults)
}

fn of_source(path: &Path) -> Result<Option<String>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if NAMELESS.contains(&stem.as_ref()) {
        return Ok(Some(format!("{}: name the noun", shown(path))));
    }
    let lines = read(path)?.lines().count();
    Ok((lines > LONGEST).then(|| {
        format!(
            "{}: {lines} lines; past {LONGEST} a file has two subjects",
            shown(path)
        )
    }))
}

/// Whether rustdoc runs a block of this page: one in Rust, or in no named language.
fn has_example(readme: &str) -> bool {
    readme
        .lines()
        .filter_map(|line| line.strip_prefix("```"))
        .step_by(2)
        .any(|language| {
            language.is_empty() || (language.starts_with("rust") && !language.contains("ignore"))
        })
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().skip_while(|line| line.trim() != "[lints]");
    lines
        .nth(1)
        .is_some_and(|line| line.trim() == "workspace = true")
}

/// Links to files that are not there.
fn dead_links(page: &Path) -> Result<Vec<String>> {
    let folder = page.parent().context("a page lies in a folder")?;
    let dead = links(&read(page)?)
        .into_iter()
        .filter(|link| !folder.join(link).exists())
        .map(|link| format!("{}: link to {link}, which is not there", shown(page)));
    Ok(dead.collect())
}

/// The files a page of Markdown links to, without fragments and without the web. Code is no prose.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        let prose = line.split('`').step_by(2);
        if in_code {
            continue;
        }
        // Code spans may stand inside a link's text, so the target is looked for after "](".
        let joined: String = prose.collect::<Vec<_>>().join("`");
        for after in joined.split("](").skip(1) {
            let target = after.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:") {
                found.push(file.to_owned());
            }
        }
    }
    found
}

/// All files below `folder` with this extension.
fn find(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !FOREIGN.contains(&name.as_ref()) {
                find(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(workspace::root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layering test and every other rule, over this very tree.
    #[test]
    fn the_tree_is_tidy() {
        let faults = faults().unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn links_to_the_web_and_in_code_are_no_files() {
        let page = "see [a](a.md#part), [`b`](../b.rs), [c](https://c.test/d), [e](#e)\n\
                    `[f](f.md)`\n```\n[g](g.md)\n```\n[h](h/)";
        assert_eq!(links(page), ["a.md", "../b.rs", "h/"]);
    }

    #[test]
    fn a_dead_link_is_named_with_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, "[here](page.md) [gone](gone.md)").unwrap();
        let faults = dead_links(&page).unwrap();
        assert_eq!(faults.len(), 1);
        assert!(faults[0].ends_with("page.md: link to gone.md, which is not there"));
    }

    #[test]
    fn an_example_runs_unless_it_is_another_language_or_ignored() {
        assert!(has_example("```\nlet a = 1;\n```\n"));
        assert!(has_example(
            "```toml\na = 1\n```\n```rust\nlet a = 1;\n```\n"
        ));
        assert!(!has_example(
            "```toml\na = 1\n```\n```rust,ignore\nlet a = 1;\n```\n"
        ));
        assert!(!has_example("no code"));
    }

    #[test]
    fn lints_are_inherited_or_not() {
        assert!(inherits_lints(
            "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"
        ));
        assert!(!inherits_lints("[package]\nname = \"a\"\n"));
        assert!(!inherits_lints("[lints]\nrust.unsafe_code = \"allow\"\n"));
    }

    #[test]
    fn a_crate_that_says_nothing_has_five_faults() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("Cargo.toml"), "[package]\n").unwrap();
        fs::write(folder.path().join("src/lib.rs"), "").unwrap();
        let package = Package {
            name: "evenkeel-core".to_owned(),
            folder: folder.path().to_owned(),
            description: String::new(),
            license: "Apache-2.0".to_owned(),
            is_library: true,
            is_program: false,
            features: Vec::new(),
            edges: Vec::new(),
        };
        let faults = of_crate(&package).unwrap();
        assert_eq!(faults.len(), 5, "{faults:?}");
    }
}
