//! Faults that people met in products like this one, each held as a kind.

mod breakers;
mod clocks;
mod failover;
mod races;
mod retries;

use crate::world::World;
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Delta, EventKind, EventStream, Failure, Provider,
    ProviderCall, StreamEvent, Trail,
};
use evenkeel_router::{AnswerStream, CallError};
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

pub(crate) fn failing(status: u16) -> Behaviour {
    Behaviour::failing(Fault::status(status))
}

/// An error in OpenAI's shape with a code of its own.
pub(crate) fn code(status: u16, code: &str) -> Fault {
    Fault::Status {
        status,
        code: Some(code.to_owned()),
        message: "no".to_owned(),
        retry_after: None,
    }
}

/// A simulated provider whose calls behave by turns; the last goes on for ever.
#[derive(Debug)]
struct Turns {
    simulated: Simulated,
    turns: Mutex<VecDeque<Behaviour>>,
}

impl Turns {
    fn over(simulated: Simulated, turns: impl IntoIterator<Item = Behaviour>) -> Arc<Self> {
        Arc::new(Self {
            simulated,
            turns: Mutex::new(turns.into_iter().collect()),
        })
    }

    fn turn(&self) {
        if let Some(behaviour) = self.turns.lock().unwrap().pop_front() {
            self.simulated.set("m", behaviour);
        }
    }
}

#[async_trait::async_trait]
impl Provider for Turns {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        self.turn();
        self.simulated.complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.turn();
        self.simulated.stream(call).await
    }
}

/// Text of a stream, its failure, and whether it came to a clean end.
async fn read(mut stream: AnswerStream) -> (String, Option<Failure>, bool) {
    let (mut text, mut failure, mut ended) = (String::new(), None, false);
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Delta(Delta::Text(piece))) => text.push_str(&piece),
            Ok(StreamEvent::End) => ended = true,
            Ok(_) => {}
            Err(broken) => failure = Some(broken),
        }
    }
    (text, failure, ended)
}

/// Asks for a whole answer or a stream and reads it to its end.
async fn text(world: &World, streamed: bool) -> Result<(String, Arc<Trail>), CallError> {
    if !streamed {
        let answer = world.ask().await?;
        return Ok((answer.response.plain_text(), answer.trail));
    }
    let stream = world.stream().await?;
    let trail = stream.trail();
    let (text, failure, ended) = read(stream).await;
    assert!(ended && failure.is_none(), "{failure:?}");
    Ok((text, trail))
}

async fn ask_long(world: &World, tokens: usize) -> Result<evenkeel_router::Answer, CallError> {
    let request = ChatRequest::user("word".repeat(tokens));
    let context = CallContext::default();
    world
        .router
        .complete(crate::world::ROLE, request, context)
        .await
}

fn breaker(world: &World, rung: usize) -> &'static str {
    let explained = world.router.explain(crate::world::ROLE).unwrap();
    explained.rungs[rung].health.breaker.state
}

fn upstream_calls(world: &World) -> u64 {
    (0..world.providers.len())
        .map(|rung| world.stats(rung).started)
        .sum()
}

fn attempts_told(world: &World) -> u64 {
    let started = |k: &EventKind| matches!(k, EventKind::AttemptStarted { .. });
    u64::try_from(world.memory.count(started)).unwrap()
}
