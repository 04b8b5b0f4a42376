//! Plays a scenario: callers ask, models change, everything is written down.

use crate::record::{End, Record, RequestRecord, attach_trails};
use crate::request::{context, request};
use crate::scenario::{Scenario, Traffic};
use crate::world::World;
use evenkeel_core::{Accumulator, Finish, Meta, StreamEvent, Trail};
use evenkeel_router::{BuildError, Router};
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Plays `scenario` on a paused clock of its own: time passes only when everybody
/// waits, and the same scenario gives the same record.
///
/// # Errors
/// Where the router refuses the configuration.
///
/// # Panics
/// Within a runtime, or where none can be built.
pub fn replay(scenario: &Scenario) -> Result<Record, BuildError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async {
        let world = World::build(scenario)?;
        Ok(run(scenario, world).await)
    })
}

/// Plays `scenario` in `world`, which was just built of it, on the runtime's clock.
pub async fn run(scenario: &Scenario, world: World) -> Record {
    let began = world.began;
    let changes = World::run_changes(world.providers(), scenario);
    let drills = World::run_drills(world.router.clone(), scenario);
    let traffic = run_traffic(scenario, &world.router, began);
    let ((mut requests, held), (), ()) = tokio::join!(
        async {
            let requests = traffic.await;
            let held = held(&world.router);
            sleep(scenario.settle).await;
            (requests, held)
        },
        changes,
        drills
    );
    world.router.shutdown().await;
    requests.sort_by_key(|request| request.nth);
    let events = world.memory.told(began.into_std());
    attach_trails(&mut requests, &events);
    let upstream = scenario.upstream.iter();
    let upstream = upstream.map(|plan| (plan.model.clone(), world.stats(&plan.model)));
    Record {
        requests,
        events,
        upstream: upstream.collect(),
        kept: world.shelf.calls(),
        held,
    }
}

/// What the router holds to be under way.
fn held(router: &Router) -> Vec<(String, usize)> {
    let mut held = Vec::new();
    for role in router.state().roles {
        for rung in &role.rungs {
            held.push((
                format!("{} at {}", role.role, rung.model),
                rung.health.in_use,
            ));
        }
        held.push((role.role, role.in_flight));
    }
    held
}

/// Everybody who asks, until all have ended.
async fn run_traffic(scenario: &Scenario, router: &Router, began: Instant) -> Vec<RequestRecord> {
    let numbers = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for (place, traffic) in scenario.traffic.iter().enumerate() {
        let shared = Arc::new(traffic.clone());
        match traffic.callers {
            Some(together) => {
                let asked = Arc::new(AtomicUsize::new(0));
                for _ in 0..together {
                    let caller = Caller {
                        router: router.clone(),
                        place,
                        traffic: shared.clone(),
                        numbers: numbers.clone(),
                        began,
                    };
                    callers.spawn(caller.ask_on(asked.clone()));
                }
            }
            None => {
                for nth in 0..traffic.count {
                    let caller = Caller {
                        router: router.clone(),
                        place,
                        traffic: shared.clone(),
                        numbers: numbers.clone(),
                        began,
                    };
                    let at = began + traffic.from + traffic.every.saturating_mul(nth);
                    callers.spawn(async move {
                        sleep_until(at).await;
                        vec![caller.ask().await]
                    });
                }
            }
        }
    }
    callers.join_all().await.into_iter().flatten().collect()
}

/// Somebody who asks.
struct Caller {
    router: Router,
    /// The place of its traffic in the scenario.
    place: usize,
    traffic: Arc<Traffic>,
    /// The next request's number.
    numbers: Arc<AtomicUsize>,
    began: Instant,
}

/// What a caller has got so far.
#[derive(Default)]
struct Got {
    first_token: Option<Duration>,
    meta: Option<Meta>,
    text: String,
    finish: Option<Finish>,
}

impl Caller {
    /// Asks again and again, until so many have been asked by all.
    async fn ask_on(self, asked: Arc<AtomicUsize>) -> Vec<RequestRecord> {
        sleep_until(self.began + self.traffic.from).await;
        let most = usize::try_from(self.traffic.count).unwrap_or(usize::MAX);
        let mut records = Vec::new();
        while asked.fetch_add(1, Ordering::Relaxed) < most {
            records.push(self.ask().await);
        }
        records
    }

    async fn ask(&self) -> RequestRecord {
        let nth = self.numbers.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        let mut got = Got::default();
        let answer = self.answer(nth, asked, &mut got);
        let end = match self.traffic.leaves_after {
            None => answer.await,
            Some(patience) => timeout(patience, answer).await.unwrap_or(End::Left),
        };
        RequestRecord {
            nth,
            traffic: self.place,
            began: asked.duration_since(self.began),
            first_token: got.first_token,
            ended: asked.elapsed(),
            end,
            meta: got.meta,
            text: got.text,
            finish: got.finish,
            trail: Arc::new(Trail::default()),
            ends_told: 0,
        }
    }

    async fn answer(&self, nth: usize, asked: Instant, got: &mut Got) -> End {
        let traffic = &self.traffic;
        let (role, context) = (traffic.role.as_str(), context(traffic, nth));
        let request = request(traffic, nth);
        if traffic.stream {
            return match self.router.stream(role, request, context).await {
                Ok(stream) => self.read(stream, asked, got).await,
                Err(error) => End::refused(&error),
            };
        }
        match self.router.complete(role, request, context).await {
            Ok(answer) => {
                got.meta = Some(answer.meta);
                got.text = answer.response.plain_text();
                got.finish = Some(answer.response.finish);
                End::Answered
            }
            Err(error) => End::refused(&error),
        }
    }

    async fn read(
        &self,
        mut stream: evenkeel_router::AnswerStream,
        asked: Instant,
        got: &mut Got,
    ) -> End {
        got.meta = Some(stream.meta().clone());
        let mut sum = Accumulator::default();
        let mut end = None;
        while let Some(event) = stream.next().await {
            let event = match event {
                Ok(event) => event,
                Err(failure) => {
                    end = Some(End::Broke(failure.class));
                    break;
                }
            };
            if event.is_content() {
                got.first_token.get_or_insert_with(|| asked.elapsed());
            }
            sum.push(&event);
            if event == StreamEvent::End {
                end = Some(End::Answered);
            }
            if !self.traffic.read_pause.is_zero() {
                sleep(self.traffic.read_pause).await;
            }
        }
        if let Ok(response) = sum.finish() {
            got.text = response.plain_text();
            got.finish = Some(response.finish);
        }
        // A stream that just ends is what the router promises never to give.
        end.unwrap_or(End::Broke(evenkeel_core::Class::Malformed))
    }
}
