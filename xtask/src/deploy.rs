//! Whether the files of `deploy/` fit together: what one names, another has.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use evenkeel_document::{Document, Findings, Problems, SourceFile, Table, Value, parse_all};

use crate::workspace;

/// One line for each name that leads nowhere.
///
/// # Errors
/// When a file cannot be read, or is no YAML.
pub(crate) fn faults() -> Result<Vec<String>> {
    let folder = workspace::root().join("deploy");
    let compose = Compose::read(&folder)?;
    let mut faults = compose.faults();
    faults.extend(prometheus(&folder, &compose)?);
    faults.extend(collector(&folder)?);
    for file in ["grafana/datasources.yaml", "grafana/dashboards.yaml"] {
        let document = yaml(&folder, file)?;
        let mut texts = Vec::new();
        all_texts(document.scope().table, &mut texts);
        let hosts = texts.iter().filter_map(|text| host(text));
        let unknown = hosts.filter(|host| !compose.has_service(host));
        faults.extend(unknown.map(|host| format!("{file}: no service {host}")));
    }
    Ok(faults)
}

/// Reads a file as YAML. Its `${…}` are for others to fill.
fn yaml(folder: &Path, file: &str) -> Result<Document> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let source = SourceFile::new(file, text.replace('$', "$$"));
    let mut findings = Findings::default();
    let mut documents = parse_all(&[source], &|_| None, &mut findings);
    match documents.list.pop() {
        Some(document) if !findings.has_errors() => Ok(document),
        _ => bail!("{}", Problems(findings.into_sorted())),
    }
}

/// Keys that a service of a compose file may have, of those that the specification has
/// (<https://github.com/compose-spec/compose-spec>, 05-services): those in use here, and
/// those that a deployment of a gateway may come to need.
const SERVICE_KEYS: [&str; 38] = [
    "build",
    "cap_add",
    "cap_drop",
    "command",
    "configs",
    "container_name",
    "cpus",
    "depends_on",
    "deploy",
    "dns",
    "entrypoint",
    "env_file",
    "environment",
    "expose",
    "extra_hosts",
    "healthcheck",
    "hostname",
    "image",
    "init",
    "labels",
    "logging",
    "mem_limit",
    "networks",
    "pids_limit",
    "platform",
    "ports",
    "profiles",
    "pull_policy",
    "read_only",
    "restart",
    "secrets",
    "security_opt",
    "stop_grace_period",
    "stop_signal",
    "tmpfs",
    "ulimits",
    "user",
    "volumes",
];
/// Keys of the whole file.
const FILE_KEYS: [&str; 7] = [
    "configs", "include", "name", "networks", "secrets", "services", "volumes",
];
const RESTARTS: [&str; 4] = ["no", "always", "on-failure", "unless-stopped"];

/// `compose.yaml`.
struct Compose {
    folder: PathBuf,
    document: Document,
}

impl Compose {
    fn read(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: folder.to_owned(),
            document: yaml(folder, "compose.yaml")?,
        })
    }

    fn services(&self) -> Option<&Table> {
        table(self.document.scope().table, "services")
    }

    fn has_service(&self, name: &str) -> bool {
        self.services().is_some_and(|all| all.get(name).is_some())
    }

    fn faults(&self) -> Vec<String> {
        let Some(services) = self.services() else {
            return vec!["compose.yaml: no services".to_owned()];
        };
        let mut faults = Vec::new();
        for key in unknown(self.document.scope().table, &FILE_KEYS) {
            faults.push(format!("compose.yaml: there is no key {key}"));
        }
        for entry in &services.entries {
            let Value::Table(service) = &entry.node.value else {
                faults.push(format!("compose.yaml: {}: no service", entry.key));
                continue;
            };
            let wrong = self.of_service(service);
            faults.extend(
                wrong
                    .into_iter()
                    .map(|what| format!("compose.yaml: {}: {what}", entry.key)),
            );
        }
        faults
    }

    fn of_service(&self, service: &Table) -> Vec<String> {
        let mut wrong = Vec::new();
        match (text(service, "image"), table(service, "build")) {
            (Some(image), None) if image.contains(':') => {}
            (None, Some(build)) => {
                let context = self.folder.join(text(build, "context").unwrap_or("."));
                let file = text(build, "dockerfile").unwrap_or("Dockerfile");
                if !context.join(file).is_file() {
                    wrong.push(format!("no {file} to build from"));
                }
            }
            _ => wrong.push("neither an image of a version nor one to build".to_owned()),
        }
        wrong.extend(wrong_form(service));
        for name in texts(service, "depends_on") {
            if !self.has_service(name) {
                wrong.push(format!("no service {name}"));
            }
        }
        for volume in texts(service, "volumes") {
            let from = volume.split(':').next().unwrap_or_default();
            let named = table(self.document.scope().table, "volumes");
            let is_there = if from.starts_with('.') {
                self.folder.join(from).exists()
            } else {
                named.is_some_and(|all| all.get(from).is_some())
            };
            if !is_there {
                wrong.push(format!("no volume {from}"));
            }
        }
        let mut values = Vec::new();
        if let Some(environment) = table(service, "environment") {
            all_texts(environment, &mut values);
        }
        let unknown = values.iter().filter_map(|text| host(text));
        let unknown = unknown.filter(|host| !self.has_service(host));
        wrong.extend(unknown.map(|host| format!("no service {host}")));
        wrong
    }
}

/// The keys of a table that are none of these.
fn unknown<'a>(table: &'a Table, known: &[&str]) -> impl Iterator<Item = &'a str> {
    let keys = table.entries.iter().map(|entry| entry.key.as_str());
    keys.filter(move |key| !known.contains(key))
}

/// What of a service no compose would take, whatever it names.
fn wrong_form(service: &Table) -> Vec<String> {
    let mut wrong: Vec<String> = unknown(service, &SERVICE_KEYS)
        .map(|key| format!("there is no key {key}"))
        .collect();
    for port in texts(service, "ports") {
        if !is_port(port) {
            wrong.push(format!("no port: {port}"));
        }
    }
    if let Some(word) = text(service, "restart").filter(|word| !RESTARTS.contains(word)) {
        wrong.push(format!("no restart: {word}"));
    }
    if let Some(time) = text(service, "stop_grace_period").filter(|time| !is_duration(time)) {
        wrong.push(format!("no stop_grace_period: {time}"));
    }
    wrong
}

/// `[ADDRESS:]HOST:CONTAINER` or `CONTAINER`, of one port each.
fn is_port(text: &str) -> bool {
    let parts: Vec<&str> = text.rsplitn(3, ':').collect();
    let is_number = |part: &&str| part.parse::<u16>().is_ok_and(|port| port > 0);
    parts.iter().take(2).all(is_number)
        && parts
            .get(2)
            .is_none_or(|address| address.parse::<IpAddr>().is_ok())
}

/// A number with its unit, or several: `150s`, `1m30s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let unit = digits.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let (number, word) = (
            rest.len() - digits.len(),
            &digits[..digits.len() - unit.len()],
        );
        if number == 0 || !["us", "ms", "s", "m", "h"].contains(&word) {
            return false;
        }
        rest = unit;
    }
    !text.is_empty()
}

/// Rules that are there, and targets that are services.
fn prometheus(folder: &Path, compose: &Compose) -> Result<Vec<String>> {
    const FILE: &str = "prometheus.yml";
    let document = yaml(folder, FILE)?;
    let root = document.scope().table;
    let mut faults = Vec::new();
    for rules in texts(root, "rule_files") {
        if !folder.join(rules).is_file() {
            faults.push(format!("{FILE}: no rules {rules}"));
        }
    }
    let mut words = Vec::new();
    all_texts(root, &mut words);
    let targets = words.iter().filter_map(|word| {
        let (host, port) = word.split_once(':')?;
        port.parse::<u16>().is_ok().then_some(host)
    });
    let unknown = targets.filter(|host| !compose.has_service(host));
    faults.extend(unknown.map(|host| format!("{FILE}: no service {host}")));
    Ok(faults)
}

/// Pipelines of parts that are there.
fn collector(folder: &Path) -> Result<Vec<String>> {
    const FILE: &str = "collector.yaml";
    let document = yaml(folder, FILE)?;
    let root = document.scope().table;
    let pipelines = table(root, "service").and_then(|service| table(service, "pipelines"));
    let Some(pipelines) = pipelines else {
        return Ok(vec![format!("{FILE}: no pipelines")]);
    };
    let mut faults = Vec::new();
    for pipeline in &pipelines.entries {
        let Value::Table(parts) = &pipeline.node.value else {
            continue;
        };
        for kind in ["receivers", "processors", "exporters"] {
            let known = table(root, kind);
            for name in texts(parts, kind) {
                if known.is_none_or(|known| known.get(name).is_none()) {
                    faults.push(format!("{FILE}: {}: no {kind} {name}", pipeline.key));
                }
            }
        }
    }
    Ok(faults)
}

fn table<'a>(of: &'a Table, key: &str) -> Option<&'a Table> {
    match &of.get(key)?.node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

fn text<'a>(of: &'a Table, key: &str) -> Option<&'a str> {
    match &of.get(key)?.node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn texts<'a>(of: &'a Table, key: &str) -> Vec<&'a str> {
    let Some(Value::Array(items)) = of.get(key).map(|entry| &entry.node.value) else {
        return Vec::new();
    };
    let texts = items.iter().filter_map(|item| match &item.value {
        Value::String(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Every string below `of`.
fn all_texts<'a>(of: &'a Table, texts: &mut Vec<&'a str>) {
    fn of_value<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => items.iter().for_each(|item| of_value(&item.value, texts)),
            Value::Table(table) => all_texts(table, texts),
            _ => {}
        }
    }
    for entry in &of.entries {
        of_value(&entry.node.value, texts);
    }
}

/// The host of a URL.
fn host(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("http://")?;
    rest.split(['/', ':']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_name_is_there() {
        assert_eq!(faults().unwrap(), Vec::<String>::new());
    }

    fn compose(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("compose.yaml"), text).unwrap();
        Compose::read(folder.path()).unwrap().faults()
    }

    #[test]
    fn names_that_lead_nowhere_are_told() {
        let found = compose(
            "services:\n  a:\n    image: thing\n    depends_on: [b]\n    volumes: ['./x:/x', 'v:/v', 'w:/w']\n    \
             environment:\n      AT: http://c:1/\n  d:\n    build: {context: ., dockerfile: F}\nvolumes:\n  v:\n",
        );
        assert_eq!(
            found,
            [
                "compose.yaml: a: neither an image of a version nor one to build",
                "compose.yaml: a: no service b",
                "compose.yaml: a: no volume ./x",
                "compose.yaml: a: no volume w",
                "compose.yaml: a: no service c",
                "compose.yaml: d: no F to build from",
            ]
        );
    }

    #[test]
    fn what_no_compose_takes_is_told() {
        let found = compose(
            "service: {}\nservices:\n  a:\n    image: thing:1\n    volume: []\n    ports: ['127.0.0.1:80:80', '80:x', '0']\n    \
             restart: sometimes\n    stop_grace_period: 150\n  b: []\n",
        );
        assert_eq!(
            found,
            [
                "compose.yaml: there is no key service",
                "compose.yaml: a: there is no key volume",
                "compose.yaml: a: no port: 80:x",
                "compose.yaml: a: no port: 0",
                "compose.yaml: a: no restart: sometimes",
                "compose.yaml: b: no service",
            ]
        );
        assert!(is_duration("1m30s") && is_duration("150s"));
        assert!(!is_duration("150") && !is_duration("s") && !is_duration(""));
    }

    #[test]
    fn a_pipeline_needs_its_parts() {
        let folder = tempfile::tempdir().unwrap();
        let text = "receivers:\n  otlp: {}\nexporters: {}\nservice:\n  pipelines:\n    traces:\n      \
                    receivers: [otlp]\n      exporters: [debug]\n";
        fs::write(folder.path().join("collector.yaml"), text).unwrap();
        let found = collector(folder.path()).unwrap();
        assert_eq!(found, ["collector.yaml: traces: no exporters debug"]);
    }
}
