//! Prompt files on disk, read as the facade reads them.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use evenkeel_core::ModelId;
use evenkeel_prompts::{
    MOST_PROMPT_BYTES, Mode, Problems, PromptSet, SourceFile, Sources, Unreadable, load,
};

use crate::registry::rosters;

/// Reads a prompt file of `folder`: a file in it, by links too, of a length in bounds.
fn read(folder: &Path, path: &str) -> Result<Vec<u8>, Unreadable> {
    let other = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Other(error.to_string()),
    };
    let home = folder.canonicalize().map_err(other)?;
    let file = home.join(path).canonicalize().map_err(other)?;
    if !file.starts_with(&home) {
        return Err(Unreadable::Outside);
    }
    let file = fs::File::open(file).map_err(other)?;
    let bytes = file.metadata().map_err(other)?.len();
    if bytes > MOST_PROMPT_BYTES {
        return Err(Unreadable::TooLong { bytes });
    }
    let mut read = Vec::new();
    file.take(MOST_PROMPT_BYTES + 1)
        .read_to_end(&mut read)
        .map_err(other)?;
    Ok(read)
}

fn load_folder(folder: &Path) -> Result<PromptSet, Problems> {
    let name = folder.join("prompts.toml");
    let text = fs::read_to_string(&name).unwrap();
    load(&Sources {
        files: &[SourceFile::new("config/prompts.toml", text)],
        rosters: &rosters(),
        env: &|_| None,
        read: &|path| read(folder, path),
    })
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/prompts/config")
}

#[test]
fn the_fixture_shows_every_key_and_loads() {
    let set = load_folder(&fixture()).unwrap();
    let model = ModelId::new("google/gemini-2.5-flash").unwrap();
    let prompt = set
        .for_rung("intake_agent", &model, Mode::Full, &[].into())
        .unwrap();
    assert_eq!(
        prompt.text,
        "Task: take in one request for the harbour office. Tone: brief and friendly. \
         You are gemini-2.5-flash of google, serving intake_agent."
    );
}

#[test]
fn a_hash_without_variables_is_that_of_the_file() {
    let set = load_folder(&fixture()).unwrap();
    let model = ModelId::new("openai/gpt-5").unwrap();
    let hash = set.hash("intake_agent", &model, Mode::Simple).unwrap();
    // sha256sum fixtures/prompts/config/prompts/intake_simple.txt
    let sum = "0aa91e774630a614bf54681d6d689eefff8e618fdc413b942197cbb89c0b12a0";
    assert_eq!(hash.to_string(), sum);
}

/// A folder that holds `prompts.toml` with `a.txt` as the only prompt.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[intake_agent.system_prompt_variants]\ndefault = \"prompts/a.txt\"\n";
    fs::write(folder.path().join("prompts.toml"), manifest).unwrap();
    fs::create_dir(folder.path().join("prompts")).unwrap();
    folder
}

fn refusal(folder: &Path) -> String {
    load_folder(folder).unwrap_err().0[0].to_string()
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_of_the_folder_is_refused_and_one_within_is_followed() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "secret").unwrap();
    let folder = folder();
    let prompt = folder.path().join("prompts/a.txt");
    symlink(outside.path(), &prompt).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "config/prompts.toml:2: intake_agent.system_prompt_variants.default: \
         `prompts/a.txt` leads out of the config folder; put the file itself into the config folder"
    );
    fs::remove_file(&prompt).unwrap();
    fs::write(folder.path().join("b.txt"), "hello").unwrap();
    symlink("../b.txt", &prompt).unwrap();
    assert!(load_folder(folder.path()).is_ok());
}

#[test]
fn a_hundred_megabytes_are_not_read() {
    let folder = folder();
    let file = fs::File::create(folder.path().join("prompts/a.txt")).unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "config/prompts.toml:2: intake_agent.system_prompt_variants.default: \
         `prompts/a.txt` holds 104857600 bytes, expected at most 1048576; \
         keep what the model looks up out of its prompt"
    );
}

#[test]
fn a_folder_in_place_of_a_file_is_refused() {
    let folder = folder();
    fs::create_dir(folder.path().join("prompts/a.txt")).unwrap();
    let said = refusal(folder.path());
    assert!(said.contains("`prompts/a.txt` cannot be read: "), "{said}");
}
