//! The shell around a call's decision: asks providers, sleeps, closes.

use crate::attempt::{Open, Slot, Upstream, ask};
use crate::call::{Call, Mode, Step};
use crate::error::CallError;
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Failure, Finish, Meta, ProviderCall, StreamEvent, events_of,
};
use evenkeel_roster::OnContentFilter;
use futures_util::future::select_all;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::time::sleep_until;

/// Monotonic time as the runtime sees it, so that a paused clock drives it all.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A call that was won.
pub(crate) struct Won {
    pub(crate) call: Call,
    pub(crate) index: usize,
    pub(crate) meta: Meta,
    pub(crate) answer: Winning,
}

/// What the winner has given.
pub(crate) enum Winning {
    /// The whole answer.
    Whole(Box<ChatResponse>),
    /// A committed stream: what it has given so far, and the rest of it.
    Stream(Box<Slot>),
    /// A whole answer that is to be delivered as the stream it came as.
    Held(Vec<StreamEvent>),
}

/// A whole answer, and the events it came as where the caller is to have them.
struct Complete {
    response: ChatResponse,
    held: Vec<StreamEvent>,
}

/// What refuses an answer that says nothing, and one that breaks its schema.
const EMPTY: &str = "empty";
const SCHEMA: &str = "schema";

/// Drives a call until an attempt wins or nothing is left. Dropping the
/// future cancels every attempt.
pub(crate) async fn drive(mut call: Call, mode: Mode) -> Result<Won, CallError> {
    let mut open = Open::default();
    let mut moves: Option<watch::Receiver<u64>> = None;
    call.begin(now());
    loop {
        match call.step(now()) {
            Step::Ask { attempt, rung } => {
                open.add(upstream(&call, attempt, rung));
            }
            Step::Commit { attempt } => {
                if let Some((meta, answer)) = commit(&mut call, &mut open, attempt, now()) {
                    return Ok(Won {
                        call,
                        index: attempt,
                        meta,
                        answer,
                    });
                }
            }
            Step::Close { attempt, keep } => close(&mut open, attempt, keep),
            Step::Fail(error) => return Err(error),
            Step::Queue { rungs, until } => queue(&mut call, &rungs, until).await,
            Step::Wait { until } => {
                if call.asks_again() && moves.is_none() {
                    moves = Some(call.role.moved.subscribe());
                    // The role may have moved before the subscription.
                    if call.role_moved(now()) {
                        continue;
                    }
                }
                let until = tokio::time::Instant::from_std(until);
                tokio::select! {
                    biased;
                    (index, event) = open.next() => {
                        if let Some((meta, answer)) = take(&mut call, &mut open, mode, index, event) {
                            return Ok(Won { call, index, meta, answer });
                        }
                    }
                    () = moved(&mut moves), if call.asks_again() => { call.role_moved(now()); }
                    () = sleep_until(until) => {}
                }
            }
        }
    }
}

async fn moved(moves: &mut Option<watch::Receiver<u64>>) {
    if let Some(moves) = moves
        && moves.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The upstream of an attempt. Nothing is sent before its first poll.
pub(crate) fn upstream(call: &Call, attempt: usize, rung: usize) -> Slot {
    let model = &call.role.rungs[rung].model;
    let mut context = call.context.clone();
    context.trace = if model.provider.propagate {
        call.role.around.trace(call.id, attempt)
    } else {
        None
    };
    let request = ProviderCall {
        model: model.wire_name.clone(),
        request: call.sent(attempt).clone(),
        connect: call.clocks.connect,
        context,
    };
    let provider = model.provider.provider.clone();
    let events = match call.parts(attempt) {
        Some(parts) => parts.ask(provider, request, call.streaming),
        None => ask(provider, request, call.streaming),
    };
    Slot::new(attempt, events, call.withholds(attempt))
}

fn close(open: &mut Open, attempt: usize, keep: Option<crate::keep::Loser>) {
    if let (Some(slot), Some(loser)) = (open.take(attempt), keep) {
        loser.watch(slot);
    }
}

/// Waits in the queues of all these rungs; the first place that is free is the call's.
async fn queue(call: &mut Call, rungs: &[usize], until: Instant) {
    let places = rungs.iter().map(|rung| {
        let capacity = call.role.rungs[*rung].model.capacity.clone();
        Box::pin(async move { (*rung, capacity.acquire_owned().await) })
    });
    let places = select_all(places);
    let until = tokio::time::Instant::from_std(until);
    tokio::select! {
        biased;
        ((rung, Ok(place)), ..) = places => call.place_free(rung, place, now()),
        () = sleep_until(until) => {}
    }
}

/// Takes an upstream's event; Some where it makes the attempt the winner.
fn take(
    call: &mut Call,
    open: &mut Open,
    mode: Mode,
    index: usize,
    event: Upstream,
) -> Option<(Meta, Winning)> {
    let now = now();
    match event {
        Upstream::Failed(failure) => {
            drop(open.take(index));
            if failure.class == Class::Semantic {
                call.quality_rejected(index, Arc::from(EMPTY), now);
            }
            call.failed(index, failure, now);
            None
        }
        Upstream::Whole(response) => {
            drop(open.take(index));
            call.came_whole(index, &response);
            call.answered_by(index, &response.model, &response.extra, now);
            if let Some(limits) = &response.rate_limits {
                call.heard_limits(index, limits, now);
            }
            let answer = Complete {
                response: *response,
                held: Vec::new(),
            };
            judge(call, open, mode, index, answer, now)
        }
        Upstream::Validated(response, judgement) => {
            let held = open.take(index)?.held;
            let text = response.plain_text();
            if !call.passes(index, judgement, &text, now) {
                return None;
            }
            let response = Arc::unwrap_or_clone(response);
            let answer = Complete { response, held };
            Some(win(call, open, mode, index, answer, now))
        }
        Upstream::Event(StreamEvent::End) => {
            let mut slot = open.take(index)?;
            slot.sum.push(&StreamEvent::End);
            let response = match slot.sum.finish() {
                Ok(response) => response,
                Err(failure) => {
                    call.failed(index, failure, now);
                    return None;
                }
            };
            let held = slot.held;
            judge(call, open, mode, index, Complete { response, held }, now)
        }
        Upstream::Event(StreamEvent::RateLimits(limits)) => {
            // For the router alone: the caller has limits of another kind.
            call.heard_limits(index, &limits, now);
            None
        }
        Upstream::Event(event) => {
            hear(call, index, &event, now);
            let slot = open.get_mut(index)?;
            slot.sum.push(&event);
            if mode == Mode::Whole {
                return None;
            }
            match hold(call, slot, event, now) {
                Ok(false) => None,
                Ok(true) => commit(call, open, index, now),
                Err(failure) => {
                    drop(open.take(index));
                    call.failed(index, failure, now);
                    None
                }
            }
        }
    }
}

/// Tells the call of an event.
pub(crate) fn hear(call: &mut Call, index: usize, event: &StreamEvent, now: Instant) {
    match event {
        StreamEvent::Start {
            id, model, extra, ..
        } => {
            call.began(index, id, model);
            call.answered_by(index, model, extra, now);
        }
        StreamEvent::Extra(extra) => call.answered_by(index, "", extra, now),
        StreamEvent::Usage(usage) => call.used(index, *usage),
        StreamEvent::Finish(finish) => call.finished(index, *finish),
        StreamEvent::Skipped => call.skipped_event(index),
        StreamEvent::Adapted(notes) => call.adapted(index, notes),
        event if event.is_content() => call.content(index, event, now),
        _ => {}
    }
}

/// Adds an event to what the attempt holds for the caller; true where it commits.
fn hold(
    call: &mut Call,
    slot: &mut Slot,
    event: StreamEvent,
    now: Instant,
) -> Result<bool, Failure> {
    let mut held = std::mem::take(&mut slot.held);
    let before = held.len();
    let passed = slot.pass(event, &mut held);
    slot.held = held;
    passed?;
    let mut commits = false;
    for event in &slot.held[before..] {
        commits |= call.holds(slot.index, event, now);
    }
    Ok(commits)
}

/// The attempt commits with what it holds: it wins, and the others lose.
fn commit(call: &mut Call, open: &mut Open, index: usize, now: Instant) -> Option<(Meta, Winning)> {
    let mut slot = open.take(index)?;
    if !call.adds_up() {
        slot.sum = Accumulator::default();
    }
    let meta = call.won(index, now);
    close_losers(call, open);
    Some((meta, Winning::Stream(Box::new(slot))))
}

/// A complete answer: it wins if it is valid, else the attempt has failed. Where
/// the role has validators, theirs is the verdict, and comes as an event of the attempt.
fn judge(
    call: &mut Call,
    open: &mut Open,
    mode: Mode,
    index: usize,
    answer: Complete,
    now: Instant,
) -> Option<(Meta, Winning)> {
    let Complete { response, held } = answer;
    let mut gate = SCHEMA;
    let read = call.read(index, response).and_then(|response| {
        gate = EMPTY;
        verify(call, &response).map(|()| response)
    });
    let response = match read {
        Ok(response) => response,
        Err(failure) => {
            if failure.class == Class::Semantic {
                call.quality_rejected(index, Arc::from(gate), now);
            }
            call.failed(index, failure, now);
            return None;
        }
    };
    if let Some(validation) = call.validation().cloned() {
        let response = Arc::new(response);
        let judged = call.is_judged(index, response.clone(), now);
        let verdict = async move { Upstream::Validated(response, validation.judge(judged).await) };
        open.add(Slot::judging(index, verdict, held));
        return None;
    }
    Some(win(
        call,
        open,
        mode,
        index,
        Complete { response, held },
        now,
    ))
}

/// The attempt wins with a whole answer that is valid.
fn win(
    call: &mut Call,
    open: &mut Open,
    mode: Mode,
    index: usize,
    answer: Complete,
    now: Instant,
) -> (Meta, Winning) {
    let Complete { response, mut held } = answer;
    let mut meta = call.won(index, now);
    close_losers(call, open);
    call.said(index, &response);
    call.gives(index);
    call.completed(index, &mut meta, now);
    call.shadow(index, &response, now);
    match mode {
        Mode::Whole => (meta, Winning::Whole(Box::new(response))),
        Mode::Stream => {
            if call.is_translated(index) {
                held = events_of(&response);
            }
            held.push(StreamEvent::End);
            (meta, Winning::Held(held))
        }
    }
}

/// A filtered answer is passed on as it is, unless the role says `next`, and so is one
/// that came to nothing under the caller's own cap: that is what was asked for.
fn verify(call: &Call, response: &ChatResponse) -> Result<(), Failure> {
    match response.verify() {
        Err(failure)
            if failure.class == Class::Semantic
                && response.finish == Finish::Length
                && call.request.max_output_tokens.is_some() =>
        {
            Ok(())
        }
        Err(failure)
            if failure.class == Class::ContentFilter
                && call.role.policy.on_content_filter == OnContentFilter::Stop =>
        {
            Ok(())
        }
        verdict => verdict,
    }
}

fn close_losers(call: &mut Call, open: &mut Open) {
    let closes: Vec<_> = call.closes().collect();
    for (attempt, keep) in closes {
        close(open, attempt, keep);
    }
}
