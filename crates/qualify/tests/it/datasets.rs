//! The project's golden datasets, read whole.

use evenkeel_qualify::{Golden, NOTHING};
use std::path::{Path, PathBuf};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden")
}

#[test]
fn every_dataset_of_the_project_is_whole() {
    for (name, role, items, has_shape) in [
        ("classify-banking8", "classify", 200, true),
        ("classify-banking77", "classify", 308, true),
        ("extract-restaurant", "extract", 300, true),
        ("qa-gsm8k", "qa", 250, false),
        ("tools-bfcl-simple", "tools", 200, true),
        ("tools-bfcl-multiple", "tools", 120, true),
    ] {
        let golden = Golden::open(folder().join(format!("{name}.jsonl"))).unwrap();
        assert_eq!(golden.count(), items, "{name}");
        let roles: Vec<&str> = golden.roles().iter().map(|role| &**role).collect();
        assert_eq!(roles, [role]);
        assert_eq!(golden.tools_hash() != NOTHING, has_shape, "{name}");
        assert!(!golden.runs_commands() && golden.judges().is_empty());
        assert_eq!(golden.items(None).map(Result::unwrap).count(), items);
    }
}
