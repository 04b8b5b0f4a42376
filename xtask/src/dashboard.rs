//! Whether Prometheus can read what the dashboard asks it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{process, workspace};

const FILE: &str = "deploy/grafana-dashboard.json";

/// What Grafana puts in the place of its variables: one of each kind will do.
const FILLED: [(&str, &str); 2] = [("$__rate_interval", "5m"), ("$role", ".*")];

/// Whether promtool takes every expression, each as a rule that records it.
///
/// # Errors
/// When the dashboard is none, or promtool cannot be started.
pub(crate) fn parses() -> Result<bool> {
    let asked = expressions()?;
    let rules: Vec<Value> = asked
        .iter()
        .enumerate()
        .map(|(n, expr)| json!({ "record": format!("dashboard:expression_{n}"), "expr": expr }))
        .collect();
    let rules = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let path = workspace::target()?.join("telemetry/dashboard.rules.yml");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // JSON is YAML.
    fs::write(&path, rules.to_string()).with_context(|| format!("writing {}", path.display()))?;
    process::succeeds(Command::new("promtool").args(["check", "rules"]).arg(&path))
}

/// Every expression of every panel, its variables filled in.
fn expressions() -> Result<Vec<String>> {
    let path = workspace::root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let dashboard: Value =
        serde_json::from_str(&text).with_context(|| format!("{FILE}: no JSON"))?;
    let mut found = Vec::new();
    collect(&dashboard, &mut found);
    ensure!(!found.is_empty(), "{FILE}: no panel asks for anything");
    let filled = |mut expr: String| {
        for (variable, value) in FILLED {
            expr = expr.replace(variable, value);
        }
        ensure!(
            !expr.contains('$'),
            "{FILE}: a variable that nobody fills: {expr}"
        );
        Ok(expr)
    };
    found.into_iter().map(filled).collect()
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(expr) if key == "expr" => found.push(expr.clone()),
                    value => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_is_looked_at_and_every_variable_filled() {
        let asked = expressions().unwrap();
        let text = fs::read_to_string(workspace::root().join(FILE)).unwrap();
        assert_eq!(asked.len(), text.matches("\"expr\":").count());
        assert!(asked.iter().any(|expr| expr.contains("[5m]")));
    }
}
