//! Answers from another build than the one that the roster was measured on.

use crate::world::{Memory, Plan, ROLE, World, ms, steady};
use evenkeel_chaos::Simulated;
use evenkeel_core::{
    ChatResponse, EventKind, EventStream, Failure, Provider, ProviderCall, StreamEvent,
};
use evenkeel_roster::{Hashes, Measured, RungConfig};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// The build that answers, as it says itself: its name and its fingerprint.
#[derive(Debug, Clone, Default)]
struct Build(Arc<Mutex<(String, Option<String>)>>);

impl Build {
    fn of(model: &str, fingerprint: Option<&str>) -> Self {
        let build = Self::default();
        build.becomes(model, fingerprint);
        build
    }

    fn becomes(&self, model: &str, fingerprint: Option<&str>) {
        *self.0.lock().unwrap() = (model.to_owned(), fingerprint.map(str::to_owned));
    }
}

/// A simulated provider whose answers name a build.
#[derive(Debug)]
struct Built(Simulated, Build);

#[async_trait::async_trait]
impl Provider for Built {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let mut answer = self.0.complete(call).await?;
        let (model, fingerprint) = self.1.0.lock().unwrap().clone();
        answer.model = model;
        if let Some(told) = fingerprint {
            let fields = &mut answer.extra.fields;
            fields.insert("system_fingerprint".to_owned(), json!(told));
        }
        Ok(answer)
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let (model, fingerprint) = self.1.0.lock().unwrap().clone();
        let events = self.0.stream(call).await?;
        Ok(Box::pin(events.map(move |event| {
            event.map(|event| match event {
                StreamEvent::Start {
                    id,
                    created,
                    mut extra,
                    ..
                } => {
                    if let Some(told) = &fingerprint {
                        let fields = &mut extra.fields;
                        fields.insert("system_fingerprint".to_owned(), json!(told));
                    }
                    StreamEvent::Start {
                        id,
                        model: model.clone(),
                        created,
                        extra,
                    }
                }
                event => event,
            })
        })))
    }
}

fn measured(rung: &mut RungConfig, snapshot: &str, fingerprints: &[&str]) {
    rung.measured = Measured {
        hashes: Some(Hashes {
            prompt: "p".to_owned(),
            tools: "none".to_owned(),
            dataset: "d".to_owned(),
            snapshot: snapshot.to_owned(),
            fingerprints: fingerprints.iter().map(ToString::to_string).collect(),
        }),
        ..Measured::default()
    };
}

/// One rung, measured on `big-1` with the fingerprints `a` and `b`.
fn world(build: &Build) -> World {
    let build = build.clone();
    Plan::new(vec![steady(10)])
        .rung(|_, rung| measured(rung, "big-1", &["a", "b"]))
        .provider(move |_, simulated| Arc::new(Built(simulated, build.clone())))
        .build()
}

/// What was told of drift: who answered, and who was expected.
fn drifts(memory: &Memory) -> Vec<(String, String)> {
    memory.all(|kind| match kind {
        EventKind::ModelDrift {
            role,
            model,
            reported,
            expected,
        } => {
            assert_eq!((&**role, model.as_str()), (ROLE, "p0/m"));
            Some((reported.to_string(), expected.to_string()))
        }
        _ => None,
    })
}

async fn read(world: &World) {
    let mut stream = world.stream().await.unwrap();
    while let Some(event) = stream.next().await {
        event.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn another_build_is_told_once_whole_and_streamed_alike() {
    let build = Build::of("big-1", Some("a"));
    let world = world(&build);
    for fingerprint in [Some("a"), Some("b"), None] {
        build.becomes("big-1", fingerprint);
        world.ask().await.unwrap();
        read(&world).await;
    }
    assert_eq!(drifts(&world.memory), []);
    build.becomes("big-2", Some("a"));
    for _ in 0..3 {
        world.ask().await.unwrap();
        read(&world).await;
    }
    build.becomes("big-1", Some("c"));
    for _ in 0..3 {
        read(&world).await;
        world.ask().await.unwrap();
    }
    let told = |reported: &str| (reported.to_owned(), "big-1 a,b".to_owned());
    let expected = [told("big-2 a"), told("big-1 c")];
    assert_eq!(drifts(&world.memory), expected);
    let state = world.router.state();
    let drift = state.roles[0].rungs[0].drift.as_ref().unwrap();
    let reported: Vec<String> = drift.reported.iter().map(ToString::to_string).collect();
    assert_eq!(reported, ["big-2 a", "big-1 c"]);
    assert_eq!(drift.expected.to_string(), "big-1 a,b");
}

/// A reload that measures nothing anew tells nothing anew; one that does begins afresh.
#[tokio::test(start_paused = true)]
async fn a_reload_remembers_what_was_told_of_the_same_measurement() {
    let build = Build::of("big-2", None);
    let world = world(&build);
    world.ask().await.unwrap();
    assert_eq!(drifts(&world.memory).len(), 1);
    world
        .reload(|config| config.roles.get_mut(ROLE).unwrap().policy.p99 = ms(2_500))
        .unwrap();
    world.ask().await.unwrap();
    assert_eq!(drifts(&world.memory).len(), 1);
    world
        .reload(|config| {
            let role = config.roles.get_mut(ROLE).unwrap();
            measured(&mut role.rungs[0], "big-2", &[]);
        })
        .unwrap();
    world.ask().await.unwrap();
    assert_eq!(
        drifts(&world.memory).len(),
        1,
        "it is what was measured now"
    );
    let state = world.router.state();
    let drift = state.roles[0].rungs[0].drift.as_ref().unwrap();
    assert_eq!(drift.reported, []);
}

#[tokio::test(start_paused = true)]
async fn a_roster_that_does_not_say_what_was_measured_is_compared_with_nothing() {
    let build = Build::of("anything", Some("x"));
    let world = Plan::new(vec![steady(10)])
        .provider(move |_, simulated| Arc::new(Built(simulated, build.clone())))
        .build();
    world.ask().await.unwrap();
    assert_eq!(drifts(&world.memory), []);
    assert!(world.router.state().roles[0].rungs[0].drift.is_none());
}
