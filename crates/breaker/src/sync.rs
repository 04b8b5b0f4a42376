//! The atomics and the lock, replaced by loom's under `--cfg evenkeel_loom`.

#[cfg(not(evenkeel_loom))]
use std::sync as primitives;

#[cfg(evenkeel_loom)]
use loom::sync as primitives;

pub(crate) use primitives::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::sync::PoisonError;

/// How many stripes a count that every call adds to is split into.
///
/// Each takes one cache line pair per window; more threads than stripes share.
pub(crate) const STRIPES: usize = if cfg!(evenkeel_loom) { 1 } else { 4 };

/// Locks; no code of a caller runs under a lock of this crate, so a poisoned one is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stripe of the current thread: threads take turns as they first ask.
#[cfg(not(evenkeel_loom))]
pub(crate) fn stripe() -> usize {
    use std::{cell::Cell, sync::atomic::AtomicUsize};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

/// All threads of a model share a stripe: the hardest case.
#[cfg(evenkeel_loom)]
pub(crate) const fn stripe() -> usize {
    0
}
