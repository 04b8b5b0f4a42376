//! What a roster says of how its rungs were measured.

use jiff::civil::Date;

/// When and on what a rung was measured; what the roster does not say is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// `qualified_at`: the day of the measurement.
    pub qualified_at: Option<Date>,
    /// `schema_compliance`: share of answers that were valid for their schema or tools,
    /// 0 to 1; `None`: the golden dataset asks for neither, or nobody said.
    pub schema_compliance: Option<f64>,
    /// `hashes` (of the primary: `primary_hashes`): what the score holds for; `None`:
    /// nobody can tell, the rung is unverified.
    pub hashes: Option<Hashes>,
}

/// What a score was measured on. A score says nothing of another prompt, other tools,
/// other questions or another build of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// `prompt`: of the role's prompt for this model.
    pub prompt: String,
    /// `tools`: of the tools and schemas that the golden dataset offers.
    pub tools: String,
    /// `dataset`: of the golden dataset.
    pub dataset: String,
    /// `snapshot`: the model that the answers named; empty: they named none.
    pub snapshot: String,
    /// `fingerprints`: every `system_fingerprint` of the answers; empty: they had none.
    /// A provider that serves a model from several builds has several.
    pub fingerprints: Vec<String>,
}
