//! What operators do: force a rung, operate a breaker, release a model, drill.

use super::fields::Fields;
use super::state::Moment;
use crate::app::{ADMIN, App};
use crate::error::ApiError;
use crate::reply;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{delete, post};
use evenkeel_core::{DrillKind, ModelId};
use evenkeel_router::{BreakerAction, BreakerTarget, Operator, OperatorError};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The last part of the address that releases a model, whose name has slashes.
const RELEASE: &str = "/release";

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/admin/roles/{role}/force", post(force))
        .route("/admin/breakers/{*target}", post(breaker))
        .route("/admin/models/{*model}", post(release))
        .route("/admin/drills", post(start_drill))
        .route("/admin/drills/{id}", delete(end_drill))
}

fn operator(app: &App) -> Operator<'_> {
    app.router.operator(ADMIN)
}

fn respond(said: Result<Value, ApiError>) -> Response<Body> {
    said.map_or_else(ApiError::into_response, |said| reply::ok(&said))
}

/// `{"rung": 1}` or `{"model": "…"}` forces, `{"rung": null}` lets go.
async fn force(
    State(app): State<Arc<App>>,
    Path(role): Path<String>,
    request: Request,
) -> Response<Body> {
    respond(forced(&app, &role, request).await)
}

async fn forced(app: &App, role: &str, request: Request) -> Result<Value, ApiError> {
    let mut fields = Fields::read(app, request).await?;
    if fields.has("rung") == fields.has("model") {
        return Err(ApiError::bad_request(
            "missing_required_parameter",
            "say either `rung` or `model`; null lets go of the role",
            Some("rung".to_owned()),
        ));
    }
    let rung = fields.count("rung")?;
    let model = fields.text("model")?;
    fields.finish()?;
    let rung = match model {
        Some(model) => Some(rung_of(app, role, &model)?),
        // A rung beyond any roster is refused as such.
        None => rung.map(|rung| usize::try_from(rung).unwrap_or(usize::MAX)),
    };
    let changed = operator(app).force(role, rung)?;
    let state = app.router.explain(role);
    let state = state.ok_or_else(|| OperatorError::UnknownRole(role.to_owned()))?;
    Ok(json!({
        "role": role,
        "changed": changed,
        "forced": state.forced,
        "rung": state.active,
        "model": state.rungs.get(state.active).map(|rung| rung.model.as_str()),
        "epoch": state.epoch,
    }))
}

/// The rung that a role has a model on.
fn rung_of(app: &App, role: &str, model: &str) -> Result<usize, ApiError> {
    let state = app.router.explain(role);
    let state = state.ok_or_else(|| OperatorError::UnknownRole(role.to_owned()))?;
    let model = model_id(model)?;
    let rung = state.rungs.iter().position(|rung| rung.model == model);
    rung.ok_or_else(|| {
        let role = role.to_owned();
        OperatorError::NotInRoster { role, model }.into()
    })
}

/// `{"action": "force_open" | "disable" | "reset"}`; with `role` beside it the
/// count of the model's useless answers to that role is meant.
async fn breaker(
    State(app): State<Arc<App>>,
    Path(target): Path<String>,
    request: Request,
) -> Response<Body> {
    respond(operated(&app, target, request).await)
}

async fn operated(app: &App, target: String, request: Request) -> Result<Value, ApiError> {
    let mut fields = Fields::read(app, request).await?;
    let action = action(&fields.required_text("action")?)?;
    let role = fields.text("role")?;
    fields.finish()?;
    let breaker = match (role, target.contains('/')) {
        (Some(role), _) => BreakerTarget::Semantic {
            role,
            model: model_id(&target)?,
        },
        (None, true) => BreakerTarget::Model(model_id(&target)?),
        (None, false) => BreakerTarget::Provider(target.clone()),
    };
    let changed = operator(app).breaker(&breaker, action)?;
    Ok(json!({ "target": target, "action": action.as_str(), "changed": changed }))
}

fn action(named: &str) -> Result<BreakerAction, ApiError> {
    let found = BreakerAction::ALL.into_iter().find(|a| a.as_str() == named);
    found.ok_or_else(|| {
        let message = "`action` must be `force_open`, `disable` or `reset`";
        ApiError::bad_request("invalid_value", message, Some("action".to_owned()))
    })
}

/// `/admin/models/{model}/release`.
async fn release(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    request: Request,
) -> Response<Body> {
    let Some(model) = path.strip_suffix(RELEASE) else {
        return ApiError::no_such_path(request.uri().path()).into_response();
    };
    respond(released(&app, model, request).await)
}

async fn released(app: &App, model: &str, request: Request) -> Result<Value, ApiError> {
    Fields::read(app, request).await?.finish()?;
    let released = operator(app).release(&model_id(model)?)?;
    Ok(json!({
        "model": model,
        "cooldown": released.cooldown,
        "hold": released.hold.map(evenkeel_core::Class::as_str),
        "provider_hold": released.provider_hold.map(evenkeel_core::Class::as_str),
    }))
}

/// `{"kind": "kill_switch" | "eol", "model": "…", "duration_ms": 60000}`.
async fn start_drill(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let mut response = respond(started(&app, request).await);
    if response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    response
}

async fn started(app: &App, request: Request) -> Result<Value, ApiError> {
    let mut fields = Fields::read(app, request).await?;
    let kind = match fields.required_text("kind")?.as_str() {
        "kill_switch" => DrillKind::KillSwitch,
        "eol" => DrillKind::Eol,
        _ => {
            let message = "`kind` must be `kill_switch` or `eol`";
            let param = Some("kind".to_owned());
            return Err(ApiError::bad_request("invalid_value", message, param));
        }
    };
    let model = model_id(&fields.required_text("model")?)?;
    let lasting = Duration::from_millis(fields.required_count("duration_ms")?);
    fields.finish()?;
    let id = operator(app).start_drill(kind, &model, lasting)?;
    let until = Moment::now().ahead(lasting);
    Ok(json!({ "id": id, "kind": kind.as_str(), "model": model.as_str(), "until": until }))
}

async fn end_drill(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response<Body> {
    // A number that no drill can have is that of none.
    let id = id.parse().unwrap_or(0);
    let ended = operator(&app).end_drill(id).map_err(ApiError::from);
    respond(ended.map(|drill| Moment::now().drill(&drill)))
}

fn model_id(text: &str) -> Result<ModelId, ApiError> {
    ModelId::new(text).map_err(|error| {
        let message = error.to_string();
        ApiError::bad_request("invalid_value", message, Some("model".to_owned()))
    })
}

impl From<OperatorError> for ApiError {
    fn from(error: OperatorError) -> Self {
        let message = error.to_string();
        match error {
            OperatorError::UnknownRole(_) => Self::not_found("role_not_found", message, "role"),
            OperatorError::UnknownModel(_) | OperatorError::NotInRoster { .. } => {
                Self::not_found("model_not_found", message, "model")
            }
            OperatorError::UnknownProvider(_) => {
                Self::not_found("provider_not_found", message, "provider")
            }
            OperatorError::NoSuchDrill(_) => Self::not_found("drill_not_found", message, "id"),
            OperatorError::NoSuchRung { .. } => {
                Self::bad_request("invalid_value", message, Some("rung".to_owned()))
            }
            OperatorError::DrillLength(_) => {
                Self::bad_request("invalid_value", message, Some("duration_ms".to_owned()))
            }
            OperatorError::PastEndOfLife(_) => Self::conflict("past_end_of_life", message, "rung"),
            OperatorError::DrillRunning { .. } => Self::conflict("drill_running", message, "model"),
            _ => Self::bad_request("invalid_request", message, None),
        }
    }
}
