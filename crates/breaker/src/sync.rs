//! The atomics, the lock and the thread's own, replaced by loom's under `--cfg evenkeel_loom`.

#[cfg(not(evenkeel_loom))]
use std::sync as primitives;
#[cfg(not(evenkeel_loom))]
pub(crate) use std::thread_local as per_thread;

#[cfg(evenkeel_loom)]
use loom::sync as primitives;
/// In the words of std's `thread_local`.
#[cfg(evenkeel_loom)]
macro_rules! per_thread {
    ($($(#[$doc:meta])* static $name:ident: $type:ty = const $init:block;)*) => {
        loom::thread_local! { $(static $name: $type = $init;)* }
    };
}
#[cfg(evenkeel_loom)]
pub(crate) use per_thread;

pub(crate) use primitives::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::sync::PoisonError;

/// Locks; no code of a caller runs under a lock of this crate, so a poisoned one is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
