//! What callers report: how a workflow run went, how good an answer was.

use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;
use crate::reply;
use axum::body::Body;
use axum::extract::{Path, State};
use evenkeel_core::{DegradationLevel, WorkflowOutcome};
use evenkeel_router::{Feedback, FeedbackError, Workflow, WorkflowError};
use http::{HeaderMap, Request, Response};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Longest report, in bytes.
const LONGEST_REPORT: usize = 16 * 1024;

/// `GET /v1/evenkeel/workflows/{id}`: how a run of the caller stands.
pub(crate) async fn workflow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let found = admitted(&app, &headers).and_then(|caller| {
        let caller = caller.id().map(|id| &**id);
        let run = app.router.workflow(&id, caller);
        run.ok_or_else(|| ApiError::from_workflow(WorkflowError::Unknown))
    });
    answer(found.map(|run| run_object(&id, &run)))
}

/// `POST /v1/evenkeel/workflows/{id}`: how it went.
pub(crate) async fn end_workflow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    let (caller, report) = match reported(&app, request).await {
        Ok(reported) => reported,
        Err(refusal) => return refusal.into_response(),
    };
    let ended = outcome(&report).and_then(|outcome| {
        let caller = caller.id().map(|id| &**id);
        let ended = app.router.end_workflow(&id, caller, outcome);
        ended.map_err(ApiError::from_workflow)
    });
    answer(ended.map(|run| run_object(&id, &run)))
}

/// `POST /v1/evenkeel/feedback`: how good the answer to a request was.
pub(crate) async fn feedback(
    State(app): State<Arc<App>>,
    request: Request<Body>,
) -> Response<Body> {
    let (caller, report) = match reported(&app, request).await {
        Ok(reported) => reported,
        Err(refusal) => return refusal.into_response(),
    };
    let judged = judgement(&report).and_then(|(id, feedback)| {
        let caller = caller.id().map(|id| &**id);
        let judged = app.router.feedback(id, caller, feedback);
        let judged = judged.map_err(|error| ApiError::from_feedback(&error))?;
        Ok(json!({
            "request_id": id,
            "role": &*judged.role,
            "model_id": judged.model.as_str(),
            "rung": judged.rung,
            "degraded": judged.degraded,
            "score": judged.score,
        }))
    });
    answer(judged)
}

fn admitted(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let caller = app.served().keys.admit(headers);
    caller.ok_or_else(ApiError::invalid_client_key)
}

/// Who reports, and what.
async fn reported(
    app: &App,
    request: Request<Body>,
) -> Result<(Caller, Map<String, Value>), ApiError> {
    let (parts, body) = request.into_parts();
    let caller = match admitted(app, &parts.headers) {
        Ok(caller) => caller,
        Err(refusal) => {
            body::discard(body, &parts.headers).await;
            return Err(refusal);
        }
    };
    let most = app.served().max_body_bytes.min(LONGEST_REPORT);
    let body = body::read(body, &parts.headers, most, &app.limits).await?;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(report)) => Ok((caller, report)),
        Ok(_) => Err(ApiError::bad_request(
            "invalid_type",
            "the body must be a JSON object",
            None,
        )),
        Err(error) => {
            let message = format!("the request body is not valid JSON: {error}");
            Err(ApiError::bad_request("invalid_json", message, None))
        }
    }
}

fn missing(key: &str, expected: &str) -> ApiError {
    ApiError::bad_request(
        "missing_required_parameter",
        format!("`{key}` is missing: {expected}"),
        Some(key.to_owned()),
    )
}

fn invalid(key: &str, expected: &str) -> ApiError {
    ApiError::bad_request(
        "invalid_value",
        format!("`{key}` must be {expected}"),
        Some(key.to_owned()),
    )
}

fn outcome(report: &Map<String, Value>) -> Result<WorkflowOutcome, ApiError> {
    const EXPECTED: &str = "success, partial or failed";
    let said = report.get("outcome");
    let said = said.ok_or_else(|| missing("outcome", EXPECTED))?;
    let known = said.as_str().and_then(WorkflowOutcome::named);
    known.ok_or_else(|| invalid("outcome", EXPECTED))
}

fn judgement(report: &Map<String, Value>) -> Result<(&str, Feedback), ApiError> {
    const ID: &str = "the id of the request, as `x-evenkeel-request-id` told it";
    let id = report
        .get("request_id")
        .ok_or_else(|| missing("request_id", ID))?;
    let id = id.as_str().ok_or_else(|| invalid("request_id", ID))?;
    let feedback = match (report.get("success"), report.get("score")) {
        (Some(success), None) => success.as_bool().map(Feedback::Success),
        (None, Some(score)) => {
            let score = score.as_f64().map(Feedback::Score);
            return score
                .map(|score| (id, score))
                .ok_or_else(|| invalid("score", "a number from 0 to 1"));
        }
        (None, None) => return Err(missing("success", "say `success` or a `score`")),
        (Some(_), Some(_)) => {
            return Err(invalid("score", "left out where there is a `success`"));
        }
    };
    let feedback = feedback.ok_or_else(|| invalid("success", "true or false"))?;
    Ok((id, feedback))
}

fn run_object(id: &str, run: &Workflow) -> Value {
    let roles: Vec<Value> = run
        .degraded_roles
        .iter()
        .map(|degraded| {
            json!({
                "role": &*degraded.role,
                "model_id": degraded.model.as_str(),
                "reason": degraded.reason,
                "calls": degraded.calls,
            })
        })
        .collect();
    json!({
        "id": id,
        "calls": run.calls,
        "degraded_calls": run.degraded_calls,
        "unanswered_calls": run.unanswered_calls,
        "level": run.level().map(DegradationLevel::as_str),
        "depth": run.depth,
        "min_capability_score": run.min_capability_score,
        "expected_quality": run.expected_quality,
        "degraded_roles": roles,
        "outcome": run.outcome.map(WorkflowOutcome::as_str),
    })
}

fn answer(said: Result<Value, ApiError>) -> Response<Body> {
    match said {
        Ok(said) => reply::ok(&said),
        Err(refusal) => refusal.into_response(),
    }
}

impl ApiError {
    fn from_workflow(error: WorkflowError) -> Self {
        match error {
            WorkflowError::Ended(_) => {
                Self::conflict("workflow_ended", error.to_string(), "outcome")
            }
            _ => Self::not_found("workflow_not_found", error.to_string(), "id"),
        }
    }

    fn from_feedback(error: &FeedbackError) -> Self {
        match error {
            FeedbackError::Score(_) => invalid("score", "a number from 0 to 1"),
            _ => Self::not_found("request_not_found", error.to_string(), "request_id"),
        }
    }
}
