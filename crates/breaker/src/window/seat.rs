//! Seats: a thread that has one owns a cell in every window, and counts there without a locked instruction.

use std::cell::Cell;

use crate::sync::{AtomicU64, Ordering, per_thread};

/// How many threads have a seat at a time; each costs every time window 128 bytes.
///
/// As many as most servers have workers; under loom the fewest of which one can pass from thread to thread
/// while another is held.
pub(super) const SEATS: usize = if cfg!(evenkeel_loom) { 2 } else { 16 };

/// No seat: out of the range of every array of cells.
const NONE: usize = usize::MAX;

/// Which seats are taken (the lower 32 bits), and which ever were (the upper).
///
/// The lowest free one is taken first. Every change is a read-modify-write that acquires and releases, so
/// that all a thread did in its seat has happened before the next one sits down.
#[derive(Debug)]
struct Seats(AtomicU64);

/// Marks the first seat as taken now and ever.
const TAKEN: u64 = 1 << EVER | 1;
const EVER: u32 = 32;

#[cfg(not(evenkeel_loom))]
static HALL: Seats = Seats(AtomicU64::new(0));
#[cfg(not(evenkeel_loom))]
type Hall = &'static Seats;
#[cfg(not(evenkeel_loom))]
fn hall() -> Hall {
    &HALL
}

// Shared, for a model's first thread ends after its statics.
#[cfg(evenkeel_loom)]
loom::lazy_static! {
    static ref HALL: Hall = std::sync::Arc::new(Seats(AtomicU64::new(0)));
}
#[cfg(evenkeel_loom)]
type Hall = std::sync::Arc<Seats>;
#[cfg(evenkeel_loom)]
fn hall() -> Hall {
    Hall::clone(&HALL)
}

per_thread! {
    /// The seat of this thread. Has nothing to drop, so that reading it is one load.
    static MINE: Cell<usize> = const { Cell::new(NONE) };
    static LEASE: Cell<Option<Lease>> = const { Cell::new(None) };
}

/// Gives a seat back when its thread ends.
struct Lease {
    seat: usize,
    hall: Hall,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What the thread still does counts as a guest's; loom's cell may be gone, and nothing follows there.
        let _ = MINE.try_with(|mine| mine.set(NONE));
        self.hall.give_back(self.seat);
    }
}

/// The seat of this thread, or a number out of range.
#[inline]
pub(super) fn mine() -> usize {
    MINE.with(Cell::get)
}

/// Takes a seat for this thread until it ends, unless it has one, all are taken, or it is ending.
pub(super) fn claim_unless_seated() {
    if mine() != NONE {
        return;
    }
    // An error: this thread is ending, its lease has been dropped.
    let _ = LEASE.try_with(|lease| {
        let hall = hall();
        if let Some(seat) = hall.take() {
            lease.set(Some(Lease { seat, hall }));
            MINE.with(|mine| mine.set(seat));
        }
    });
}

/// How many seats, from the first on, have ever been taken.
pub(super) fn ever_taken() -> usize {
    hall().ever_taken()
}

impl Seats {
    fn take(&self) -> Option<usize> {
        let lowest = |word: u64| Some(word.trailing_ones()).filter(|seat| (*seat as usize) < SEATS);
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                lowest(word).map(|seat| word | TAKEN << seat)
            })
            .ok()
            .and_then(lowest)
            .map(|seat| seat as usize)
    }

    fn give_back(&self, seat: usize) {
        self.0.fetch_and(!(1 << seat), Ordering::AcqRel);
    }

    fn ever_taken(&self) -> usize {
        (self.0.load(Ordering::Acquire) >> EVER).trailing_ones() as usize
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::{AtomicU64, NONE, SEATS, Seats, claim_unless_seated, ever_taken, mine};

    #[test]
    fn the_lowest_free_seat_is_taken_until_there_is_none() {
        let seats = Seats(AtomicU64::new(0));
        assert_eq!(seats.ever_taken(), 0);
        for seat in 0..SEATS {
            assert_eq!(seats.take(), Some(seat));
            assert_eq!(seats.ever_taken(), seat + 1);
        }
        assert_eq!(seats.take(), None);
        for seat in [3, 1] {
            seats.give_back(seat);
        }
        assert_eq!(seats.ever_taken(), SEATS);
        assert_eq!(
            [seats.take(), seats.take(), seats.take()],
            [Some(1), Some(3), None]
        );
    }

    #[test]
    fn a_thread_that_ends_gives_its_seat_to_those_that_come_after_it() {
        for _ in 0..3 * SEATS {
            let thread = std::thread::spawn(|| {
                assert_eq!(mine(), NONE);
                claim_unless_seated();
                let seat = mine();
                claim_unless_seated();
                assert_eq!(mine(), seat);
                seat
            });
            let seat = thread.join().unwrap();
            assert!(seat < ever_taken() && ever_taken() <= SEATS, "{seat}");
        }
    }
}
