//! Counts of latencies in buckets as narrow as two significant digits ask (the layout of `HdrHistogram`).
//!
//! Its own, because a window publishes two percentiles a slice: a count for each row of 128 buckets makes
//! that 28 steps and one row, not 3,584 buckets.

use std::ops::AddAssign;

/// Buckets in a row; each is at most 1/128 of its lower edge wide (DESIGN: 2 digits).
const ROW: usize = 128;
/// Bits of a bucket's place in its row.
const ROW_BITS: u32 = ROW.trailing_zeros();
/// Two rows of single microseconds, and one for each power of two from 2^8 to 2^33.
const ROWS: usize = 28;

/// Largest latency kept apart from larger ones, in microseconds: 4 h 46 min.
pub(crate) const HIGHEST: u64 = (256 << 26) - 1;

/// Counts of microseconds, as `C`.
#[derive(Debug)]
pub(crate) struct Histogram<C> {
    buckets: Box<[[C; ROW]]>,
    /// The sum of each row.
    rows: [C; ROWS],
    len: u64,
}

impl<C: AddAssign + Copy + From<u8> + Into<u64>> Histogram<C> {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![[0.into(); ROW]; ROWS].into(),
            rows: [0.into(); ROWS],
            len: 0,
        }
    }

    /// One more; above [`HIGHEST`] in the last bucket. The caller sees to it that no count overflows.
    pub(crate) fn record(&mut self, micros: u64) {
        let (row, place) = bucket(micros);
        self.buckets[row][place] += 1.into();
        self.rows[row] += 1.into();
        self.len += 1;
    }

    /// All that `other` holds, once more.
    pub(crate) fn add<D: Copy + Into<C> + Into<u64>>(&mut self, other: &Histogram<D>) {
        let rows = self.buckets.as_flattened_mut().iter_mut();
        for (count, more) in rows.zip(other.buckets.as_flattened()) {
            *count += (*more).into();
        }
        for (count, more) in self.rows.iter_mut().zip(&other.rows) {
            *count += (*more).into();
        }
        self.len += other.len;
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.fill([0.into(); ROW]);
        self.rows.fill(0.into());
        self.len = 0;
    }
}

impl<C> Histogram<C> {
    /// How many values it holds.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
}

/// The upper edge, in microseconds, of the bucket that holds the value of `rank`, from 1, among all
/// histograms. None above their number.
pub(crate) fn at_rank<C: Copy + Into<u64>>(histograms: &[&Histogram<C>], rank: u64) -> Option<u64> {
    let mut below = 0;
    for row in 0..ROWS {
        let in_row: u64 = histograms.iter().map(|h| h.rows[row].into()).sum();
        if below + in_row < rank {
            below += in_row;
            continue;
        }
        for place in 0..ROW {
            let here = histograms.iter().map(|h| h.buckets[row][place].into());
            below += here.sum::<u64>();
            if below >= rank {
                return Some(upper_edge(row, place));
            }
        }
    }
    None
}

/// Row and place of a value: row 0 holds 0 to 127, row r from 1 on 128 << (r - 1) to (256 << (r - 1)) - 1.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a place is below 128 and a row below 28"
)]
const fn bucket(micros: u64) -> (usize, usize) {
    let micros = if micros > HIGHEST { HIGHEST } else { micros };
    let Some(shift) = (micros >> ROW_BITS).checked_ilog2() else {
        return (0, micros as usize);
    };
    (shift as usize + 1, (micros >> shift) as usize - ROW)
}

const fn upper_edge(row: usize, place: usize) -> u64 {
    if row == 0 {
        return place as u64;
    }
    (((ROW + place + 1) as u64) << (row - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around every edge and in between.
    fn values() -> impl Iterator<Item = u64> {
        let edges = (0..34).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        edges
            .chain((0..3_000).map(|i| i * i * i))
            .filter(|value| *value <= HIGHEST)
    }

    #[test]
    fn buckets_are_those_of_hdrhistogram_at_two_digits() {
        let hdr = hdrhistogram::Histogram::<u16>::new_with_bounds(1, HIGHEST, 2).unwrap();
        assert_eq!(hdr.distinct_values(), ROW * ROWS);
        for value in values() {
            let (row, place) = bucket(value);
            assert_eq!(
                upper_edge(row, place),
                hdr.highest_equivalent(value),
                "{value}"
            );
        }
    }

    #[test]
    fn every_rank_is_found_over_all_histograms() {
        let mut histograms = [Histogram::<u16>::new(), Histogram::new()];
        let mut sum = Histogram::<u64>::new();
        let mut edges = Vec::new();
        for (i, value) in values().enumerate() {
            histograms[i % 2].record(value);
            let (row, place) = bucket(value);
            edges.push(upper_edge(row, place));
        }
        edges.sort_unstable();
        for histogram in &histograms {
            sum.add(histogram);
        }
        assert_eq!(sum.len(), edges.len() as u64);
        let [a, b] = &histograms;
        for (rank, edge) in (1..).zip(&edges) {
            assert_eq!(at_rank(&[a, b], rank), Some(*edge));
            assert_eq!(at_rank(&[&sum], rank), Some(*edge));
        }
        assert_eq!(at_rank(&[a, b], edges.len() as u64 + 1), None);
        sum.clear();
        assert_eq!((sum.len(), at_rank(&[&sum], 1)), (0, None));
        sum.record(u64::MAX);
        assert_eq!(at_rank(&[&sum], 1), Some(HIGHEST));
    }
}
