//! The span of an attempt, by the conventions for generative AI.

use crate::value::{foreign, int, short, text, texts};
use crate::{names, semconv};
use evenkeel_core::{Asked, EventKind, ModelId, Reported, Server, Usage};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, Tracer};
use std::borrow::Cow;
use std::sync::Arc;

/// Texts to stop at that are told of: no provider takes more.
const MOST_STOPS: usize = 16;

/// The span of an attempt that begins, in the conversation `session`.
pub(super) fn builder<T: Tracer>(
    tracer: &T,
    kind: &EventKind,
    session: Option<&Arc<str>>,
) -> SpanBuilder {
    let EventKind::AttemptStarted {
        role,
        attempt,
        rung,
        model,
        server,
        streams,
        asked,
        breaker,
        ..
    } = kind
    else {
        return tracer.span_builder(semconv::CHAT);
    };
    let span_kind = if server.in_process {
        SpanKind::Internal
    } else {
        SpanKind::Client
    };
    let mut attributes = Vec::with_capacity(24);
    // What samplers go by comes with the span.
    attributes.push(text(semconv::OPERATION_NAME, semconv::CHAT));
    attributes.push(text(
        semconv::REQUEST_MODEL,
        short(model.model()).to_owned(),
    ));
    served_by(&mut attributes, server);
    attributes.push(foreign(names::AGENT_ROLE, role));
    attributes.push(KeyValue::new(names::ATTEMPT_INDEX, int(*attempt)));
    attributes.push(KeyValue::new(names::FALLBACK_DEPTH, int(*rung)));
    attributes.push(text(names::BREAKER_STATE, *breaker));
    if *streams {
        attributes.push(KeyValue::new(semconv::REQUEST_STREAM, true));
    }
    attributes.extend(session.map(|id| foreign(semconv::CONVERSATION_ID, id)));
    parameters(&mut attributes, asked);
    tracer
        .span_builder(name(role, model))
        .with_kind(span_kind)
        .with_attributes(attributes)
}

/// Names of spans are few: a pass has its model for a role, and any caller may make up
/// models.
fn name(role: &str, model: &ModelId) -> Cow<'static, str> {
    if role == model.as_str() {
        return semconv::CHAT.into();
    }
    format!("{} {}", semconv::CHAT, model.model()).into()
}

fn served_by(attributes: &mut Vec<KeyValue>, server: &Server) {
    attributes.push(text(semconv::PROVIDER_NAME, server.system.clone()));
    if let Some(address) = &server.address {
        attributes.push(text(semconv::SERVER_ADDRESS, address.clone()));
        let port = server.port.map(i64::from);
        attributes.extend(port.map(|port| KeyValue::new(semconv::SERVER_PORT, port)));
    }
}

/// What the request asks for beside its messages.
fn parameters(attributes: &mut Vec<KeyValue>, asked: &Asked) {
    let mut double = |key, value: Option<f64>| {
        attributes.extend(value.map(|value| KeyValue::new(key, value)));
    };
    let sampling = &asked.sampling;
    double(semconv::REQUEST_TEMPERATURE, sampling.temperature);
    double(semconv::REQUEST_TOP_P, sampling.top_p);
    // The convention has it as a double.
    double(semconv::REQUEST_TOP_K, sampling.top_k.map(whole));
    double(
        semconv::REQUEST_FREQUENCY_PENALTY,
        sampling.frequency_penalty,
    );
    double(semconv::REQUEST_PRESENCE_PENALTY, sampling.presence_penalty);
    let mut number = |key, value: Option<i64>| {
        attributes.extend(value.map(|value| KeyValue::new(key, value)));
    };
    number(semconv::REQUEST_SEED, sampling.seed);
    number(
        semconv::REQUEST_MAX_TOKENS,
        asked.max_output_tokens.map(int),
    );
    if asked.json {
        attributes.push(text(semconv::OUTPUT_TYPE, semconv::JSON));
    }
    if !asked.stop.is_empty() {
        let stop = asked.stop.iter().take(MOST_STOPS);
        let stop = stop.map(|stop| short(stop).to_owned().into());
        attributes.push(texts(semconv::REQUEST_STOP_SEQUENCES, stop.collect()));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a small number that the caller chose"
)]
fn whole(number: u64) -> f64 {
    number as f64
}

/// What is known of an attempt when it has ended.
pub(super) fn finish(span: &mut impl Span, kind: &EventKind) {
    let EventKind::AttemptEnded {
        streams,
        first_token,
        usage,
        usage_estimated,
        outcome,
        class,
        status,
        reported,
        ..
    } = kind
    else {
        return;
    };
    let mut attributes = Vec::with_capacity(12);
    attributes.push(text(names::ATTEMPT_OUTCOME, *outcome));
    said(&mut attributes, reported);
    if let Some(first) = first_token.filter(|_| *streams) {
        let key = semconv::RESPONSE_TIME_TO_FIRST_CHUNK;
        attributes.push(KeyValue::new(key, first.as_secs_f64()));
    }
    match usage.map(Usage::believed) {
        // An estimate is no count of the provider's, and must not be added up with those.
        Some(usage) if *usage_estimated => {
            attributes.push(KeyValue::new(names::ESTIMATED_INPUT, int(usage.input)));
            attributes.push(KeyValue::new(names::ESTIMATED_OUTPUT, int(usage.output)));
        }
        Some(usage) => tokens(&mut attributes, usage),
        None => {}
    }
    let status = status.map(i64::from);
    attributes.extend(status.map(|s| KeyValue::new(semconv::HTTP_RESPONSE_STATUS_CODE, s)));
    attributes.extend(class.map(|class| text(semconv::ERROR_TYPE, class.as_str())));
    span.set_attributes(attributes);
    if let Some(class) = class {
        span.set_status(Status::error(class.as_str()));
    }
}

fn said(attributes: &mut Vec<KeyValue>, reported: &Reported) {
    let Reported {
        id, model, finish, ..
    } = reported;
    attributes.extend(id.as_ref().map(|id| foreign(semconv::RESPONSE_ID, id)));
    attributes.extend(model.as_ref().map(|m| foreign(semconv::RESPONSE_MODEL, m)));
    attributes.extend(finish.map(|finish| {
        let reasons = vec![semconv::finish_reason(finish).into()];
        texts(semconv::RESPONSE_FINISH_REASONS, reasons)
    }));
}

fn tokens(attributes: &mut Vec<KeyValue>, usage: Usage) {
    let mut count = |key, tokens: Option<u64>| {
        attributes.extend(tokens.map(|tokens| KeyValue::new(key, int(tokens))));
    };
    count(semconv::USAGE_INPUT_TOKENS, Some(usage.input));
    count(semconv::USAGE_OUTPUT_TOKENS, Some(usage.output));
    count(semconv::USAGE_CACHE_READ, usage.cached);
    count(semconv::USAGE_CACHE_CREATION, usage.cache_write);
    count(semconv::USAGE_REASONING, usage.reasoning);
}
