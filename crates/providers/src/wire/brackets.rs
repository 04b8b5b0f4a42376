//! How deep a JSON text is in its brackets, as it comes.

/// Counts brackets that stand in no string.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    pub(crate) fn push(&mut self, byte: u8) {
        match (self.in_string, byte) {
            (true, _) if self.escaped => self.escaped = false,
            (true, b'\\') => self.escaped = true,
            (_, b'"') => self.in_string = !self.in_string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether every bracket and every string is closed.
    pub(crate) fn are_closed(&self) -> bool {
        self.depth == 0 && !self.in_string
    }
}
