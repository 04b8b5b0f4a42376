//! Who may depend on whom. Arrows point down only.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{Edge, Kind, Package};

/// What a crate may know of ours, in its own code.
enum Knows {
    /// These and no others.
    Only(&'static [&'static str]),
    /// Any crate below it; cargo itself refuses a cycle.
    Everything,
}

/// The layers, lowest first. A crate that is not here is a fault: it has to take its place.
const LAYERS: &[(&str, Knows)] = &[
    ("evenkeel-probe", Knows::Only(&[])),
    ("evenkeel-breaker", Knows::Only(&[])),
    ("evenkeel-core", Knows::Only(&[])),
    ("evenkeel-document", Knows::Only(&[])),
    ("evenkeel-validators", Knows::Only(&["evenkeel-core"])),
    (
        "evenkeel-roster",
        Knows::Only(&["evenkeel-core", "evenkeel-document", "evenkeel-validators"]),
    ),
    (
        "evenkeel-prompts",
        Knows::Only(&["evenkeel-core", "evenkeel-document"]),
    ),
    ("evenkeel-schema-adapter", Knows::Only(&["evenkeel-core"])),
    ("evenkeel-providers", Knows::Only(&["evenkeel-core"])),
    ("evenkeel-otel-emit", Knows::Only(&["evenkeel-core"])),
    (
        "evenkeel-chaos",
        Knows::Only(&["evenkeel-core", "evenkeel-providers"]),
    ),
    (
        "evenkeel-router",
        Knows::Only(&[
            "evenkeel-core",
            "evenkeel-probe",
            "evenkeel-breaker",
            "evenkeel-roster",
            "evenkeel-prompts",
            "evenkeel-schema-adapter",
        ]),
    ),
    ("evenkeel", Knows::Everything),
    ("evenkeel-qualify", Knows::Everything),
    ("evenkeel-replay", Knows::Everything),
    ("evenkeel-gateway", Knows::Everything),
    ("xtask", Knows::Everything),
];

/// Who stays off the network and off a runtime: plain state machines and parsers.
const SANS_IO: &[&str] = &[
    "evenkeel-probe",
    "evenkeel-breaker",
    "evenkeel-core",
    "evenkeel-document",
    "evenkeel-validators",
    "evenkeel-roster",
    "evenkeel-prompts",
    "evenkeel-schema-adapter",
];

/// Runtimes, clients and servers (by the first word of the crate's name).
const IO: &[&str] = &[
    "tokio", "hyper", "axum", "reqwest", "rustls", "socket2", "rusqlite", "redis",
];

/// What the router never names: a wire, a store, a telemetry system.
const NOT_IN_ROUTER: &[&str] = &[
    "hyper",
    "http",
    "axum",
    "reqwest",
    "rustls",
    "rusqlite",
    "redis",
    "opentelemetry",
    "tracing",
];

/// Every edge that points the wrong way, one line each.
pub(crate) fn faults(packages: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let built = reachable(packages);
    let mut faults = Vec::new();
    for package in packages {
        let Some((_, knows)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
            faults.push(format!(
                "{}: not in the layers of xtask/src/layers.rs; give it its place there",
                package.name
            ));
            continue;
        };
        for edge in &package.edges {
            let wrong = if ours.contains(edge.to.as_str()) {
                inner(package, knows, edge, &built)
            } else {
                outer(package, edge)
            };
            faults.extend(wrong);
        }
    }
    faults
}

fn inner(
    package: &Package,
    knows: &Knows,
    edge: &Edge,
    built: &BTreeMap<&str, BTreeSet<&str>>,
) -> Option<String> {
    match (edge.kind, knows) {
        (Kind::Built, Knows::Only(allowed)) if !allowed.contains(&edge.to.as_str()) => {
            Some(format!(
                "{} depends on {}; it may know {}",
                package.name,
                edge.to,
                if allowed.is_empty() {
                    "none of ours".to_owned()
                } else {
                    format!("only {}", allowed.join(", "))
                }
            ))
        }
        (Kind::Dev, _) if built[edge.to.as_str()].contains(package.name.as_str()) => Some(format!(
            "{}'s tests depend on {}, which depends on it: test it from above instead",
            package.name, edge.to
        )),
        _ => None,
    }
}

fn outer(package: &Package, edge: &Edge) -> Option<String> {
    if edge.kind == Kind::Dev {
        return None;
    }
    let first_word = edge.to.split(['-', '_']).next().unwrap_or(&edge.to);
    if SANS_IO.contains(&package.name.as_str()) && IO.contains(&first_word) {
        return Some(format!(
            "{} depends on {}; it takes `now` and returns what to do, and does no I/O",
            package.name, edge.to
        ));
    }
    if package.name == "evenkeel-router" && NOT_IN_ROUTER.contains(&first_word) {
        return Some(format!(
            "{} depends on {}; the router sees the traits of evenkeel-core alone",
            package.name, edge.to
        ));
    }
    None
}

/// For each of our crates, all of ours that it is built on.
fn reachable(packages: &[Package]) -> BTreeMap<&str, BTreeSet<&str>> {
    let direct: BTreeMap<&str, Vec<&str>> = packages
        .iter()
        .map(|package| {
            let ours = package
                .edges
                .iter()
                .filter(|edge| edge.kind == Kind::Built)
                .filter_map(|edge| packages.iter().find(|p| p.name == edge.to))
                .map(|p| p.name.as_str());
            (package.name.as_str(), ours.collect())
        })
        .collect();
    direct
        .keys()
        .map(|name| {
            let mut seen = BTreeSet::new();
            let mut open = direct[name].clone();
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(&direct[next]);
                }
            }
            (*name, seen)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn package(name: &str, edges: &[(&str, Kind)]) -> Package {
        Package {
            name: name.to_owned(),
            folder: PathBuf::new(),
            description: String::new(),
            license: String::new(),
            is_library: true,
            is_program: false,
            features: Vec::new(),
            edges: edges
                .iter()
                .map(|(to, kind)| Edge {
                    to: (*to).to_owned(),
                    kind: *kind,
                })
                .collect(),
        }
    }

    /// A workspace in which `from` has one more dependency than it should, or not.
    fn with(from: &str, to: &str, kind: Kind) -> Vec<String> {
        let mut packages = vec![
            package("evenkeel-core", &[]),
            package("evenkeel-probe", &[]),
            package("evenkeel-providers", &[("evenkeel-core", Kind::Built)]),
            package("evenkeel-chaos", &[("evenkeel-providers", Kind::Built)]),
            package(
                "evenkeel-router",
                &[
                    ("evenkeel-core", Kind::Built),
                    ("evenkeel-probe", Kind::Built),
                ],
            ),
            package("evenkeel", &[("evenkeel-router", Kind::Built)]),
        ];
        let edge = Edge {
            to: to.to_owned(),
            kind,
        };
        packages
            .iter_mut()
            .find(|p| p.name == from)
            .unwrap()
            .edges
            .push(edge);
        faults(&packages)
    }

    #[test]
    fn an_arrow_that_points_up_is_a_fault() {
        for (from, to) in [
            ("evenkeel-probe", "evenkeel-core"),
            ("evenkeel-core", "evenkeel-probe"),
            ("evenkeel-providers", "evenkeel-router"),
            ("evenkeel-router", "evenkeel-providers"),
            ("evenkeel-chaos", "evenkeel-router"),
        ] {
            let found = with(from, to, Kind::Built);
            assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
            assert!(
                found[0].contains(from) && found[0].contains(to),
                "{found:?}"
            );
        }
        assert_eq!(
            with("evenkeel-chaos", "evenkeel-core", Kind::Built),
            [""; 0]
        );
    }

    #[test]
    fn tests_may_look_sideways_but_not_up() {
        assert_eq!(
            with("evenkeel-router", "evenkeel-chaos", Kind::Dev),
            [""; 0]
        );
        assert_eq!(with("evenkeel-core", "evenkeel", Kind::Dev).len(), 1);
    }

    #[test]
    fn state_machines_name_no_runtime_and_the_router_no_wire() {
        assert_eq!(with("evenkeel-probe", "tokio", Kind::Built).len(), 1);
        assert_eq!(with("evenkeel-probe", "tokio", Kind::Dev), [""; 0]);
        assert_eq!(with("evenkeel-core", "hyper-util", Kind::Built).len(), 1);
        assert_eq!(with("evenkeel-router", "tokio", Kind::Built), [""; 0]);
        assert_eq!(
            with("evenkeel-router", "opentelemetry_sdk", Kind::Built).len(),
            1
        );
    }

    #[test]
    fn a_crate_without_a_place_is_a_fault() {
        let found = faults(&[package("evenkeel-extra", &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("evenkeel-extra: not in the layers"));
    }
}
