//! Providers that play recorded streams, event by event, on the paused clock.

use crate::world::{Memory, ROLE, model_id};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, Delta, EventStream, Extra, Failure, Finish,
    Provider, ProviderCall, StreamEvent, Usage,
};
use evenkeel_roster::{Config, ModelConfig, RoleConfig, RolePolicy, RungConfig};
use evenkeel_router::{AnswerStream, CallError, Router};
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens next in a stream.
#[derive(Debug, Clone)]
pub(crate) enum Cue {
    /// Nothing for so long.
    Wait(Duration),
    /// This event.
    Event(StreamEvent),
    /// The stream breaks.
    Break(Failure),
    /// The stream goes silent for ever.
    Hang,
}

/// A model that plays its tapes in turn, the last one for ever, and remembers what
/// it was asked.
#[derive(Debug)]
pub(crate) struct Tape {
    tapes: Vec<Vec<Cue>>,
    seen: Mutex<Vec<Arc<ChatRequest>>>,
}

#[async_trait::async_trait]
impl Provider for Tape {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        Err(Failure::new(Class::BadRequest, "this model only streams"))
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let tape = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(call.request.clone());
            self.tapes[(seen.len() - 1).min(self.tapes.len() - 1)].clone()
        };
        Ok(stream::unfold(tape.into_iter(), play).boxed())
    }
}

type Tail = std::vec::IntoIter<Cue>;

async fn play(mut tape: Tail) -> Option<(Result<StreamEvent, Failure>, Tail)> {
    loop {
        match tape.next()? {
            Cue::Wait(wait) => tokio::time::sleep(wait).await,
            Cue::Event(event) => return Some((Ok(event), tape)),
            Cue::Break(failure) => return Some((Err(failure), tape)),
            Cue::Hang => std::future::pending().await,
        }
    }
}

/// A role over taped models.
pub(crate) struct Deck {
    pub(crate) router: Router,
    pub(crate) memory: Arc<Memory>,
    models: Vec<Arc<Tape>>,
}

/// Rungs `p0/m`, `p1/m`, … that play these tapes; retries off.
pub(crate) fn deck(
    models: Vec<Vec<Vec<Cue>>>,
    change: impl FnOnce(&mut RolePolicy),
    model: impl Fn(usize, &mut ModelConfig),
) -> Deck {
    let s = Duration::from_secs;
    let mut policy = RolePolicy::new(s(1), s(2), s(20));
    policy.retry.transient = 0;
    policy.retry.malformed = 0;
    policy.retry.semantic = 0;
    change(&mut policy);
    let ids: Vec<_> = (0..models.len()).map(model_id).collect();
    let rungs = ids.iter().enumerate().map(|(rank, id)| match rank {
        0 => RungConfig::primary(id.clone()),
        _ => RungConfig::fallback(id.clone(), 0.9),
    });
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: rungs.collect(),
    };
    let mut config = Config::default();
    config.roles.insert(ROLE.to_owned(), role);
    for (rank, id) in ids.iter().enumerate() {
        let mut facts = ModelConfig::new(id.clone());
        model(rank, &mut facts);
        config.models.insert(id.clone(), facts);
    }
    let memory = Arc::new(Memory::default());
    let mut builder = Router::builder(&config).observer(memory.clone()).seed(1);
    let mut tapes = Vec::new();
    for (rank, takes) in models.into_iter().enumerate() {
        let tape = Arc::new(Tape {
            tapes: takes,
            seen: Mutex::default(),
        });
        builder = builder.provider(&format!("p{rank}"), tape.clone());
        tapes.push(tape);
    }
    Deck {
        router: builder.build().unwrap(),
        memory,
        models: tapes,
    }
}

impl Deck {
    pub(crate) async fn stream(&self, request: ChatRequest) -> Result<AnswerStream, CallError> {
        self.router
            .stream(ROLE, request, CallContext::default())
            .await
    }

    /// Asks a plain question and reads the stream to its end.
    pub(crate) async fn read(&self) -> Read {
        read(self.stream(ChatRequest::user("hello")).await.unwrap()).await
    }

    /// Asks a plain question in this context.
    pub(crate) async fn ask(&self, context: CallContext) -> AnswerStream {
        let request = ChatRequest::user("hello");
        self.router.stream(ROLE, request, context).await.unwrap()
    }

    /// Asks a plain question; what happened, whether or not there was an answer.
    pub(crate) async fn read_any(&self) -> Vec<String> {
        match self.stream(ChatRequest::user("hello")).await {
            Ok(stream) => read(stream).await.trail,
            Err(error) => crate::world::told(&error.trail),
        }
    }

    /// What a rung was asked, in order.
    pub(crate) fn seen(&self, rung: usize) -> Vec<Arc<ChatRequest>> {
        self.models[rung].seen.lock().unwrap().clone()
    }
}

/// A stream as its reader had it.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) events: Vec<StreamEvent>,
    pub(crate) failure: Option<Failure>,
    pub(crate) trail: Vec<String>,
}

pub(crate) async fn read(mut answer: AnswerStream) -> Read {
    let mut read = Read::default();
    while let Some(event) = answer.next().await {
        match event {
            Ok(event) => read.events.push(event),
            Err(failure) => read.failure = Some(failure),
        }
    }
    read.trail = crate::world::told(&answer.trail());
    read
}

impl Read {
    pub(crate) fn text(&self) -> String {
        let pieces = self.events.iter().filter_map(|event| match event {
            StreamEvent::Delta(Delta::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        pieces.collect()
    }

    pub(crate) fn ended(&self) -> bool {
        self.events.last() == Some(&StreamEvent::End)
    }
}

/// The beginning of a stream.
pub(crate) fn begin(id: &str) -> Cue {
    Cue::Event(StreamEvent::Start {
        id: id.to_owned(),
        model: "m".to_owned(),
        created: 7,
        extra: Extra::default(),
    })
}

pub(crate) fn text(piece: &str) -> Cue {
    Cue::Event(StreamEvent::Delta(Delta::Text(piece.to_owned())))
}

/// These pieces of text, so far apart.
pub(crate) fn texts(pieces: &[&str], apart: Duration) -> Vec<Cue> {
    let pieces = pieces.iter();
    pieces
        .flat_map(|piece| [Cue::Wait(apart), text(piece)])
        .collect()
}

/// The end of a whole answer, with its usage.
pub(crate) fn end(finish: Finish, input: u64, output: u64) -> Vec<Cue> {
    let usage = Usage {
        input,
        output,
        ..Usage::default()
    };
    [
        StreamEvent::Finish(finish),
        StreamEvent::Usage(usage),
        StreamEvent::End,
    ]
    .map(Cue::Event)
    .to_vec()
}

/// A connection that breaks within the answer.
pub(crate) fn cut() -> Cue {
    Cue::Break(Failure::new(Class::Transient, "connection lost"))
}

/// A whole stream of these pieces.
pub(crate) fn whole(pieces: &[&str], apart: Duration) -> Vec<Cue> {
    let mut tape = vec![begin("whole")];
    tape.extend(texts(pieces, apart));
    tape.extend(end(Finish::Stop, 10, pieces.len() as u64));
    tape
}

/// A stream of these pieces that breaks after them.
pub(crate) fn broken(pieces: &[&str], apart: Duration) -> Vec<Cue> {
    let mut tape = vec![begin("broken")];
    tape.extend(texts(pieces, apart));
    tape.push(cut());
    tape
}
