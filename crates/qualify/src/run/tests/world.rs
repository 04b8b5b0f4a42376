//! A role over models that answer as a test says, on the paused clock.

use super::super::alone::alone;
use super::super::engine::{Ended, Run};
use super::super::folder::RunFolder;
use super::super::judges::Judges;
use super::super::plan::{Plan, RunOptions};
use super::super::progress::{Halt, Progress};
use super::super::respondent::Respondent;
use super::super::score::SoFar;
use super::super::{Load, RunError};
use crate::golden::Golden;
use crate::outcome::Outcome;
use evenkeel::Settings;
use evenkeel_core::{
    ChatResponse, EventStream, Extra, Failure, Finish, ModelId, Part, Provider, ProviderCall,
    StreamEvent, Usage, events_of,
};
use evenkeel_roster::{Candidates, CandidatesByRole};
use evenkeel_router::Router;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(super) const ROLE: &str = "clerk";

const CONFIG: &str = r#"
[providers.north]
dialect = "simulated"
[providers.south]
dialect = "simulated"
[[models]]
id = "big"
provider = "north"
input_usd_per_mtok = 1000000.0
output_usd_per_mtok = 0.0
[[models]]
id = "small"
provider = "south"
input_usd_per_mtok = 1000000.0
output_usd_per_mtok = 0.0
[agent_roles.clerk]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
primary = "north/big"
fallbacks = [{ model = "south/small" }]
"#;

/// What a model does with the n-th question that it is asked, from 0.
pub(super) type Answers = dyn Fn(usize, &str) -> Behaved + Send + Sync;

/// How it behaves.
pub(super) struct Behaved {
    pub(super) after: Duration,
    pub(super) with: Result<String, Failure>,
}

/// Says what is expected of the test's items, at once.
pub(super) fn right(question: &str) -> Behaved {
    said(question.rsplit(' ').next().unwrap_or_default())
}

pub(super) fn said(text: &str) -> Behaved {
    Behaved {
        after: Duration::ZERO,
        with: Ok(text.to_owned()),
    }
}

pub(super) fn failed(failure: Failure) -> Behaved {
    Behaved {
        after: Duration::ZERO,
        with: Err(failure),
    }
}

impl Behaved {
    pub(super) fn after_ms(self, ms: u64) -> Self {
        Self {
            after: Duration::from_millis(ms),
            ..self
        }
    }
}

/// A provider of one model that answers as a test says, each answer for one token in.
pub(super) struct Scripted {
    answers: Box<Answers>,
    asked: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    questions: Mutex<Vec<String>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    pub(super) fn new(
        answers: impl Fn(usize, &str) -> Behaved + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answers: Box::new(answers),
            asked: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            questions: Mutex::default(),
        })
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn most_under_way(&self) -> usize {
        self.most_under_way.load(Ordering::SeqCst)
    }

    /// Last words of the last message of each request, in their order.
    pub(super) fn questions(&self) -> Vec<String> {
        let questions = self.questions.lock();
        questions.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait::async_trait]
impl Provider for Scripted {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        struct UnderWay<'s>(&'s AtomicUsize);
        impl Drop for UnderWay<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        let _under_way = UnderWay(&self.under_way);
        self.most_under_way.fetch_max(now, Ordering::SeqCst);
        let last = call.request.messages.last();
        let question = last
            .map(evenkeel_core::Message::plain_text)
            .unwrap_or_default();
        let behaved = (self.answers)(number, &question);
        let questions = self.questions.lock();
        questions
            .unwrap_or_else(PoisonError::into_inner)
            .push(question);
        sleep(behaved.after).await;
        let text = behaved.with?;
        Ok(ChatResponse {
            id: "a".to_owned(),
            model: format!("{}-2026-11-30", call.model),
            created: 0,
            parts: vec![Part::Text(text)],
            finish: Finish::Stop,
            usage: Some(Usage {
                input: 1,
                output: 1,
                ..Usage::default()
            }),
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra {
                dialect: "openai",
                fields: [("system_fingerprint".to_owned(), "fp_1".into())]
                    .into_iter()
                    .collect(),
            },
        })
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let answer = self.complete(call).await?;
        let events = events_of(&answer).into_iter();
        let events = events.chain([StreamEvent::End]).map(Ok);
        Ok(Box::pin(futures_util::stream::iter(events)))
    }
}

/// A folder with a dataset and a role over two scripted models at two providers.
pub(super) struct World {
    pub(super) folder: TempDir,
    pub(super) settings: Settings,
    pub(super) golden: Arc<Golden>,
    pub(super) models: BTreeMap<ModelId, Arc<Scripted>>,
    pub(super) options: RunOptions,
}

pub(super) fn model(id: &str) -> ModelId {
    ModelId::new(id).expect("the test names a model")
}

/// `count` items that ask for a number each.
pub(super) fn items(count: usize) -> String {
    (0..count)
        .map(|n| format!(r#"{{"id":"i{n}","prompt":"say {n}","expected":"{n}","check":"number"}}"#))
        .fold(String::new(), |all, line| all + &line + "\n")
}

impl World {
    /// With these items, over `primary` and `candidate`.
    pub(super) fn new(items: &str, primary: Arc<Scripted>, candidate: Arc<Scripted>) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("it can be written to");
            path
        };
        let config = write("evenkeel.toml", CONFIG);
        let golden = write("golden.jsonl", items);
        let by_role = CandidatesByRole::from([(ROLE.to_owned(), Candidates::default())]);
        Self {
            settings: Settings::load_to_measure(config, &by_role).expect("it is good"),
            golden: Arc::new(Golden::open(golden).expect("it is good")),
            folder,
            models: BTreeMap::from([
                (model("north/big"), primary),
                (model("south/small"), candidate),
            ]),
            options: RunOptions {
                load: Load::Closed { concurrency: 4 },
                ..RunOptions::default()
            },
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let (golden, options) = (self.golden.clone(), self.options.clone());
        Plan::new(&self.settings, ROLE, None, golden, options).expect("it can be measured")
    }

    pub(super) fn report(&self) -> RunFolder {
        RunFolder::of(&self.folder.path().join("report"), ROLE)
    }

    fn respondents(&self, plan: &Plan) -> Vec<Respondent> {
        let respondent = |id: &ModelId| {
            let streamed = plan.options.is_streamed;
            let config = alone(self.settings.config(), ROLE, id, streamed).expect("it is there");
            let provider: Arc<dyn Provider> = self.models[id].clone();
            let router = Router::builder(&config).provider(id.provider(), provider);
            let router = router.build().expect("one rung is a roster");
            Respondent::over(router, ROLE, id, plan.options.patience)
        };
        plan.models().map(respondent).collect()
    }

    /// Runs from the beginning to the end.
    pub(super) async fn run(&self) -> Heard {
        self.put(false, CancellationToken::new())
            .await
            .expect("it ends")
    }

    pub(super) async fn put(
        &self,
        is_resumed: bool,
        stop: CancellationToken,
    ) -> Result<Heard, RunError> {
        let plan = self.plan();
        let folder = self.report().lock(jiff::Timestamp::UNIX_EPOCH)?;
        let run = Run {
            settings: &self.settings,
            folder: &folder,
            is_resumed,
            http_validators: None,
            commands: None,
            begun: jiff::Timestamp::UNIX_EPOCH,
            plan: plan.clone(),
        };
        let mut outcomes = Vec::new();
        let mut shown = Shown::default();
        let mut on = |outcome: &Outcome| outcomes.push(outcome.clone());
        let respondents = self.respondents(&plan);
        let judges = Judges::default();
        let ended = run
            .put_to(respondents, judges, &mut shown, &mut on, stop)
            .await?;
        Ok(Heard {
            outcomes,
            ended,
            shown,
        })
    }

    pub(super) fn journal(&self) -> String {
        read(&self.report().journal())
    }
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the run wrote it")
}

/// What came of a run.
pub(super) struct Heard {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) ended: Ended,
    pub(super) shown: Shown,
}

impl Heard {
    pub(super) fn of(&self, id: &str) -> Vec<&Outcome> {
        let of = |outcome: &&Outcome| outcome.candidate.as_str() == id;
        self.outcomes.iter().filter(of).collect()
    }
}

/// What was shown, a line each.
#[derive(Debug, Default)]
pub(super) struct Shown(pub(super) Vec<String>);

impl Progress for Shown {
    fn begins(&mut self, candidate: &ModelId, total: usize, before: SoFar) {
        let done = before.heard();
        self.0.push(match done {
            0 => format!("{candidate} 0 of {total}"),
            _ => format!("{candidate} {done} of {total}, {before}"),
        });
    }

    fn heard(&mut self, _: &Outcome) {}

    fn waits(&mut self, candidate: &ModelId, wait: Duration) {
        self.0
            .push(format!("{candidate} waits {} ms", wait.as_millis()));
    }

    fn halted(&mut self, candidate: &ModelId, halt: Halt) {
        self.0.push(format!("{candidate}: {halt}"));
    }

    fn ends(&mut self, candidate: &ModelId) {
        self.0.push(format!("{candidate} ends"));
    }
}
