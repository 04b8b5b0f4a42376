//! The race of one call, beside a plain simulation of its rules: who is asked when,
//! who wins, how each of the others ends, what counts on which breaker.

use crate::world::{Memory, Plan, ROLE, World, ms, told};
use evenkeel_chaos::{Behaviour, Fault, Latency};
use evenkeel_core::{CallContext, ChatRequest, ClockOverrides, EventKind, Trail, TrailStep};
use evenkeel_roster::{Commit, HedgeMode};
use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The role's limit on p95, ms.
const T95: u64 = 1_000;
/// Tokens of an answer; all but the first come `gap` after the one before.
const TOKENS: u64 = 5;
/// Rung 1 and those below are said to take so long, ms.
const MEDIAN: u64 = 300;

/// How a model fares with this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// First token after so many ms, then one every so many.
    Answers(u64, u64),
    /// This status after so many ms.
    Fails(u16, u64),
    Hangs,
}

impl Fate {
    fn behaviour(self) -> Behaviour {
        match self {
            Self::Answers(first, gap) => Behaviour::healthy(Latency::millis(first))
                .with_tokens(5)
                .with_inter_token(ms(gap)),
            Self::Fails(status, after) => {
                Behaviour::failing(Fault::status(status)).with_fault_delay(ms(after))
            }
            Self::Hangs => Behaviour::failing(Fault::Hang),
        }
    }
}

/// One race.
#[derive(Debug, Clone)]
struct Race {
    fates: Vec<Fate>,
    mode: HedgeMode,
    commit: Commit,
    streams: bool,
    /// Whether the hedge budget holds anything.
    budget: bool,
    /// ms.
    deadline: u64,
}

impl Race {
    /// When an attempt's patience is satisfied, since its start; none where it never is.
    fn measured(&self, rung: usize) -> Option<u64> {
        match self.fates[rung] {
            Fate::Answers(first, _) if self.streams => Some(first),
            Fate::Answers(first, gap) => Some(first + (TOKENS - 1) * gap),
            Fate::Fails(..) | Fate::Hangs => None,
        }
    }

    /// When an attempt reaches its commit point, since its start.
    fn commits(&self, rung: usize) -> Option<u64> {
        match self.fates[rung] {
            Fate::Answers(first, _) if self.streams && self.commit == Commit::FirstToken => {
                Some(first)
            }
            Fate::Answers(first, gap) => Some(first + (TOKENS - 1) * gap),
            Fate::Fails(..) | Fate::Hangs => None,
        }
    }

    /// When the whole answer is there, since the attempt's start.
    fn whole(&self, rung: usize) -> u64 {
        match self.fates[rung] {
            Fate::Answers(first, gap) => first + (TOKENS - 1) * gap,
            Fate::Fails(..) | Fate::Hangs => unreachable!("only an answer wins"),
        }
    }
}

/// One attempt of the simulation.
#[derive(Debug, Clone)]
struct Runner {
    rung: usize,
    kind: &'static str,
    started: u64,
    /// When its patience runs out, while it still can.
    patience: Option<u64>,
    is_hedge: bool,
    /// When and how it ended.
    end: Option<(u64, &'static str)>,
}

/// What must come of a race, by its rules alone.
#[derive(Debug, Default)]
struct Course {
    runners: Vec<Runner>,
    /// Why no hedge began, and when.
    refused: Vec<(usize, &'static str, u64)>,
    hedged: bool,
    /// The rung that was left for a hedge, until it is asked again.
    left: Option<usize>,
    /// The winner's place and when it committed.
    won: Option<(usize, u64)>,
    /// Two things were due at one instant: which comes first is nobody's promise.
    tied: bool,
}

impl Course {
    fn of(race: &Race) -> Self {
        let mut course = Self::default();
        course.start(race, 0, "first", false, 0);
        while course.won.is_none() {
            let Some((at, due)) = course.next(race) else {
                break;
            };
            if at >= race.deadline {
                course.tied |= at == race.deadline;
                break;
            }
            match due {
                Due::Commit(index) => course.win(race, index, at),
                Due::Failure(index, class) => course.fail(race, index, class, at),
                Due::Patience(index) => course.out_of_patience(race, index, at),
            }
        }
        if course.won.is_none() {
            for runner in &mut course.runners {
                runner.end.get_or_insert((race.deadline, "timeout"));
            }
        }
        course
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Runner)> {
        self.runners
            .iter()
            .enumerate()
            .filter(|(_, r)| r.end.is_none())
    }

    /// The first thing that is due.
    fn next(&mut self, race: &Race) -> Option<(u64, Due)> {
        let mut all = Vec::new();
        let mut tied = false;
        for (index, runner) in self.running() {
            if let Some(after) = race.commits(runner.rung) {
                all.push((runner.started + after, Due::Commit(index)));
            }
            if let Fate::Fails(status, after) = race.fates[runner.rung] {
                all.push((runner.started + after, Due::Failure(index, class(status))));
            }
            let satisfied = race
                .measured(runner.rung)
                .map(|after| runner.started + after);
            if let Some(due) = runner.patience
                && satisfied.is_none_or(|at| due <= at)
            {
                tied |= satisfied == Some(due);
                all.push((due, Due::Patience(index)));
            }
        }
        let first = all.iter().map(|(at, _)| *at).min()?;
        let mut due = all.into_iter().filter(|(at, _)| *at == first);
        let one = due.next();
        self.tied |= tied || due.next().is_some();
        one
    }

    fn untried(&self, race: &Race) -> Option<usize> {
        (0..race.fates.len()).find(|rung| !self.runners.iter().any(|r| r.rung == *rung))
    }

    /// T95, or what the deadline leaves beside the next rung's need, if that is at least
    /// a quarter of T95; else none.
    fn patience(&self, race: &Race, rung: usize, at: u64) -> Option<u64> {
        let next = (0..race.fates.len())
            .find(|next| *next != rung && !self.runners.iter().any(|r| r.rung == *next));
        let need = next.map_or(0, need);
        let spare = (race.deadline - at).saturating_sub(need);
        match spare {
            T95.. => Some(at + T95),
            spare if spare >= T95 / 4 => Some(at + spare),
            _ => None,
        }
    }

    fn start(&mut self, race: &Race, rung: usize, kind: &'static str, is_hedge: bool, at: u64) {
        let patience = self.patience(race, rung, at);
        self.runners.push(Runner {
            rung,
            kind,
            started: at,
            patience,
            is_hedge,
            end: None,
        });
    }

    fn win(&mut self, race: &Race, index: usize, at: u64) {
        let ends = self.runners[index].started + race.whole(self.runners[index].rung);
        for runner in &mut self.runners {
            runner.end.get_or_insert((at, "lost"));
        }
        self.runners[index].end = Some((ends, "won"));
        self.won = Some((index, at));
    }

    /// A hedge that fails is replaced; a first attempt is not while a hedge runs; the last
    /// one that fails sends the call on, at last to the rung that was left while it was slow.
    fn fail(&mut self, race: &Race, index: usize, class: &'static str, at: u64) {
        self.runners[index].end = Some((at, class));
        let others = self.running().next().is_some();
        let is_hedge = self.runners[index].is_hedge;
        if others && !is_hedge {
            return;
        }
        if let Some(next) = self.untried(race) {
            self.start(race, next, "failover", others, at);
        } else if !others && let Some(left) = self.left.take() {
            self.start(race, left, "retry", false, at);
        }
    }

    fn out_of_patience(&mut self, race: &Race, index: usize, at: u64) {
        self.runners[index].patience = None;
        let rung = self.runners[index].rung;
        let next = self.untried(race);
        let refusal = if race.mode == HedgeMode::Off {
            Some("off")
        } else if self.hedged {
            Some("one_per_call")
        } else if next.is_none() {
            Some("no_rung")
        } else if next.is_some_and(|next| need(next) > race.deadline - at) {
            Some("deadline")
        } else {
            (!race.budget).then_some("budget")
        };
        if let Some(reason) = refusal {
            self.refused.push((rung, reason, at));
            return;
        }
        if race.mode == HedgeMode::Switch {
            self.runners[index].end = Some((at, "lost"));
            self.left = Some(rung);
        }
        self.hedged = true;
        self.start(race, next.expect("else it was refused"), "hedge", true, at);
    }

    /// Each attempt in words, as [`attempts`] tells them.
    fn attempts(&self) -> Vec<String> {
        let line = |runner: &Runner| {
            let (ended, how) = runner.end.expect("every attempt has ended");
            format!(
                "{} {} {how} from {} to {ended}",
                runner.rung, runner.kind, runner.started
            )
        };
        self.runners.iter().map(line).collect()
    }

    fn refusals(&self) -> Vec<String> {
        let line = |(rung, reason, at): &(usize, &str, u64)| format!("{rung} {reason} at {at}");
        self.refused.iter().map(line).collect()
    }

    /// Rungs whose own failure counts on their breaker.
    fn counted(&self) -> BTreeSet<usize> {
        let counts = |runner: &&Runner| match runner.end {
            Some((_, "transient" | "overloaded")) => true,
            // The deadline ends young attempts without blame.
            Some((at, "timeout")) => at - runner.started >= T95 && self.won.is_none(),
            _ => false,
        };
        self.runners.iter().filter(counts).map(|r| r.rung).collect()
    }

    /// Rungs whose upstream stays open for a while after the call, to be measured.
    fn kept(&self, race: &Race) -> BTreeSet<usize> {
        let Some((_, at)) = self.won else {
            return BTreeSet::new();
        };
        let kept = |runner: &&Runner| {
            let young = at - runner.started < T95;
            let open = race
                .measured(runner.rung)
                .is_none_or(|after| runner.started + after > at);
            runner.end == Some((at, "lost"))
                && race.mode == HedgeMode::Race
                && !runner.is_hedge
                && young
                && open
        };
        self.runners.iter().filter(kept).map(|r| r.rung).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Commit(usize),
    Failure(usize, &'static str),
    Patience(usize),
}

fn need(rung: usize) -> u64 {
    if rung == 0 { 0 } else { 2 * MEDIAN }
}

fn class(status: u16) -> &'static str {
    match status {
        503 => "overloaded",
        402 => "quota_exhausted",
        404 => "model_gone",
        _ => "transient",
    }
}

/// Each attempt of a trail in words: rung, kind, end, and when, in ms.
fn attempts(trail: &Trail) -> Vec<String> {
    let millis = |time: Option<Duration>| time.map_or(0, |t| t.as_millis());
    let attempts = trail.attempts().map(|a| {
        let how = match &a.outcome {
            evenkeel_core::AttemptOutcome::Failed(failure) => failure.class.as_str(),
            evenkeel_core::AttemptOutcome::Won => "won",
            evenkeel_core::AttemptOutcome::Lost => "lost",
            other => panic!("{other:?} after the end"),
        };
        format!(
            "{} {} {how} from {} to {}",
            a.rung,
            a.kind.as_str(),
            a.started.as_millis(),
            millis(a.ended)
        )
    });
    attempts.collect()
}

fn refusals(trail: &Trail) -> Vec<String> {
    let refused = trail.steps.iter().filter_map(|step| match step {
        TrailStep::HedgeRefused { rung, reason, at } => {
            Some(format!("{rung} {reason} at {}", at.as_millis()))
        }
        _ => None,
    });
    refused.collect()
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => (prop_oneof![20..900_u64, 900..2_600_u64], prop_oneof![Just(0), 1..200_u64])
            .prop_map(|(first, gap)| Fate::Answers(first, gap)),
        3 => (prop::sample::select(vec![500_u16, 503, 402, 404]), 10..2_400_u64)
            .prop_map(|(status, after)| Fate::Fails(status, after)),
        2 => Just(Fate::Hangs),
    ]
}

fn race() -> impl Strategy<Value = Race> {
    (
        prop::collection::vec(fate(), 1..5),
        prop_oneof![6 => Just(HedgeMode::Race), 2 => Just(HedgeMode::Switch), 1 => Just(HedgeMode::Off)],
        prop_oneof![Just(Commit::FirstToken), Just(Commit::Full)],
        any::<bool>(),
        prop::bool::weighted(0.8),
        prop_oneof![3 => Just(20_011_u64), 2 => 700..2_400_u64],
    )
        .prop_map(|(fates, mode, commit, streams, budget, deadline)| Race {
            fates,
            mode,
            commit,
            streams,
            budget,
            deadline,
        })
}

fn world(race: &Race) -> World {
    let fates = race.fates.iter().map(|fate| fate.behaviour());
    Plan::new(fates.collect())
        .policy(|p| {
            p.hedge.mode = race.mode;
            p.commit = race.commit;
            p.hedge.budget = 0.0;
            p.hedge.burst = u32::from(race.budget);
            p.clocks.deadline = Duration::from_secs(60);
            p.clocks.first_token = Duration::from_secs(60);
        })
        .rung(|rung, config| {
            if rung > 0 {
                config.median_latency = Some(ms(MEDIAN));
            }
        })
        .model(|_, model| {
            model.breaker.failure_threshold = 1;
            model.max_concurrency = 1;
        })
        .build()
}

/// Runs the call; its trail.
async fn run(world: &World, race: &Race) -> std::sync::Arc<Trail> {
    let context = CallContext {
        clocks: ClockOverrides {
            deadline: Some(ms(race.deadline)),
            ..ClockOverrides::default()
        },
        ..CallContext::default()
    };
    let request = ChatRequest::user("hello");
    if !race.streams {
        return match world.router.complete(ROLE, request, context).await {
            Ok(answer) => answer.trail,
            Err(error) => error.trail,
        };
    }
    match world.router.stream(ROLE, request, context).await {
        Ok(mut stream) => {
            while stream.next().await.is_some() {}
            stream.trail()
        }
        Err(error) => error.trail,
    }
}

/// Rungs whose model's breaker was told to open.
fn opened(memory: &Memory) -> BTreeSet<usize> {
    let opened = memory.all(|kind| match kind {
        EventKind::BreakerTransition {
            model: Some(model),
            role: None,
            to: "open",
            ..
        } => model.provider().trim_start_matches('p').parse().ok(),
        _ => None,
    });
    opened.into_iter().collect()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

fn config(cases: u32, seed: u64) -> Config {
    let usual = Config::default();
    Config {
        // In proportion where more or fewer are asked for.
        cases: cases * usual.cases / 256,
        rng_seed: match usual.rng_seed {
            RngSeed::Random => RngSeed::Fixed(seed),
            asked @ RngSeed::Fixed(_) => asked,
        },
        ..usual
    }
}

proptest! {
    #![proptest_config(config(400, 7))]

    /// Out of breach: one call on a fresh role.
    #[test]
    fn a_race_takes_the_course_that_its_rules_give(race in race()) {
        let course = Course::of(&race);
        // A committed stream that outlasts its deadline is another matter.
        let in_time = course.runners.iter().all(|r| r.end.is_some_and(|(at, _)| at <= race.deadline));
        prop_assume!(!course.tied && in_time);
        let runtime = runtime();
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let world = world(&race);
            let trail = run(&world, &race).await;
            prop_assert_eq!(attempts(&trail), course.attempts(), "{:?}", told(&trail));
            prop_assert_eq!(refusals(&trail), course.refusals());
            prop_assert_eq!(opened(&world.memory), course.counted(), "only what failed by itself counts");
            // A winner that streams on is past the moment at which the kept ones are open.
            if !race.streams || race.commit == Commit::Full {
                let open: BTreeSet<usize> = (0..race.fates.len())
                    .filter(|rung| world.stats(*rung).in_flight > 0)
                    .collect();
                prop_assert_eq!(open, course.kept(&race), "kept open to be measured");
            }
            tokio::time::sleep(ms(T95)).await;
            for rung in 0..race.fates.len() {
                prop_assert_eq!(world.stats(rung).in_flight, 0, "rung {} is closed by then", rung);
            }
            // Every place is free again: nothing is at its capacity of one.
            for rung in 0..race.fates.len() {
                world.set(rung, Fate::Fails(500, 1).behaviour());
            }
            let after = match world.ask().await {
                Ok(answer) => answer.trail,
                Err(error) => error.trail,
            };
            prop_assert!(!told(&after).iter().any(|step| step.contains("at_capacity")), "{:?}", told(&after));
            Ok(())
        });
        outcome?;
    }
}

proptest! {
    #![proptest_config(config(60, 8))]

    /// In breach: calls at one instant, the first rungs silent. The exceedance is recorded, the
    /// breach judged and the word moved before the budget is asked, so that from the fifth late
    /// attempt on hedges ask none, and each call is hedged once more at each rung that breaches.
    /// Up to four hedges begin before the move and are no evidence after it: nine calls leave five.
    #[test]
    fn at_t95_the_word_moves_before_the_budget_is_asked(
        calls in 9..20_usize,
        silent in 1..4_usize,
        burst in 0..4_u32,
        latency in 50..800_u64,
    ) {
        let mut fates = vec![Fate::Hangs; silent];
        fates.push(Fate::Answers(latency, 0));
        let runtime = runtime();
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let plan = Plan::new(fates.iter().map(|f| f.behaviour()).collect());
            let world = plan
                .policy(|p| {
                    p.hedge.budget = 0.0;
                    p.hedge.burst = burst;
                })
                .build();
            let mut running = JoinSet::new();
            for _ in 0..calls {
                let router = world.router.clone();
                running.spawn(async move {
                    let began = tokio::time::Instant::now();
                    let request = ChatRequest::user("hello");
                    let answer = router.complete(ROLE, request, CallContext::default()).await;
                    (answer.unwrap(), began.elapsed())
                });
            }
            let late = silent as u64 * T95 + latency;
            while let Some(ended) = running.join_next().await {
                let (answer, after) = ended.unwrap();
                prop_assert_eq!(after, ms(late));
                let mut expected = vec![format!("0 first lost from 0 to {late}")];
                expected.extend((1..silent).map(|rung| {
                    format!("{rung} hedge lost from {} to {late}", rung as u64 * T95)
                }));
                expected.push(format!("{silent} hedge won from {} to {late}", silent as u64 * T95));
                prop_assert_eq!(attempts(&answer.trail), expected);
            }
            let moves: Vec<(usize, usize)> = (0..silent).map(|rung| (rung, rung + 1)).collect();
            prop_assert_eq!(world.memory.substitutions(), moves);
            let budgeted = world.memory.count(|k| matches!(k, EventKind::HedgeStarted { budgeted: true, .. }));
            // Four attempts grow late before the fifth shows the breach; each asks the budget.
            let most = usize::try_from(burst).unwrap().min(4);
            prop_assert!(budgeted <= most, "{} budgeted of {}", budgeted, burst);
            order_at_t95(&world.memory)?;
            Ok(())
        });
        outcome?;
    }
}

/// The call that moves the word tells of the breach, then of the move, then of its hedge.
fn order_at_t95(memory: &Memory) -> Result<(), TestCaseError> {
    let events = memory.events();
    let place = |is: &dyn Fn(&EventKind) -> bool, call| {
        events.iter().position(|e| e.call == call && is(&e.kind))
    };
    for moved in events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::ModelSubstitution { .. }))
    {
        let EventKind::ModelSubstitution { from: left, .. } = moved.kind else {
            continue;
        };
        let call = moved.call;
        let breach = place(
            &|k| matches!(k, EventKind::LatencyBreach { rung, .. } if *rung == left),
            call,
        );
        let moves = place(
            &|k| matches!(k, EventKind::ModelSubstitution { from, .. } if *from == left),
            call,
        );
        let hedge = place(
            &|k| matches!(k, EventKind::HedgeStarted { from, .. } if *from == left),
            call,
        );
        prop_assert!(breach.is_some() && moves.is_some() && hedge.is_some());
        prop_assert!(
            breach < moves && moves < hedge,
            "{:?} {:?} {:?}",
            breach,
            moves,
            hedge
        );
    }
    Ok(())
}
