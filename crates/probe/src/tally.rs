//! One slice's count for one limit, in one 64-bit word.

/// Largest count of one slice: a slice that has seen 2^20 - 1 observations takes no more of them.
pub(crate) const FULL: u32 = (1 << 20) - 1;

/// Which slice, and which generation of evidence, a word belongs to.
///
/// Both are kept modulo their width and compared as the nearest: the ring retires words before they are
/// half a turn behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Low 8 bits of the evidence generation.
    pub(crate) generation: u8,
    /// Low 16 bits of slice / 16: how often the ring has turned.
    pub(crate) lap: u16,
}

/// Layout, high to low: generation 8, lap 16, observations 20, exceedances 20. With no observation in it a
/// word is free whatever its lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) stamp: Stamp,
    pub(crate) n: u32,
    pub(crate) over: u32,
}

impl Tally {
    pub(crate) const fn free(stamp: Stamp) -> Self {
        Self {
            stamp,
            n: 0,
            over: 0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is cut to its width"
    )]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self {
            stamp: Stamp {
                generation: (bits >> 56) as u8,
                lap: (bits >> 40) as u16,
            },
            n: (bits >> 20) as u32 & FULL,
            over: bits as u32 & FULL,
        }
    }

    pub(crate) const fn to_bits(self) -> u64 {
        (self.stamp.generation as u64) << 56
            | (self.stamp.lap as u64) << 40
            | (self.n as u64) << 20
            | self.over as u64
    }

    /// The counts in a word of `stamp`, none in one of another; as [n, over].
    ///
    /// Without a branch: a verdict asks this 32 times, of words that match in no pattern.
    pub(crate) const fn counts_of(bits: u64, stamp: Stamp) -> [u64; 2] {
        let differs = (bits ^ Self::free(stamp).to_bits()) >> 40 != 0;
        let counts = bits & (differs as u64).wrapping_sub(1);
        [counts >> 20 & FULL as u64, counts & FULL as u64]
    }

    /// The word after one more observation of `stamp`'s slice; None if it must stay as it is: it is full,
    /// or belongs to a later slice or generation.
    pub(crate) fn with(self, stamp: Stamp, over: bool) -> Option<Self> {
        let generation_ahead = self.stamp.generation.wrapping_sub(stamp.generation);
        let counts_on = generation_ahead == 0 && self.n > 0;
        let base = match self.stamp.lap.wrapping_sub(stamp.lap).cast_signed() {
            _ if generation_ahead.cast_signed() > 0 => return None,
            0 if counts_on && self.n == FULL => return None,
            0 if counts_on => self,
            1.. if counts_on => return None,
            _ => Self::free(stamp),
        };
        Some(Self {
            n: base.n + 1,
            over: base.over + u32::from(over),
            ..base
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        generation: 255,
        lap: 65_535,
    };

    #[test]
    fn bits_survive_a_round_trip() {
        let tally = Tally {
            stamp: STAMP,
            n: FULL,
            over: 5,
        };
        assert_eq!(Tally::from_bits(tally.to_bits()), tally);
    }

    #[test]
    fn a_full_slice_saturates() {
        let full = Tally {
            stamp: STAMP,
            n: FULL,
            over: FULL,
        };
        assert_eq!(full.with(STAMP, true), None);
        let last = Tally {
            n: FULL - 1,
            over: FULL - 1,
            ..full
        };
        assert_eq!(last.with(STAMP, true), Some(full));
    }

    #[test]
    fn laps_and_generations_compare_across_their_wrap() {
        let next_lap = Stamp { lap: 0, ..STAMP };
        let next_generation = Stamp {
            generation: 0,
            ..STAMP
        };
        let old = Tally::free(STAMP).with(STAMP, true).unwrap();
        let fresh = |stamp| Tally {
            stamp,
            n: 1,
            over: 0,
        };
        assert_eq!(old.with(next_lap, false), Some(fresh(next_lap)));
        assert_eq!(fresh(next_lap).with(STAMP, true), None);
        assert_eq!(
            old.with(next_generation, false),
            Some(fresh(next_generation))
        );
        assert_eq!(fresh(next_generation).with(STAMP, true), None);
        assert_eq!(Tally::free(next_generation).with(STAMP, true), None);
    }
}
