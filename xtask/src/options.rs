//! Options that are passed on to another program, and looked at on the way.

/// Words as they were given, later ones over earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options(Vec<String>);

impl Options {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self(words)
    }

    /// Whether `--name` is among them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| is(word, name))
    }

    /// The value of the last `--name value` or `--name=value`.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().rposition(|word| is(word, name))?;
        match self.0[at].split_once('=') {
            Some((_, value)) => Some(value),
            None => self.0.get(at + 1).map(String::as_str),
        }
    }

    /// Takes every `--name value` out; the last value.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let mut last = None;
        while let Some(at) = self.0.iter().position(|word| is(word, name)) {
            let word = self.0.remove(at);
            last = match word.split_once('=') {
                Some((_, value)) => Some(value.to_owned()),
                None if at < self.0.len() => Some(self.0.remove(at)),
                None => None,
            };
        }
        last
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }
}

fn is(word: &str, name: &str) -> bool {
    word.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::new(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn the_last_value_counts_in_either_spelling() {
        let given = options("--mode plain --only S01,S07 --mode=stream");
        assert_eq!(given.value("--mode"), Some("stream"));
        assert_eq!(given.value("--only"), Some("S01,S07"));
        assert_eq!(given.value("--json"), None);
        assert!(given.has("--only") && !given.has("--on"));
    }

    #[test]
    fn taking_leaves_the_rest_in_order() {
        let mut given = options("--only S01 --json out.json --profile fast --json=b.json");
        assert_eq!(given.take("--json").as_deref(), Some("b.json"));
        assert_eq!(given.words(), ["--only", "S01", "--profile", "fast"]);
        assert_eq!(given.take("--json"), None);
    }

    #[test]
    fn an_option_without_its_value_takes_nothing_else() {
        let mut given = options("--only S01 --json");
        assert_eq!(given.value("--json"), None);
        assert_eq!(given.take("--json"), None);
        assert_eq!(given.words(), ["--only", "S01"]);
    }
}
