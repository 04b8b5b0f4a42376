//! A bounded map that forgets its oldest entries.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared between threads; the lock is held for a look or an entry, not while a value is made.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: Mutex<Entries<K, V>>,
    capacity: usize,
}

#[derive(Debug)]
struct Entries<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: HashMap::new(),
                order: VecDeque::new(),
            }),
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        // An entry is whole or absent whatever panicked in between.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key`, made by `make` where there is none. Two threads may both make it; both
    /// get the one that was entered first.
    pub(crate) fn get_or(&self, key: &K, make: impl FnOnce() -> V) -> V {
        if let Some(value) = self.lock().map.get(key) {
            return value.clone();
        }
        let fresh = make();
        let mut entries = self.lock();
        if let Some(value) = entries.map.get(key) {
            return value.clone();
        }
        if entries.order.len() >= self.capacity
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.map.remove(&oldest);
        }
        entries.order.push_back(key.clone());
        entries.map.insert(key.clone(), fresh.clone());
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_makes_room() {
        let cache: Cache<String, u32> = Cache::new(2);
        for (key, made) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            cache.get_or(&key.to_owned(), || made);
        }
        assert_eq!(cache.get_or(&"b".to_owned(), || 9), 2);
        assert_eq!(cache.get_or(&"a".to_owned(), || 9), 9);
    }
}
