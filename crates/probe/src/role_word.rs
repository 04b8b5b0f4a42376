//! Which rung a role is on, and how often that has changed, in one atomic word.

use crate::sync::{AtomicU64, Ordering};

/// Bits of the rung; the other 48 hold the epoch: a move a second for nine million years.
const RUNG_BITS: u32 = 16;
const RUNG_MASK: u64 = (1 << RUNG_BITS) - 1;

/// A role's active rung and its epoch.
///
/// A move is a compare-and-swap from the word somebody read, so of any number of callers that see one
/// breach exactly one moves the role, and no reader ever sees the epoch of one move with the rung of
/// another.
///
/// ```
/// # use evenkeel_probe::RoleWord;
/// let word = RoleWord::new(0);
/// let seen = word.load();
/// let moved = word.try_move(seen, 1).expect("nobody else has moved it");
/// assert_eq!((moved.rung, moved.epoch), (1, 1));
/// assert_eq!(word.try_move(seen, 2), Err(moved)); // too late: decided from an old word
/// ```
#[derive(Debug)]
pub struct RoleWord(AtomicU64);

/// What a [`RoleWord`] held at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// The active rung; 0 is the primary.
    pub rung: usize,
    /// Raised by one with each change of the rung.
    pub epoch: u64,
}

impl RoleWord {
    /// The highest rung a word can name: 65,535.
    #[expect(clippy::cast_possible_truncation, reason = "16 bits fit any usize")]
    pub const MAX_RUNG: usize = RUNG_MASK as usize;

    /// A word at `rung`, epoch 0.
    ///
    /// # Panics
    /// If `rung` is above [`MAX_RUNG`](Self::MAX_RUNG).
    pub fn new(rung: usize) -> Self {
        let word = Word { rung, epoch: 0 };
        let bits = word.to_bits();
        Self(AtomicU64::new(bits.expect("a rung is at most MAX_RUNG")))
    }

    /// A word that goes on from `word`: the next move's epoch is one higher.
    ///
    /// # Panics
    /// If its rung is above [`MAX_RUNG`](Self::MAX_RUNG), or its epoch above 2^48 - 1.
    pub fn resume(word: Word) -> Self {
        let bits = word.to_bits();
        Self(AtomicU64::new(bits.expect("a word that was read fits")))
    }

    /// The rung and its epoch.
    pub fn load(&self) -> Word {
        Word::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Moves the role to rung `to` if the word is still `seen`, and returns the new word, whose epoch is one
    /// higher.
    ///
    /// # Errors
    /// The current word, if it is no longer `seen`, if `to` is the rung it is on, or if `to` is above
    /// [`MAX_RUNG`](Self::MAX_RUNG); nothing is changed then.
    pub fn try_move(&self, seen: Word, to: usize) -> Result<Word, Word> {
        let next = Word {
            rung: to,
            epoch: seen.epoch.wrapping_add(1),
        };
        let (Some(from), Some(bits)) = (seen.to_bits(), next.to_bits()) else {
            return Err(self.load());
        };
        if to == seen.rung {
            return Err(self.load());
        }
        self.0
            .compare_exchange(from, bits, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| next)
            .map_err(Word::from_bits)
    }
}

impl Word {
    /// None if a field does not fit.
    fn to_bits(self) -> Option<u64> {
        let rung = u64::try_from(self.rung).ok()?;
        let fits = rung <= RUNG_MASK && self.epoch <= u64::MAX >> RUNG_BITS;
        fits.then_some(self.epoch << RUNG_BITS | rung)
    }

    const fn from_bits(bits: u64) -> Self {
        Self {
            rung: (bits & RUNG_MASK) as usize,
            epoch: bits >> RUNG_BITS,
        }
    }
}
