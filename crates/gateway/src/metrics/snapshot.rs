//! A router's state, as gauges show it.

use evenkeel_core::ModelId;
use evenkeel_otel_emit::audit::AuditStatus;
use evenkeel_otel_emit::metrics::{
    ModelNow, PercentilesNow, ProviderNow, Quality, QualityNow, RoleNow, RungNow, Snapshot,
    TicketsNow,
};
use evenkeel_router::{ModelQuality, RoleState, Router, RungState, WindowState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewest judged answers of each side that a comparison by callers' feedback rests on.
const LEAST_JUDGED: u64 = 20;

/// How `router` is now.
pub(super) fn snapshot(
    router: &Router,
    tickets: Option<Vec<TicketsNow>>,
    audit: Option<AuditStatus>,
) -> Snapshot {
    let roles = router.state().roles;
    let mut models: BTreeMap<&ModelId, ModelNow> = BTreeMap::new();
    let mut providers: BTreeMap<&str, ProviderNow> = BTreeMap::new();
    for rung in roles.iter().flat_map(|role| &role.rungs) {
        let (health, provider) = (&rung.health, &rung.health.provider);
        models.entry(&rung.model).or_insert_with(|| ModelNow {
            model: rung.model.clone(),
            breaker: health.breaker.state,
            cools_down: health.cooldown.is_some(),
            is_held: health.hold.is_some() || provider.hold.is_some(),
        });
        providers
            .entry(&provider.name)
            .or_insert_with(|| ProviderNow {
                provider: provider.name.as_str().into(),
                breaker: provider.breaker.state,
            });
    }
    let own = roles.iter().filter(|role| role.task.is_none());
    Snapshot {
        models: models.into_values().collect(),
        providers: providers.into_values().collect(),
        qualities: own
            .flat_map(|role| qualities(&role.role, &router.quality(&role.role).unwrap_or_default()))
            .collect(),
        roles: roles.iter().map(role_now).collect(),
        tickets,
        audit,
    }
}

fn role_now(role: &RoleState) -> RoleNow {
    RoleNow {
        role: role.role.as_str().into(),
        task: role.task.as_deref().map(Arc::from),
        active: role.active,
        in_flight: role.in_flight as u64,
        rungs: role.rungs.iter().map(rung_now).collect(),
    }
}

fn rung_now(rung: &RungState) -> RungNow {
    let window = |window: &WindowState| PercentilesNow {
        p50: window.p50,
        p95: window.p95,
        p99: window.p99,
    };
    RungNow {
        model: rung.model.clone(),
        total: window(&rung.total),
        first_token: window(&rung.first_token),
    }
}

/// What callers say of each fallback beside the primary, where they have said enough of both.
fn qualities(role: &str, judged: &[ModelQuality]) -> Vec<QualityNow> {
    let score = |of: &ModelQuality| of.mean_score.filter(|_| of.judged >= LEAST_JUDGED);
    let Some((primary, fallbacks)) = judged.split_first() else {
        return Vec::new();
    };
    let Some(best) = score(primary).filter(|score| *score > 0.0) else {
        return Vec::new();
    };
    let compared = fallbacks.iter().filter_map(|fallback| {
        let own = score(fallback)?;
        Some(QualityNow {
            role: role.into(),
            primary: primary.model.clone(),
            fallback: fallback.model.clone(),
            quality: Quality {
                ratio: own / best,
                delta: own - best,
            },
        })
    });
    compared.collect()
}
