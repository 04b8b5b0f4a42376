//! Tool calls of a stream, held until their arguments parse.

use evenkeel_core::{Class, Delta, Failure, StreamEvent, ToolCall};

/// Lets a stream pass but for its tool calls: from the first call on, events are kept
/// until the arguments of every call so far are whole and parse. Half a call is of no
/// use to anybody, and one that does not parse must not reach the caller.
///
/// An object is whole with its last brace. Whether anything else is, or whether there
/// are no arguments, is known when the answer says why it ended.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    kept: Vec<StreamEvent>,
    calls: Vec<Open>,
}

#[derive(Debug, Default)]
struct Open {
    call: ToolCall,
    shape: Shape,
    /// It has been let go: nothing of it is kept.
    passed: bool,
}

impl Withheld {
    /// Takes the next event; what may go on is added to `out`.
    ///
    /// # Errors
    /// [`Class::Malformed`] where the arguments of a call do not parse.
    pub(crate) fn push(
        &mut self,
        event: StreamEvent,
        out: &mut impl Extend<StreamEvent>,
    ) -> Result<(), Failure> {
        match &event {
            StreamEvent::Delta(Delta::ToolCallStart { index, name, .. })
                if *index == self.calls.len() =>
            {
                self.calls.push(Open::of(name.clone()));
            }
            StreamEvent::Delta(Delta::ToolCallArguments { index, fragment }) => {
                if let Some(call) = self.calls.get_mut(*index) {
                    call.push(fragment)?;
                }
            }
            StreamEvent::Finish(_) => self.end()?,
            _ => {}
        }
        if self.calls.iter().all(|call| call.passed) {
            out.extend(self.kept.drain(..));
            out.extend([event]);
        } else {
            self.kept.push(event);
        }
        Ok(())
    }

    /// No more content comes: what is there is all.
    fn end(&mut self) -> Result<(), Failure> {
        for call in self.calls.iter_mut().filter(|call| !call.passed) {
            call.call.verify()?;
            call.pass();
        }
        Ok(())
    }
}

impl Open {
    fn of(name: String) -> Self {
        Self {
            call: ToolCall {
                name,
                ..ToolCall::default()
            },
            ..Self::default()
        }
    }

    fn push(&mut self, fragment: &str) -> Result<(), Failure> {
        if self.passed {
            return self.beyond(fragment);
        }
        self.call.arguments.push_str(fragment);
        if self.shape.closes(fragment) {
            self.call.verify()?;
            self.pass();
        }
        Ok(())
    }

    /// More of arguments that were whole already.
    fn beyond(&self, fragment: &str) -> Result<(), Failure> {
        if fragment.trim().is_empty() {
            return Ok(());
        }
        let message = format!(
            "arguments of the call to tool `{}` go on behind their end",
            self.call.name
        );
        Err(Failure::new(Class::Malformed, message))
    }

    fn pass(&mut self) {
        self.passed = true;
        self.call.arguments = String::new();
    }
}

/// How deep the end of a JSON text is, so that its last brace is known without
/// parsing all of it after each fragment.
#[derive(Debug, Default)]
struct Shape {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Shape {
    /// Whether the text closes its outermost brace with this fragment.
    fn closes(&mut self, fragment: &str) -> bool {
        let mut closed = false;
        for byte in fragment.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    closed = self.depth == 0;
                }
                _ => {}
            }
        }
        closed && self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Finish;

    fn text(text: &str) -> StreamEvent {
        StreamEvent::Delta(Delta::Text(text.to_owned()))
    }

    fn start(index: usize) -> StreamEvent {
        StreamEvent::Delta(Delta::ToolCallStart {
            index,
            id: format!("c{index}"),
            name: format!("t{index}"),
        })
    }

    fn arguments(index: usize, fragment: &str) -> StreamEvent {
        StreamEvent::Delta(Delta::ToolCallArguments {
            index,
            fragment: fragment.to_owned(),
        })
    }

    /// How many events are out after each one, and the failure that ended it.
    fn passes(events: &[StreamEvent]) -> (Vec<usize>, Option<Failure>) {
        let mut withheld = Withheld::default();
        let mut out = Vec::new();
        let mut counts = Vec::new();
        for event in events.iter().cloned() {
            if let Err(failure) = withheld.push(event, &mut out) {
                return (counts, Some(failure));
            }
            counts.push(out.len());
        }
        assert_eq!(out, events[..out.len()], "nothing is lost or moved");
        (counts, None)
    }

    #[test]
    fn text_passes_and_a_call_when_its_last_brace_has_come() {
        let events = vec![
            text("a"),
            start(0),
            arguments(0, "{\"x\": \"}\\\""),
            arguments(0, "{\", \"y\": [{}"),
            arguments(0, "]}"),
            StreamEvent::Finish(Finish::ToolUse),
        ];
        let (counts, failure) = passes(&events);
        assert_eq!(counts, [1, 1, 1, 1, 5, 6]);
        assert!(failure.is_none());
    }

    #[test]
    fn what_may_be_whole_or_not_waits_for_the_end_of_the_answer() {
        for fragments in [&[][..], &["null"], &["12", "3"], &["\"{}\""]] {
            let mut events = vec![start(0)];
            events.extend(fragments.iter().map(|f| arguments(0, f)));
            events.push(text("b"));
            events.push(StreamEvent::Finish(Finish::ToolUse));
            let (counts, failure) = passes(&events);
            assert!(failure.is_none(), "{fragments:?}");
            let (last, before) = counts.split_last().unwrap();
            assert!(before.iter().all(|n| *n == 0), "{fragments:?}");
            assert_eq!(*last, fragments.len() + 3);
        }
    }

    #[test]
    fn calls_that_come_mixed_are_let_go_together() {
        let events = vec![
            start(0),
            start(1),
            arguments(1, "{}"),
            arguments(0, "{"),
            arguments(0, "}"),
        ];
        assert_eq!(passes(&events).0, [0, 0, 0, 0, 5]);
    }

    #[test]
    fn arguments_that_do_not_parse_are_malformed() {
        for fragments in [&["{\"a\": }"][..], &["{\"a\": 1"], &["{}", "{}"], &["}"]] {
            let mut events = vec![start(0)];
            events.extend(fragments.iter().map(|f| arguments(0, f)));
            events.push(StreamEvent::Finish(Finish::ToolUse));
            let failure = passes(&events).1.unwrap();
            assert_eq!(failure.class, Class::Malformed, "{fragments:?}");
            assert!(failure.message.contains("`t0`"), "{failure}");
        }
    }

    #[test]
    fn white_space_behind_a_call_passes() {
        let events = vec![start(0), arguments(0, "{}"), arguments(0, "\n")];
        assert_eq!(passes(&events).0, [0, 2, 3]);
    }
}
