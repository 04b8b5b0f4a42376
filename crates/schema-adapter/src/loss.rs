//! What a provider cannot be told as asked.

/// What became of a keyword that a dialect has no words for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Treatment {
    /// Put into the description as text, and checked on return.
    Told,
    /// Not sent, and checked on return.
    Checked,
    /// Sent as `anyOf`, and checked on return.
    AsAnyOf,
    /// The provider is asked for less than the schema allows.
    Narrowed,
    /// An object whose schema says nothing of further properties is asked for without any. That is
    /// what its author means as a rule, so it is no line of `adapted`.
    Closed,
}

impl Treatment {
    /// The words used in an `adapted` line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Told => "told in words, checked on return",
            Self::Checked => "not sent, checked on return",
            Self::AsAnyOf => "sent as anyOf, checked on return",
            Self::Narrowed => "asked for narrower than the schema allows",
            Self::Closed => "objects asked for without further properties",
        }
    }
}

/// One keyword at one place that did not go out as it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loss {
    /// JSON pointer of the schema that holds it, in the caller's schema.
    pub pointer: String,
    /// The keyword.
    pub keyword: &'static str,
    /// What became of it.
    pub treatment: Treatment,
}

/// One line for each keyword and treatment, in the order of their first places; no path and no
/// value, since those are the caller's.
pub(crate) fn notes(losses: &[Loss]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for loss in losses.iter().filter(|l| l.treatment != Treatment::Closed) {
        let line = format!("{}: {}", loss.keyword, loss.treatment.as_str());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}
