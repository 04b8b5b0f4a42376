//! A line that the gateway wrote: a call, and its copy at a candidate.

use evenkeel_core::{ChatRequest, ChatResponse, Class, ModelId, Value};
use evenkeel_providers::wire::Server;
use evenkeel_providers::wire::openai::{decode_request, decode_response};
use serde::Deserialize;
use std::time::Duration;

/// A pair, as far as it is looked at.
#[derive(Debug)]
pub(super) struct Pair {
    /// The call's number, or nothing.
    pub(super) call: String,
    pub(super) role: String,
    pub(super) live: Side,
    pub(super) shadow: Side,
    pub(super) request: Option<ChatRequest>,
}

/// One answer of a pair.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) model: ModelId,
    pub(super) latency: Duration,
    pub(super) first_token: Option<Duration>,
    pub(super) cost_usd: Option<f64>,
    pub(super) is_valid: Option<bool>,
    pub(super) failed: Option<Class>,
    pub(super) answer: Option<ChatResponse>,
}

/// What is compared with what: role, candidate, and who answered live.
pub(super) type Key = (String, String, String);

/// The line as it is written; what else is in it belongs to others.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    call: Option<u64>,
    role: String,
    live: WrittenSide,
    shadow: WrittenSide,
    #[serde(default)]
    request: Option<Value>,
}

#[derive(Deserialize)]
struct WrittenSide {
    model: String,
    latency_ms: f64,
    #[serde(default)]
    first_token_ms: Option<f64>,
    #[serde(default)]
    cost_usd: Option<f64>,
    #[serde(default)]
    is_valid: Option<bool>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    answer: Option<Value>,
}

impl Pair {
    /// Reads a line.
    ///
    /// # Errors
    /// Why it is no pair.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let written: Written = serde_json::from_slice(line).map_err(|error| {
            let said = error.to_string();
            let what = said
                .rsplit_once(" at line ")
                .map_or(&*said, |(what, _)| what);
            let what: String = what.chars().take(200).collect();
            format!("is no shadow pair: {what} (column {})", error.column())
        })?;
        let request = written.request.map(|body| {
            let read = decode_request(body.to_string().as_bytes());
            read.map(|read| read.request)
        });
        let request = request
            .transpose()
            .map_err(|error| format!("`request`: {error}"))?;
        Ok(Self {
            call: written
                .call
                .map_or_else(String::new, |call| call.to_string()),
            role: written.role,
            live: Side::read(written.live).map_err(|what| format!("`live`: {what}"))?,
            shadow: Side::read(written.shadow).map_err(|what| format!("`shadow`: {what}"))?,
            request,
        })
    }

    pub(super) fn key(&self) -> Key {
        let model = |side: &Side| side.model.as_str().to_owned();
        (self.role.clone(), model(&self.shadow), model(&self.live))
    }
}

impl Side {
    fn read(written: WrittenSide) -> Result<Self, String> {
        let model = ModelId::new(&written.model).map_err(|error| error.to_string())?;
        let failed = written.error.map(|name| {
            let class = Class::ALL.into_iter().find(|class| class.as_str() == name);
            class.ok_or_else(|| format!("`error` is `{name}`, no class of failures"))
        });
        let answer = written.answer.map(|body| {
            let read = decode_response(body.to_string().as_bytes(), Server::Compatible);
            read.map_err(|error| format!("`answer`: {error}"))
        });
        let duration = |ms: f64| {
            Duration::try_from_secs_f64(ms / 1_000.0).map_err(|_| format!("{ms} ms is no latency"))
        };
        Ok(Self {
            model,
            latency: duration(written.latency_ms)?,
            first_token: written.first_token_ms.map(duration).transpose()?,
            cost_usd: written
                .cost_usd
                .filter(|usd| usd.is_finite() && *usd >= 0.0),
            is_valid: written.is_valid,
            failed: failed.transpose()?,
            answer: answer.transpose()?,
        })
    }
}
