//! An exposition, read.

use std::collections::{BTreeMap, BTreeSet};

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// A page of `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Types by family.
    pub(crate) types: BTreeMap<String, String>,
    samples: Vec<(String, Labels, f64)>,
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (family, kind) = rest.split_once(' ').unwrap();
                let before = page.types.insert(family.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{family} is there twice");
            } else if !line.starts_with('#') {
                page.samples.push(sample(line));
            }
        }
        page
    }

    /// The value of the one sample of that name whose labels include `labels`.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found = self.find(name, labels);
        assert!(found.len() < 2, "{name} {labels:?}: {found:?}");
        found.first().map(|(_, value)| *value)
    }

    /// The sum of all samples of that name whose labels include `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).iter().map(|(_, value)| value).sum()
    }

    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Vec<(&Labels, f64)> {
        let matches = |found: &Labels| {
            labels
                .iter()
                .all(|(key, value)| found.get(*key).is_some_and(|v| v == value))
        };
        let named = self.samples.iter().filter(|(found, ..)| found == name);
        let matching = named.filter(|(_, found, _)| matches(found));
        matching
            .map(|(_, labels, value)| (labels, *value))
            .collect()
    }

    /// Series, histograms counted by their buckets.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.samples
            .iter()
            .map(|(name, _, value)| (name.as_str(), *value))
    }

    /// The label names of each family.
    pub(crate) fn shapes(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, labels, _) in &self.samples {
            let family = self.family(name).to_owned();
            let names = labels.keys().filter(|name| *name != "le").cloned();
            shapes.entry(family).or_default().extend(names);
        }
        shapes
    }

    fn family<'a>(&self, name: &'a str) -> &'a str {
        if self.types.contains_key(name) {
            return name;
        }
        let parts = ["_bucket", "_sum", "_count"];
        let stem = parts.iter().find_map(|part| name.strip_suffix(part));
        stem.unwrap()
    }
}

fn sample(line: &str) -> (String, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap();
    let Some((name, labels)) = series.split_once('{') else {
        return (series.to_owned(), Labels::new(), value);
    };
    let labels = labels.strip_suffix('}').unwrap();
    // No label of a test holds a quote.
    let pairs = labels.split("\",").map(|pair| {
        let (key, value) = pair.split_once("=\"").unwrap();
        (key.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), pairs.collect(), value)
}
