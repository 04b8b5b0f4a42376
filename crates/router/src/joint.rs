//! Where one attempt's text goes on behind another's.

use evenkeel_core::{Class, Delta, Failure, StreamEvent};

/// Finds the place in an attempt's text from which it goes on with the text that the
/// caller has already.
#[derive(Debug)]
pub(crate) struct Joint {
    way: Way,
    /// The attempt said something else.
    differs: bool,
}

#[derive(Debug)]
enum Way {
    /// It answers afresh: of the text so far it has repeated so many bytes.
    Repeats { met: usize },
    /// It was given the text up to `given` bytes, without the white space at its end,
    /// and has said `said` since.
    GoesOn { given: usize, said: String },
}

impl Joint {
    /// Of an attempt that answers afresh: it goes on once it has repeated the whole
    /// text exactly, white space included.
    pub(crate) fn after_repeating() -> Self {
        Self {
            way: Way::Repeats { met: 0 },
            differs: false,
        }
    }

    /// Of an attempt that was given `sent` to go on from, without the white space at
    /// its end: that would be refused by some (Anthropic), and makes others say words
    /// with a space too many. What it says of that space itself is left out, and so
    /// is the text it was given, where its provider says that again (Mistral).
    pub(crate) fn behind(sent: &str) -> Self {
        Self {
            way: Way::GoesOn {
                given: sent.trim_end().len(),
                said: String::new(),
            },
            differs: false,
        }
    }

    /// Whether the attempt has said something else than the text it was to go on from.
    pub(crate) fn differs(&self) -> bool {
        self.differs
    }

    /// Takes an event of the attempt. Some is what follows behind `sent`, the text so
    /// far: from here on it goes on.
    ///
    /// # Errors
    /// Where it differs from the text so far, or is over before it has repeated it.
    pub(crate) fn meet(
        &mut self,
        event: StreamEvent,
        sent: &str,
    ) -> Result<Option<Vec<StreamEvent>>, Failure> {
        match event {
            StreamEvent::Delta(Delta::Text(text)) => self.meet_text(&text, sent),
            StreamEvent::Finish(_) => {
                let mut behind = self.at_end(sent)?;
                behind.push(event);
                Ok(Some(behind))
            }
            // Reasoning comes before an answer.
            StreamEvent::Delta(Delta::Reasoning(_)) => Ok(None),
            StreamEvent::Delta(_) if event.is_content() => Err(self.other()),
            _ => Ok(None),
        }
    }

    fn meet_text(&mut self, text: &str, sent: &str) -> Result<Option<Vec<StreamEvent>>, Failure> {
        let behind = match &mut self.way {
            Way::Repeats { met } => {
                let expected = &sent.as_bytes()[*met..];
                let common = expected.len().min(text.len());
                if text.as_bytes()[..common] != expected[..common] {
                    return Err(self.other());
                }
                *met += common;
                // Behind the whole of `sent`, or nothing: no character is split.
                text.get(common..).unwrap_or_default()
            }
            Way::GoesOn { given, said } => {
                said.push_str(text);
                let (given, space) = sent.split_at(*given);
                match said.strip_prefix(given) {
                    Some(again) => behind_space(again, space),
                    // It may yet turn out to be the text that it was given.
                    None if given.starts_with(said.as_str()) => "",
                    None => behind_space(said, space),
                }
            }
        };
        Ok((!behind.is_empty()).then(|| vec![text_event(behind)]))
    }

    /// The answer is over: what of it is left to deliver.
    fn at_end(&mut self, sent: &str) -> Result<Vec<StreamEvent>, Failure> {
        match &self.way {
            Way::Repeats { met } if *met < sent.len() => Err(self.other()),
            Way::Repeats { .. } => Ok(Vec::new()),
            Way::GoesOn { given, said } => {
                let (given, space) = sent.split_at(*given);
                let said = said.strip_prefix(given).unwrap_or(said);
                let behind = behind_space(said, space);
                let some = !behind.is_empty();
                Ok(some.then(|| text_event(behind)).into_iter().collect())
            }
        }
    }

    fn other(&mut self) -> Failure {
        self.differs = true;
        Failure::new(
            Class::Semantic,
            "a fresh answer differs from the text that was sent already",
        )
    }
}

fn text_event(text: &str) -> StreamEvent {
    StreamEvent::Delta(Delta::Text(text.to_owned()))
}

/// `said` without what it repeats of `space`, the white space sent already.
fn behind_space<'a>(said: &'a str, space: &str) -> &'a str {
    let mut rest = said;
    for c in space.chars() {
        match rest.strip_prefix(c) {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Finish, ReasoningPart};

    /// What follows behind `sent` of an answer in these pieces, if anything does.
    fn met(mut joint: Joint, sent: &str, pieces: &[&str]) -> Result<String, Failure> {
        let mut behind = String::new();
        let mut joined = false;
        let events = pieces.iter().map(|piece| text_event(piece));
        for event in events.chain([StreamEvent::Finish(Finish::Stop)]) {
            let events = if joined {
                vec![event]
            } else {
                joint.meet(event, sent)?.unwrap_or_default()
            };
            joined |= !events.is_empty();
            for event in events {
                if let StreamEvent::Delta(Delta::Text(text)) = event {
                    behind.push_str(&text);
                }
            }
        }
        assert!(joined, "an answer that is over has gone on");
        Ok(behind)
    }

    fn repeating(sent: &str, pieces: &[&str]) -> Option<String> {
        met(Joint::after_repeating(), sent, pieces).ok()
    }

    fn going_on(sent: &str, pieces: &[&str]) -> String {
        met(Joint::behind(sent), sent, pieces).unwrap()
    }

    const TEXT: &str = "Ebb — and  flow,\n\nслово 🙂 end.";

    /// At every place, in every pair of pieces, multi-byte characters included.
    #[test]
    fn a_fresh_answer_goes_on_wherever_the_text_was_cut() {
        let places: Vec<usize> = (0..=TEXT.len())
            .filter(|i| TEXT.is_char_boundary(*i))
            .collect();
        for &cut in &places {
            for &split in &places {
                let (a, b) = TEXT.split_at(split);
                let behind = repeating(&TEXT[..cut], &[a, b]);
                assert_eq!(
                    behind.as_deref(),
                    Some(&TEXT[cut..]),
                    "cut {cut}, split {split}"
                );
            }
            let single: Vec<String> = TEXT.chars().map(String::from).collect();
            let single: Vec<&str> = single.iter().map(String::as_str).collect();
            assert_eq!(
                repeating(&TEXT[..cut], &single).as_deref(),
                Some(&TEXT[cut..])
            );
        }
    }

    #[test]
    fn a_fresh_answer_that_differs_anywhere_does_not_go_on() {
        for (sent, pieces) in [
            ("Ebb and", &["Ebb  and flow"][..]),
            ("Ebb\n", &["Ebb \n"]),
            ("Ebb", &["ebb"]),
            ("слово", &["слова"]),
            ("é", &["è"]),
            ("Ebb and", &["Ebb", " an"]),
            ("Ebb", &[]),
        ] {
            assert_eq!(repeating(sent, pieces), None, "{sent:?} {pieces:?}");
        }
    }

    #[test]
    fn an_attempt_that_goes_on_is_met_at_every_cut_and_split() {
        let places: Vec<usize> = (1..=TEXT.len())
            .filter(|i| TEXT.is_char_boundary(*i))
            .collect();
        for &cut in &places {
            let sent = &TEXT[..cut];
            let given = sent.trim_end().len();
            // It says the space again, as a model does that was given none; its
            // provider may say all of the given text again.
            for said in [&TEXT[given..], TEXT] {
                for split in (0..=said.len()).filter(|i| said.is_char_boundary(*i)) {
                    let (a, b) = said.split_at(split);
                    let behind = going_on(sent, &[a, b]);
                    assert_eq!(behind, &TEXT[cut..], "cut {cut}, split {split}");
                }
            }
        }
    }

    #[test]
    fn the_white_space_at_the_joint_is_there_once() {
        assert_eq!(going_on("One ", &["two"]), "two");
        assert_eq!(going_on("One ", &[" two"]), "two");
        assert_eq!(going_on("One ", &[" ", " two"]), " two");
        assert_eq!(going_on("One", &[" two"]), " two");
        assert_eq!(going_on("One\n\n", &["\n", "\n", "Two"]), "Two");
        assert_eq!(going_on("One\n\n", &["\nTwo"]), "Two");
        assert_eq!(going_on("One \u{a0}", &[" \u{a0}two"]), "two");
    }

    #[test]
    fn an_end_right_at_the_joint_is_an_end() {
        assert_eq!(going_on("All of it.", &[]), "");
        assert_eq!(going_on("All of it.\n", &["\n"]), "");
        assert_eq!(
            repeating("All of it.", &["All of it."]).as_deref(),
            Some("")
        );
        // The beginning of the text once more, but not all of it.
        assert_eq!(going_on("no no no", &["no"]), "no");
    }

    #[test]
    fn reasoning_is_passed_over_and_anything_else_differs() {
        let mut joint = Joint::after_repeating();
        let reasoning = StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
            text: "hm".to_owned(),
            ..ReasoningPart::default()
        }));
        assert_eq!(joint.meet(reasoning, "a").unwrap(), None);
        assert!(!joint.differs());
        let refusal = StreamEvent::Delta(Delta::Refusal("no".to_owned()));
        joint.meet(refusal, "a").unwrap_err();
        assert!(joint.differs());
    }
}
