//! What calls cost: of the answer, and of what was asked beside it.

use crate::world::{Plan, ROLE, World, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Cost, EventKind, EventStream, Failure, Provider,
    ProviderCall, SpentOn, StreamEvent, Trail, Usage,
};
use evenkeel_roster::{HedgeMode, ModelConfig};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Two dollars a million input tokens, ten a million output tokens; rung 1 twice that.
fn priced(rung: usize, model: &mut ModelConfig) {
    let factor = if rung == 0 { 1.0 } else { 2.0 };
    model.input_usd_per_mtok = Some(2.0 * factor);
    model.output_usd_per_mtok = Some(10.0 * factor);
}

/// What so many tokens cost at rung 0.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn price(input: u64, output: u64) -> f64 {
    (input as f64 * 2.0 + output as f64 * 10.0) / 1e6
}

/// What each attempt cost.
fn costs(trail: &Trail) -> Vec<Option<Cost>> {
    trail.attempts().map(|attempt| attempt.cost).collect()
}

#[track_caller]
fn assert_usd(cost: Option<f64>, expected: f64) {
    let cost = cost.unwrap();
    assert!((cost - expected).abs() < 1e-12, "{cost}, not {expected}");
}

fn kinds(world: &World) -> Vec<(&'static str, bool)> {
    world.memory.all(|kind| match kind {
        EventKind::AttemptEnded { cost, .. } => cost.map(|c| (c.spent_on.as_str(), c.is_estimate)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn an_answer_costs_what_it_reports_and_nothing_was_added() {
    let world = Plan::new(vec![steady(100)]).model(priced).build();
    let answer = world.ask().await.unwrap();
    let usage = answer.response.usage.unwrap();
    let usd = price(usage.input, usage.output);
    assert!(usd > 0.0);
    assert_usd(answer.meta.cost_usd, usd);
    assert_eq!(answer.meta.added_cost_usd, Some(0.0));
    assert!(!answer.meta.cost_is_estimate);
    assert_eq!(kinds(&world), [("answer", false)]);
    let ended = world.memory.all(|kind| match kind {
        EventKind::CallEnded { meta, .. } => meta.as_ref().map(|m| m.cost_usd),
        _ => None,
    });
    assert_eq!(ended, [answer.meta.cost_usd]);
}

#[tokio::test(start_paused = true)]
async fn without_prices_the_cost_is_unknown_and_not_zero() {
    let only_input = |_: usize, model: &mut ModelConfig| model.input_usd_per_mtok = Some(1.0);
    for world in [
        Plan::new(vec![steady(100)]).build(),
        Plan::new(vec![steady(100)]).model(only_input).build(),
    ] {
        let answer = world.ask().await.unwrap();
        assert_eq!(answer.meta.cost_usd, None);
        assert_eq!(costs(&answer.trail), [None]);
        assert!(kinds(&world).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_what_it_cost_at_its_end() {
    let world = Plan::new(vec![steady(100).with_tokens(8)])
        .model(priced)
        .build();
    let mut stream = world.stream().await.unwrap();
    assert_eq!(stream.meta().cost_usd, None, "not yet known");
    let mut usage = None;
    while let Some(event) = stream.next().await {
        if let StreamEvent::Usage(reported) = event.unwrap() {
            usage = Some(reported);
        }
    }
    let usage = usage.unwrap();
    let usd = price(usage.input, usage.output);
    assert_usd(stream.meta().cost_usd, usd);
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_a_race_adds_what_it_was_sent() {
    let slow = steady(10_000);
    let world = Plan::new(vec![slow, steady(100)]).model(priced).build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first lost", "1 hedge won"]);
    // Nothing was reported: the input as it is estimated, of the output nothing is known.
    let input = ChatRequest::user("hello").estimated_input_tokens();
    let lost = costs(&answer.trail)[0].unwrap();
    assert_eq!(lost.spent_on, SpentOn::Hedge);
    assert!(lost.is_estimate);
    assert_usd(Some(lost.usd), price(input, 0));
    assert_eq!(answer.meta.added_cost_usd, Some(lost.usd));
    assert!(answer.meta.cost_is_estimate);
    assert_eq!(kinds(&world), [("hedge", true), ("answer", false)]);
}

/// A model whose tokenizer makes half of what is estimated.
#[derive(Debug)]
struct Terse(Simulated);

#[async_trait::async_trait]
impl Provider for Terse {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let estimate = call.request.estimated_input_tokens();
        let mut answer = self.0.complete(call).await?;
        answer.usage = answer.usage.map(|usage| Usage {
            input: estimate / 2,
            ..usage
        });
        Ok(answer)
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.0.stream(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_estimate_of_a_loser_learns_from_what_its_model_reports() {
    let long = ChatRequest::user("the tide turns at noon ".repeat(200));
    let world = Plan::new(vec![steady(100), steady(100)])
        .model(priced)
        .provider(|_, simulated| Arc::new(Terse(simulated)))
        .build();
    let ask = || {
        let context = CallContext::default();
        world.router.complete(ROLE, long.clone(), context)
    };
    let mut reported = 0;
    for _ in 0..100 {
        reported = ask().await.unwrap().response.usage.unwrap().input;
    }
    assert_eq!(reported, long.estimated_input_tokens() / 2);
    world.set(0, steady(10_000));
    let lost = costs(&ask().await.unwrap().trail)[0].unwrap().usd;
    let billed = price(reported, 0);
    assert!(
        (billed..billed * 1.1).contains(&lost),
        "{lost} for {billed}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_losing_stream_adds_what_had_come_of_it() {
    // Content of rung 0 comes before that of rung 1, which is held until it is whole.
    let slow = steady(900).with_tokens(1_000).with_inter_token(ms(200));
    let world = Plan::new(vec![slow, steady(200)])
        .model(priced)
        .policy(|p| {
            p.commit = evenkeel_roster::Commit::Full;
            p.signal = evenkeel_roster::Signal::Total;
        })
        .build();
    let mut stream = world.stream().await.unwrap();
    while stream.next().await.is_some() {}
    assert_eq!(told(&stream.trail()), ["0 first lost", "1 hedge won"]);
    let lost = costs(&stream.trail())[0].unwrap();
    let input = ChatRequest::user("hello").estimated_input_tokens();
    assert!(lost.usd > price(input, 0), "{}", lost.usd);
    assert!(lost.is_estimate);
    assert_eq!(stream.meta().added_cost_usd, Some(lost.usd));
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_is_not_billed_and_one_that_broke_is() {
    let refused = Behaviour::failing(Fault::status(503));
    let world = Plan::new(vec![refused, steady(100)]).model(priced).build();
    let answer = world.ask().await.unwrap();
    let first = costs(&answer.trail)[0].unwrap();
    assert_eq!((first.usd, first.spent_on), (0.0, SpentOn::Failover));
    assert!(!first.is_estimate);
    assert_eq!(answer.meta.added_cost_usd, Some(0.0));

    let hangs = Behaviour::failing(Fault::Hang);
    let world = Plan::new(vec![hangs, steady(100)])
        .model(priced)
        .policy(|p| {
            p.hedge.mode = HedgeMode::Off;
            p.signal = evenkeel_roster::Signal::FirstToken;
            p.clocks.first_token = ms(500);
        })
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first timeout", "1 failover won"]);
    let first = costs(&answer.trail)[0].unwrap();
    assert!(first.usd > 0.0, "the provider was at work");
    assert_eq!(first.spent_on, SpentOn::Failover);
    assert_eq!(answer.meta.added_cost_usd, Some(first.usd));
}

#[tokio::test(start_paused = true)]
async fn what_was_added_is_unknown_where_one_price_is() {
    let fallback_only = |rung: usize, model: &mut ModelConfig| {
        if rung == 1 {
            priced(rung, model);
        }
    };
    let world = Plan::new(vec![steady(10_000), steady(100)])
        .model(fallback_only)
        .build();
    let answer = world.ask().await.unwrap();
    assert!(answer.meta.cost_usd.unwrap() > 0.0);
    assert_eq!(answer.meta.added_cost_usd, None);
    // One that was not billed adds nothing, whatever its price.
    let world = Plan::new(vec![Behaviour::failing(Fault::status(503)), steady(100)])
        .model(fallback_only)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.added_cost_usd, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_left_was_spent_on_its_answer() {
    let world = Plan::new(vec![steady(10_000)]).model(priced).build();
    let left = tokio::time::timeout(ms(300), world.ask()).await;
    assert!(left.is_err());
    assert_eq!(kinds(&world), [("answer", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_says_what_it_cost() {
    let spiky = Behaviour::healthy(Latency::millis(5_000)).with_tokens(5);
    let world = Plan::new(vec![spiky, steady(100)])
        .model(priced)
        .policy(|p| p.restore.probe_interval = Duration::from_secs(1))
        .build();
    for _ in 0..8 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, steady(100));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let probes = world.memory.all(|kind| match kind {
        EventKind::Probed { latency, cost, .. } => latency.map(|_| cost.unwrap()),
        _ => None,
    });
    assert!(!probes.is_empty());
    for cost in probes {
        assert_eq!(cost.spent_on, SpentOn::Probe);
        assert!(!cost.is_estimate && cost.usd > 0.0, "{cost:?}");
    }
}
