//! One line as an object whose keys are told apart.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The object of a line, and the keys that it has twice.
pub(super) struct Entries {
    pub(super) map: Map<String, Value>,
    pub(super) repeated: Vec<String>,
}

impl Entries {
    /// Reads a line.
    ///
    /// # Errors
    /// What it is instead of an object.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let at = error.valid_up_to() + 1;
            format!("is not UTF-8: byte {at} of the line")
        })?;
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|e| malformed(&e));
        }
        match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Err("is JSON, but no object: an item is a JSON object".into()),
            Err(error) => Err(malformed(&error)),
        }
    }
}

/// `serde_json`'s words without its line, which is always the first.
fn malformed(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = said
        .rsplit_once(" at line ")
        .map_or(&*said, |(what, _)| what);
    format!("is not JSON: {said} (column {})", error.column())
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Entries, A::Error> {
        let mut map = Map::new();
        let mut repeated = Vec::new();
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            if map.insert(key.clone(), value).is_some() {
                repeated.push(key);
            }
        }
        Ok(Entries { map, repeated })
    }
}
