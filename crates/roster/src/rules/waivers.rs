//! Rules that a policy has switched off.

use std::collections::BTreeMap;

use evenkeel_document::{Findings, Place};

/// Rules that a policy has switched off where they would have refused something,
/// so that `check` shows each switch once, with all it covers.
#[derive(Default)]
pub(super) struct Waivers {
    /// By switch, then by the place it is set at.
    found: BTreeMap<(&'static str, String), (Place, Vec<String>)>,
}

impl Waivers {
    pub(super) fn add(&mut self, switch: &'static str, at: Place, covered: String) {
        let key = (switch, format!("{}:{}", at.address(), at.key));
        self.found
            .entry(key)
            .or_insert_with(|| (at, Vec::new()))
            .1
            .push(covered);
    }

    pub(super) fn report(self, findings: &mut Findings) {
        for ((switch, _), (at, covered)) in self.found {
            let what = if switch == "allow_unqualified" {
                "fallbacks without a score are used"
            } else {
                "the first fallback stands at the primary's provider"
            };
            findings.warning(&at, format!("{what}: {}", covered.join(", ")), None);
        }
    }
}
