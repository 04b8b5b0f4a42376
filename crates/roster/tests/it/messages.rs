//! Every message, word for word: `bad/` is refused, `warned/` is taken with warnings.

use std::path::Path;

use crate::folder::{files_in, load_text, report_of};

/// The files of a folder: a name and a text each.
fn cases(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it")
        .join(folder);
    let cases: Vec<(String, String)> = files_in(&folder)
        .into_iter()
        .map(|file| (file.name.trim_end_matches(".txt").to_owned(), file.text))
        .collect();
    assert!(!cases.is_empty(), "{}", folder.display());
    cases
}

#[test]
fn a_bad_configuration_is_refused_with_all_its_problems() {
    for (name, text) in cases("bad") {
        assert!(load_text(&text).is_err(), "{name} was taken");
        insta::assert_snapshot!(name, report_of(&text));
    }
}

#[test]
fn a_doubtful_configuration_is_taken_with_warnings() {
    for (name, text) in cases("warned") {
        assert!(load_text(&text).is_ok(), "{name}: {}", report_of(&text));
        insta::assert_snapshot!(name, report_of(&text));
    }
}
