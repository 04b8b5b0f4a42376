//! Config folders for tests: real ones, and several files in one text.

use std::path::{Path, PathBuf};

use evenkeel_roster::{Loaded, Problems, SourceFile, load, report};
use jiff::civil::{Date, date};

/// The day that every test is run on.
pub(crate) const TODAY: Date = date(2026, 11, 30);

/// The environment that every test sees.
pub(crate) fn env(name: &str) -> Option<String> {
    match name {
        "EMPTY" => Some(String::new()),
        "KEY" => Some("sk-from-the-environment".to_owned()),
        "PATH_PART" => Some("p".to_owned()),
        "LINE_END" => Some("sk-from-the-environment\n".to_owned()),
        _ => None,
    }
}

/// Loads files given as `=== name` headings, each with its text below.
pub(crate) fn load_text(text: &str) -> Result<Loaded, Problems> {
    load(&split(text), &env, TODAY)
}

/// What `evenkeel check` would print.
pub(crate) fn report_of(text: &str) -> String {
    match load_text(text) {
        Ok(loaded) => report(&loaded.warnings),
        Err(problems) => problems.to_string(),
    }
}

/// `=== name` headings to files.
pub(crate) fn split(text: &str) -> Vec<SourceFile> {
    let sections = text.split("=== ").skip(1);
    sections
        .map(|section| {
            let (name, text) = section.split_once('\n').expect("a heading ends its line");
            SourceFile::new(name.trim(), text)
        })
        .collect()
}

/// The folder `fixtures/NAME` of the project.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// Every file of a folder, but not of the folders in it, in the order of their names.
pub(crate) fn files_in(folder: &Path) -> Vec<SourceFile> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy();
            let text = std::fs::read_to_string(path).expect("a fixture is readable text");
            SourceFile::new(name, text)
        })
        .collect()
}
