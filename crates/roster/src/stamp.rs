//! Which configuration is in force, for those who read what was done by it.

use std::fmt::Write as _;
use std::sync::Arc;

use evenkeel_core::PolicyStamp;
use evenkeel_document::{Document, SourceFile};
use sha2::{Digest as _, Sha256};

/// The stamp of the files that were read: their SHA-256, and what they call themselves.
/// Whoever reads further files with them, such as prompts, puts the hash of all in.
///
/// The hash is that of each file's name without folder, a zero byte, its bytes and a zero
/// byte, in the order of names. Placeholders are hashed as they are written, so that no
/// key goes into it that is not in the files.
pub(crate) fn stamp(
    files: &[SourceFile],
    read: &[Document],
    version: Option<&str>,
) -> Arc<PolicyStamp> {
    let mut files: Vec<(&str, &str)> = files
        .iter()
        .filter(|file| {
            read.iter()
                .any(|document| *document.place.file == *file.name)
        })
        .map(|file| (base(&file.name), file.text.as_str()))
        .collect();
    files.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, text) in files {
        for part in [name.as_bytes(), text.as_bytes()] {
            hasher.update(part);
            hasher.update([0]);
        }
    }
    let mut sha256 = String::with_capacity(64);
    for byte in hasher.finalize() {
        write!(sha256, "{byte:02x}").expect("a string takes all");
    }
    Arc::new(PolicyStamp {
        version: version.map(Arc::from),
        sha256: sha256.into(),
    })
}

fn base(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}
