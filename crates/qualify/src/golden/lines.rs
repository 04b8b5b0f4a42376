//! A file, line by line, in bounded memory.

use crate::hashes::ContentHasher;
use std::io::{self, BufRead};

/// Longest line that is read, in bytes.
pub(super) const LONGEST: usize = 4 * 1024 * 1024;

/// What the first line of a file may begin with (the byte order mark).
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes.
    Text(&'a [u8]),
    /// It is longer than is read.
    TooLong,
}

/// Reads lines, and what all bytes hash to.
pub(crate) struct Lines<R> {
    reader: R,
    number: usize,
    line: Vec<u8>,
    is_cut: bool,
    hasher: ContentHasher,
}

impl<R> std::fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            number: 0,
            line: Vec::new(),
            is_cut: false,
            hasher: ContentHasher::new(),
        }
    }

    /// The next line that is not blank, and its number from 1; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<(usize, Line<'_>)>> {
        loop {
            let Some(is_whole) = self.fill()? else {
                return Ok(None);
            };
            if !is_whole {
                return Ok(Some((self.number, Line::TooLong)));
            }
            if self.number == 1 && self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, Line::Text(&self.line))));
            }
        }
    }

    /// Whether the last line that was read has no end: it is being written, or was
    /// cut off.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// SHA-256 of what was read, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        self.hasher.clone().finish()
    }

    /// Reads a line into `self.line`; whether it fits, none at the end.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        self.line.clear();
        let mut is_whole = true;
        let mut began = false;
        loop {
            let read = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read.is_empty() && !began {
                return Ok(None);
            }
            if !began {
                self.number += 1;
                began = true;
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            let text = &read[..end.unwrap_or(read.len())];
            if self.line.len() + text.len() > LONGEST {
                is_whole = false;
            } else if is_whole {
                self.line.extend_from_slice(text);
            }
            self.hasher.update(&read[..taken]);
            let is_last = read.is_empty();
            self.reader.consume(taken);
            if end.is_some() || is_last {
                self.is_cut = end.is_none();
                return Ok(Some(is_whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(usize, Option<Vec<u8>>)> {
        // Lines are cut by every reader's buffer somewhere else.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, text));
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            let text = match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            };
            found.push((number, text));
        }
        let mut hasher = ContentHasher::new();
        hasher.update(text);
        assert_eq!(lines.sha256(), hasher.finish());
        found
    }

    #[test]
    fn blank_lines_count_and_give_nothing() {
        let found = all(b"\xEF\xBB\xBFone\r\n\n  \ntwo\nthree");
        let expected = [(1, "one\r"), (4, "two"), (5, "three")];
        let expected = expected.map(|(n, text)| (n, Some(text.as_bytes().to_vec())));
        assert_eq!(found, expected);
        assert!(all(b"").is_empty());
        assert!(all(b"\n\n").is_empty());
    }

    #[test]
    fn a_line_too_long_is_told_and_the_next_is_read() {
        let mut text = vec![b'x'; LONGEST];
        text.push(b'\n');
        text.extend(vec![b'y'; LONGEST + 1]);
        text.extend_from_slice(b"\nz\n");
        let found = all(&text);
        assert_eq!(found.len(), 3);
        assert!(found[0].1.as_ref().is_some_and(|l| l.len() == LONGEST));
        assert_eq!(found[1], (2, None));
        assert_eq!(found[2], (3, Some(b"z".to_vec())));
    }
}
