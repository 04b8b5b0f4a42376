//! Which items have which tag.

use std::collections::BTreeMap;
use std::sync::Arc;

/// More tags than this are no groups but names of items.
const MOST_TAGS: usize = 256;

/// The items of each tag, by place.
#[derive(Debug)]
pub(super) struct Tags {
    by_tag: BTreeMap<Arc<str>, Vec<u32>>,
    is_seen: Vec<bool>,
    left_out: usize,
}

impl Tags {
    pub(super) fn new(items: usize) -> Self {
        Self {
            by_tag: BTreeMap::new(),
            is_seen: vec![false; items],
            left_out: 0,
        }
    }

    /// Takes the tags of the item at `index`, which is one of the dataset's, the
    /// first time that it is met.
    pub(super) fn record(&mut self, index: usize, tags: &[String]) {
        if std::mem::replace(&mut self.is_seen[index], true) {
            return;
        }
        let Ok(place) = u32::try_from(index) else {
            self.left_out += tags.len();
            return;
        };
        for (nth, tag) in tags.iter().enumerate() {
            if tags[..nth].contains(tag) {
                continue;
            }
            if let Some(items) = self.by_tag.get_mut(tag.as_str()) {
                items.push(place);
            } else if self.by_tag.len() < MOST_TAGS {
                self.by_tag.insert(Arc::from(tag.as_str()), vec![place]);
            } else {
                self.left_out += 1;
            }
        }
    }

    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Each tag with the places of its items, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u32])> {
        self.by_tag.iter().map(|(tag, items)| (&**tag, &items[..]))
    }
}
