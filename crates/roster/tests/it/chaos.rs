//! Damaged files: never a panic, and every problem points into its file.

use evenkeel_roster::{SourceFile, load};
use proptest::prelude::*;

use crate::folder::{TODAY, env, files_in, fixture};

fn originals() -> Vec<SourceFile> {
    let mut files = files_in(&fixture("config"));
    files.extend(files_in(&fixture("manifests")));
    files
}

/// Replaces a piece of `text`, at character borders, by `insert`.
fn damaged(text: &str, at: prop::sample::Index, length: usize, insert: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let start = at.index(chars.len());
    let end = (start + length).min(chars.len());
    chars[..start]
        .iter()
        .copied()
        .chain(insert.chars())
        .chain(chars[end..].iter().copied())
        .collect()
}

fn check_points_into_its_file(files: &[SourceFile]) -> Result<(), TestCaseError> {
    let problems = match load(files, &env, TODAY) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems.0,
    };
    for problem in problems {
        let file = files.iter().find(|file| file.name == problem.file);
        let lines = file.map_or(0, |file| file.text.split('\n').count());
        prop_assert!(problem.line <= lines, "{problem}");
        prop_assert!(!problem.message.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        length in 0_usize..40,
        insert in "[\\[\\]{}=.:,&*!#'\"$\\-\na-z0-9 ]{0,8}",
        alone in any::<bool>(),
    ) {
        let mut files = originals();
        let index = which.index(files.len());
        files[index].text = damaged(&files[index].text, at, length, &insert);
        if alone {
            files = vec![files.swap_remove(index)];
        } else {
            let ending = if files[index].name.ends_with("toml") { "toml" } else { "yaml" };
            files.retain(|file| file.name.ends_with(ending));
        }
        check_points_into_its_file(&files)?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", yaml in any::<bool>()) {
        let name = if yaml { "evenkeel.yaml" } else { "evenkeel.toml" };
        check_points_into_its_file(&[SourceFile::new(name, text)])?;
    }
}

#[test]
fn nesting_beyond_all_reason_is_refused() {
    let deep = 100_000;
    let (opened, closed) = ("[".repeat(deep), "]".repeat(deep));
    for (name, text) in [
        ("evenkeel.toml", format!("a = {opened}{closed}")),
        ("evenkeel.toml", format!("{}x = 1", "a.".repeat(deep))),
        ("evenkeel.yaml", format!("a: {opened}{closed}")),
        (
            "evenkeel.yaml",
            format!("{}{}", "{a: ".repeat(deep), "}".repeat(deep)),
        ),
        ("evenkeel.yaml", "- ".repeat(deep)),
    ] {
        let problems = load(&[SourceFile::new(name, text)], &env, TODAY).unwrap_err();
        let said = problems.to_string();
        assert!(
            ["recurs", "nested deeper"]
                .iter()
                .any(|why| said.contains(why)),
            "{said}"
        );
    }
}
