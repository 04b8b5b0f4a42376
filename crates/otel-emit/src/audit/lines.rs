//! Lines of a file of any size, one at a time.

use std::io::{self, BufRead};

/// Longest line that is looked at, bytes. A record is a few hundred, some thousands
/// with every member at its longest.
const LONGEST: usize = 1024 * 1024;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its text without the newline; of one that is too long the beginning.
    pub(super) text: &'a [u8],
    /// From 1.
    pub(super) number: u64,
    /// Whether a newline ends it.
    pub(super) is_ended: bool,
    /// Whether all of it is here.
    pub(super) is_whole: bool,
}

/// Reads lines; its memory is bounded by the longest line that is looked at.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut is_whole = true;
        let mut is_ended = false;
        let mut any = false;
        while !is_ended {
            let buffer = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', buffer);
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let room = LONGEST - self.line.len();
            is_whole &= piece.len() <= room;
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            is_ended = end.is_some();
            let used = piece.len() + usize::from(is_ended);
            self.from.consume(used);
        }
        self.number += 1;
        Ok(any.then_some(Line {
            text: &self.line,
            number: self.number,
            is_ended,
            is_whole,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_come_whole_across_any_buffer_and_a_long_one_is_bounded() {
        let long = "x".repeat(LONGEST + 5);
        let text = format!("a\n\n{long}\nb");
        for capacity in [1, 3, 8192] {
            let mut lines = Lines::new(BufReader::with_capacity(capacity, text.as_bytes()));
            let mut next = || {
                let line = lines.next().unwrap();
                line.map(|l| (l.text.len(), l.number, l.is_ended, l.is_whole))
            };
            assert_eq!(next(), Some((1, 1, true, true)));
            assert_eq!(next(), Some((0, 2, true, true)));
            assert_eq!(next(), Some((LONGEST, 3, true, false)));
            assert_eq!(next(), Some((1, 4, false, true)));
            assert_eq!(next(), None);
        }
    }
}
