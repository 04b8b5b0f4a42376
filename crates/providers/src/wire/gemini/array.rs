//! A stream as one JSON array, which comes where server-sent events were not
//! asked for, or not heard.

use crate::wire::sse::EventTooLarge;

/// Splits the array into its elements, in any split of its bytes.
#[derive(Debug)]
pub(in crate::wire) struct Splitter {
    limit: usize,
    element: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Splitter {
    /// A splitter that holds at most `limit` bytes of one element, begun
    /// behind the opening bracket.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            element: Vec::new(),
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// Takes the next bytes and adds the elements that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`], after which nothing more must be pushed.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        elements: &mut Vec<String>,
    ) -> Result<(), EventTooLarge> {
        for byte in bytes {
            let opens = !self.in_string && matches!(byte, b'{' | b'[');
            // What stands between the elements, the last bracket among it.
            if self.depth == 0 && !opens {
                continue;
            }
            if self.element.len() >= self.limit {
                self.element = Vec::new();
                return Err(EventTooLarge { limit: self.limit });
            }
            self.element.push(*byte);
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 {
                elements.push(text(&std::mem::take(&mut self.element)));
            }
        }
        Ok(())
    }

    /// An element that was cut off, if any.
    pub(super) fn finish(&mut self) -> Option<String> {
        let cut = std::mem::take(&mut self.element);
        (!cut.is_empty()).then(|| text(&cut))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_as_soon_as_they_are_whole_in_any_split() {
        let array = b"{\"a\":\"}]\\\"\"}\r\n,\r\n{\"b\":[{}]}\n]";
        for size in 1..array.len() {
            let mut splitter = Splitter::new(100);
            let mut elements = Vec::new();
            for piece in array.chunks(size) {
                splitter.push(piece, &mut elements).unwrap();
            }
            assert_eq!(elements, ["{\"a\":\"}]\\\"\"}", "{\"b\":[{}]}"], "{size}");
            assert_eq!(splitter.finish(), None);
        }
    }

    #[test]
    fn an_element_is_bounded() {
        let mut splitter = Splitter::new(10);
        let mut elements = Vec::new();
        assert!(splitter.push(b"{\"a\":1}, {\"a\":", &mut elements).is_ok());
        assert!(splitter.push(b"\"xxxxxxxxxx", &mut elements).is_err());
        assert_eq!(elements.len(), 1);
    }

    #[test]
    fn a_cut_element_is_told() {
        let mut splitter = Splitter::new(10);
        splitter.push(b" {\"a\"", &mut Vec::new()).unwrap();
        assert_eq!(splitter.finish().as_deref(), Some("{\"a\""));
    }
}
