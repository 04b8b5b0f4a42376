//! One outcome as a line of a journal.

use crate::outcome::{Outcome, OutcomeKind};
use evenkeel_core::{Class, ModelId, Usage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What stands in the journal for one question: its outcome, and what asking it
/// cost besides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) outcome: Outcome,
    /// US dollars that judges of the answer cost; 0 where nobody judged.
    pub(crate) judges_usd: f64,
    /// Why no scorer could score the answer; none where one did.
    pub(crate) unscored: Option<Arc<str>>,
}

/// The written form. Keys are short words, times whole microseconds; what is not
/// known is left out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    candidate: Cow<'a, str>,
    index: usize,
    #[serde(borrow)]
    item: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    tags: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "is_zero")]
    repeat: u32,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    class: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    total_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_token_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    judges_usd: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    judges_agree: Option<bool>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    answer: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    unscored: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    input: u64,
    output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_nothing(usd: &f64) -> bool {
    *usd <= 0.0
}

impl Entry {
    /// US dollars that the question has cost, judges included; none where that is not
    /// known, since it failed.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        let own = self.outcome.cost_usd;
        let judges = (self.judges_usd > 0.0).then_some(self.judges_usd);
        own.map(|usd| usd + self.judges_usd).or(judges)
    }

    /// Writes it at the end of `line`, with a line feed.
    pub(crate) fn write(&self, line: &mut Vec<u8>) {
        let outcome = &self.outcome;
        let (kind, score, class) = match outcome.kind {
            OutcomeKind::Answered(score) => ("answered", Some(score), None),
            OutcomeKind::Refused => ("refused", None, None),
            OutcomeKind::Failed(class) => ("failed", None, Some(class)),
            OutcomeKind::Unscored => ("unscored", None, None),
            OutcomeKind::Unmeasured(class) => ("unmeasured", None, Some(class)),
        };
        let borrowed = |text: &'_ Option<Arc<str>>| text.as_deref().map(str::to_owned);
        let written = Line {
            candidate: Cow::Borrowed(outcome.candidate.as_str()),
            index: outcome.index,
            item: Cow::Borrowed(&outcome.item),
            tags: Cow::Borrowed(&outcome.tags),
            repeat: outcome.repeat,
            kind: Cow::Borrowed(kind),
            score,
            class: class.map(|class| Cow::Borrowed(class.as_str())),
            valid: outcome.is_valid,
            total_us: micros(outcome.total),
            first_token_us: outcome.first_token.map(micros),
            usage: outcome.usage.map(Tokens::of),
            cost_usd: outcome.cost_usd,
            judges_usd: self.judges_usd,
            judges_agree: outcome.judges_agree,
            model: borrowed(&outcome.snapshot).map(Cow::Owned),
            fingerprint: borrowed(&outcome.fingerprint).map(Cow::Owned),
            answer: borrowed(&outcome.answer).map(Cow::Owned),
            unscored: borrowed(&self.unscored).map(Cow::Owned),
        };
        serde_json::to_writer(&mut *line, &written).expect("numbers and text are JSON");
        line.push(b'\n');
    }

    /// Reads a line, without its line feed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let kind = line.kind()?;
        let text = |text: Option<Cow<'_, str>>| text.map(|text| Arc::from(&*text));
        let candidate = ModelId::new(&line.candidate).map_err(|e| e.to_string())?;
        Ok(Self {
            judges_usd: line.judges_usd,
            unscored: text(line.unscored),
            outcome: Outcome {
                candidate,
                index: line.index,
                item: Arc::from(&*line.item),
                tags: line.tags.into_owned().into(),
                repeat: line.repeat,
                kind,
                is_valid: line.valid,
                total: Duration::from_micros(line.total_us),
                first_token: line.first_token_us.map(Duration::from_micros),
                usage: line.usage.as_ref().map(Tokens::usage),
                cost_usd: line.cost_usd,
                judges_agree: line.judges_agree,
                snapshot: text(line.model),
                fingerprint: text(line.fingerprint),
                answer: text(line.answer),
            },
        })
    }
}

impl Line<'_> {
    fn kind(&self) -> Result<OutcomeKind, String> {
        let class = || {
            let word = self.class.as_deref().ok_or("`class` is missing")?;
            let known = Class::ALL.into_iter().find(|class| class.as_str() == word);
            known.ok_or_else(|| format!("`class` is `{word}`, which is none"))
        };
        match &*self.kind {
            "answered" => match self.score {
                Some(score) if (0.0..=1.0).contains(&score) => Ok(OutcomeKind::Answered(score)),
                Some(score) => Err(format!("`score` is {score}, expected 0 to 1")),
                None => Err("`score` is missing".to_owned()),
            },
            "refused" => Ok(OutcomeKind::Refused),
            "failed" => Ok(OutcomeKind::Failed(class()?)),
            "unscored" => Ok(OutcomeKind::Unscored),
            "unmeasured" => Ok(OutcomeKind::Unmeasured(class()?)),
            other => Err(format!("`kind` is `{other}`, which is none")),
        }
    }
}

impl Tokens {
    const fn of(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cached: usage.cached,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
        }
    }

    const fn usage(&self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            cached: self.cached,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
        }
    }
}

/// Whole microseconds: what a journal tells apart.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = OutcomeKind> {
        let class = prop::sample::select(Class::ALL.to_vec());
        prop_oneof![
            (0.0..=1.0).prop_map(OutcomeKind::Answered),
            Just(OutcomeKind::Refused),
            Just(OutcomeKind::Unscored),
            class.clone().prop_map(OutcomeKind::Failed),
            class.prop_map(OutcomeKind::Unmeasured),
        ]
    }

    fn spans() -> impl Strategy<Value = Duration> {
        (0..u64::from(u32::MAX)).prop_map(Duration::from_micros)
    }

    fn texts() -> impl Strategy<Value = Option<Arc<str>>> {
        prop::option::of("\\PC{0,20}|[\\x00-\\x20\"\\\\]{0,5}").prop_map(|t| t.map(Arc::from))
    }

    prop_compose! {
        fn usages()(
            input in any::<u32>(), output in any::<u32>(), cached in any::<Option<u16>>(),
            cache_write in any::<Option<u16>>(), reasoning in any::<Option<u16>>(),
        ) -> Usage {
            Usage {
                input: input.into(),
                output: output.into(),
                cached: cached.map(u64::from),
                cache_write: cache_write.map(u64::from),
                reasoning: reasoning.map(u64::from),
            }
        }
    }

    prop_compose! {
        /// Any outcome, whole to the microsecond.
        pub(crate) fn entries()(
            (candidate, index, repeat) in ("[a-z]{1,5}/[a-z0-9.:-]{1,9}", any::<u16>(), any::<u8>()),
            item in "\\PC{1,20}",
            tags in prop::collection::vec("\\PC{0,8}", 0..3),
            (kind, is_valid) in (kinds(), any::<Option<bool>>()),
            (total, first_token) in (spans(), prop::option::of(spans())),
            usage in prop::option::of(usages()),
            (cost_usd, judges_usd) in (prop::option::of(0.0..9.0), 0.0..9.0),
            judges_agree in any::<Option<bool>>(),
            (snapshot, fingerprint, answer, unscored) in (texts(), texts(), texts(), texts()),
        ) -> Entry {
            let outcome = Outcome {
                candidate: ModelId::new(&candidate).unwrap(),
                index: index.into(),
                item: item.into(),
                tags: tags.into(),
                repeat: repeat.into(),
                kind,
                is_valid,
                total,
                first_token,
                usage,
                cost_usd,
                judges_agree,
                snapshot,
                fingerprint,
                answer,
            };
            Entry { outcome, judges_usd, unscored }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(entry in entries()) {
            let mut line = Vec::new();
            entry.write(&mut line);
            let ends = line.iter().position(|b| *b == b'\n');
            prop_assert_eq!(ends, Some(line.len() - 1), "one line");
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert_eq!(Entry::read(&line), Ok(entry));
        }

        #[test]
        fn no_line_is_a_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Entry::read(&line);
        }
    }

    #[test]
    fn a_line_that_is_none_says_why() {
        let line = |rest: &str| {
            format!(r#"{{"candidate":"a/b","index":0,"item":"x","total_us":1,{rest}}}"#)
        };
        for (rest, said) in [
            (r#""kind":"answered""#, "`score` is missing"),
            (r#""kind":"answered","score":1.5"#, "`score` is 1.5"),
            (r#""kind":"failed""#, "`class` is missing"),
            (r#""kind":"failed","class":"tired""#, "`class` is `tired`"),
            (r#""kind":"guessed""#, "`kind` is `guessed`"),
            (r#""kind":"refused","mood":1"#, "mood"),
        ] {
            let error = Entry::read(line(rest).as_bytes()).unwrap_err();
            assert!(error.contains(said), "{rest}: {error}");
        }
    }
}
