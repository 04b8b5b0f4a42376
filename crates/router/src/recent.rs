//! The last things that callers may come back for, bounded in number and age.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Things that are kept at most.
pub(crate) const MOST_KEPT: usize = 10_000;
/// How long a thing is kept after it was last touched.
pub(crate) const LONGEST_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Whose it is, and the caller's own name for it: nobody comes upon what is
/// another caller's by knowing the name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) id: Arc<str>,
}

/// Things by key, the least lately touched first to go.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    entries: HashMap<Key, Entry<T>>,
    order: BTreeMap<u64, Key>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    place: u64,
    touched: Instant,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Recent<T> {
    /// The thing of that key, made where there is none; it is the last to go now.
    pub(crate) fn touch(&mut self, key: &Key, now: Instant, make: impl FnOnce() -> T) -> &mut T {
        let place = self.next;
        self.next += 1;
        let entry = self.entries.entry(key.clone());
        let entry = entry.or_insert_with(|| Entry {
            value: make(),
            place,
            touched: now,
        });
        self.order.remove(&entry.place);
        self.order.insert(place, key.clone());
        entry.place = place;
        entry.touched = now;
        &mut entry.value
    }

    /// The thing of that key, as it was last touched.
    pub(crate) fn get_mut(&mut self, key: &Key, now: Instant) -> Option<&mut T> {
        let entry = self.entries.get_mut(key)?;
        let age = now.saturating_duration_since(entry.touched);
        (age <= LONGEST_KEPT).then_some(&mut entry.value)
    }

    /// Takes out what is too old or too many.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(Key, T)> {
        let mut gone = Vec::new();
        while let Some(first) = self.order.first_entry() {
            let key = first.get();
            let is_old = self
                .entries
                .get(key)
                .is_none_or(|entry| now.saturating_duration_since(entry.touched) > LONGEST_KEPT);
            if !is_old && self.entries.len() <= MOST_KEPT {
                break;
            }
            let key = first.remove();
            if let Some(entry) = self.entries.remove(&key) {
                gone.push((key, entry.value));
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: usize) -> Key {
        Key {
            caller: None,
            id: Arc::from(id.to_string()),
        }
    }

    #[test]
    fn the_least_lately_touched_goes_first() {
        let mut recent = Recent::default();
        let t0 = tokio::time::Instant::now().into_std();
        for id in 0..MOST_KEPT {
            recent.touch(&key(id), t0, || id);
        }
        assert!(recent.expire(t0).is_empty());
        recent.touch(&key(0), t0, || unreachable!("it is there"));
        recent.touch(&key(MOST_KEPT), t0, || MOST_KEPT);
        assert_eq!(recent.expire(t0), [(key(1), 1)]);
        assert_eq!(recent.get_mut(&key(0), t0), Some(&mut 0));
        assert_eq!(recent.entries.len(), recent.order.len());
    }

    #[test]
    fn what_is_too_old_is_not_there() {
        let mut recent = Recent::default();
        let t0 = tokio::time::Instant::now().into_std();
        recent.touch(&key(1), t0, || 1);
        recent.touch(&key(2), t0 + LONGEST_KEPT, || 2);
        let late = t0 + LONGEST_KEPT + Duration::from_secs(1);
        assert_eq!(recent.get_mut(&key(1), t0 + LONGEST_KEPT), Some(&mut 1));
        assert_eq!(recent.get_mut(&key(1), late), None);
        assert_eq!(recent.expire(late), [(key(1), 1)]);
        assert_eq!(recent.get_mut(&key(2), late), Some(&mut 2));
    }
}
