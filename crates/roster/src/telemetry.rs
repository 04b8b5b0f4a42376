//! Where telemetry goes, and what of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::redactions::Redactions;

/// Where traces, events and metrics are sent, and what is in them (`[telemetry]`).
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// `endpoint`: the collector's address, without `/v1/traces`; none: nothing is sent.
    pub endpoint: Option<String>,
    /// `headers`: sent with every request to it, by name. Their values may be secrets.
    pub headers: BTreeMap<String, SecretString>,
    /// `ca_file`: certificates, PEM, trusted in place of the public roots; relative to the config folder.
    pub ca_file: Option<PathBuf>,
    /// `timeout_ms`: how long a request to it may take.
    pub timeout: Duration,
    /// `queue`: spans, and events as log records, that may wait to be sent; beyond it they
    /// are dropped and counted.
    pub queue: u32,
    /// `metrics`: whether metrics are pushed to it too; some take traces alone.
    pub metrics: bool,
    /// `sample_ratio`: share of traces that begin here which are sent, 0 to 1. One that
    /// comes in is sent where its sender sends it.
    pub sample_ratio: f64,
    /// `capture_content`: whether what was asked and answered is kept, and where.
    pub capture_content: CaptureContent,
    /// `redact`: what is taken out of it first.
    pub redact: Redactions,
    /// `events.as`: where the events of a call go.
    pub events: EventsAs,
    /// `service_name`: `service.name` of all that is sent.
    pub service_name: String,
    /// `environment`: `deployment.environment.name` of all that is sent.
    pub environment: Option<String>,
    /// `resource`: further attributes of all that is sent.
    pub resource: BTreeMap<String, String>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: BTreeMap::new(),
            ca_file: None,
            timeout: Duration::from_secs(10),
            queue: 16_384,
            metrics: true,
            sample_ratio: 1.0,
            capture_content: CaptureContent::None,
            redact: Redactions::default(),
            events: EventsAs::Span,
            service_name: "evenkeel".to_owned(),
            environment: None,
            resource: BTreeMap::new(),
        }
    }
}

impl TelemetryConfig {
    /// Whether both send the same to the same.
    pub fn is_as(&self, other: &Self) -> bool {
        let headers = |config: &Self| -> Vec<(String, String)> {
            let all = config.headers.iter();
            all.map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                .collect()
        };
        (&self.endpoint, self.timeout, self.queue) == (&other.endpoint, other.timeout, other.queue)
            && self.ca_file == other.ca_file
            && self.metrics == other.metrics
            && self.sample_ratio.to_bits() == other.sample_ratio.to_bits()
            && (self.capture_content, self.events) == (other.capture_content, other.events)
            && self.redact == other.redact
            && (&self.service_name, &self.environment) == (&other.service_name, &other.environment)
            && self.resource == other.resource
            && headers(self) == headers(other)
    }
}

/// Whether what was asked and answered is kept (`capture_content`). It is personal data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaptureContent {
    /// `none`: nowhere.
    #[default]
    None,
    /// `span`: on the spans of attempts.
    Span,
    /// `event`: in log records of their own.
    Event,
}

impl CaptureContent {
    /// Every value with its word.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("span", Self::Span),
        ("event", Self::Event),
    ];
}

/// Where the events of a call go (`events.as`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventsAs {
    /// `span`: on its span.
    #[default]
    Span,
    /// `log`: into log records with the span's context.
    Log,
    /// `both`.
    Both,
}

impl EventsAs {
    /// Every value with its word.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("span", Self::Span),
        ("log", Self::Log),
        ("both", Self::Both),
    ];
}

/// What `[telemetry]` says, before the environment is asked for the rest.
#[derive(Default)]
pub(crate) struct WrittenTelemetry {
    /// Empty: nothing is sent, whatever the environment says.
    pub(crate) endpoint: Option<String>,
    pub(crate) headers: Option<BTreeMap<String, SecretString>>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) queue: Option<u32>,
    pub(crate) metrics: Option<bool>,
    pub(crate) sample_ratio: Option<f64>,
    pub(crate) capture_content: Option<CaptureContent>,
    pub(crate) redact: Redactions,
    pub(crate) events: Option<EventsAs>,
    pub(crate) service_name: Option<String>,
    pub(crate) environment: Option<String>,
    pub(crate) resource: BTreeMap<String, String>,
}

/// A variable of the environment that cannot be used. Its value may be a secret.
pub(crate) struct Unusable {
    pub(crate) variable: &'static str,
    pub(crate) expected: &'static str,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not {}: passed over", self.variable, self.expected)
    }
}

impl WrittenTelemetry {
    /// What the files say; where they say nothing, what OpenTelemetry's variables say,
    /// else the default.
    pub(crate) fn settled(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
        unusable: &mut Vec<Unusable>,
    ) -> TelemetryConfig {
        let default = TelemetryConfig::default();
        let mut asked = Asked { env, unusable };
        let named = asked.pairs("OTEL_RESOURCE_ATTRIBUTES");
        let of_env = |name: &str| named.get(name).cloned();
        let mut resource = named.clone();
        for taken in ["service.name", "deployment.environment.name"] {
            resource.remove(taken);
        }
        resource.extend(self.resource.clone());
        let service_name = self.service_name.clone();
        let environment = self.environment.clone();
        TelemetryConfig {
            endpoint: self.endpoint(&mut asked),
            headers: self.headers.clone().unwrap_or_else(|| asked.headers()),
            ca_file: self.ca_file.clone().or_else(|| {
                let file = asked.variable("OTEL_EXPORTER_OTLP_CERTIFICATE")?;
                Some(PathBuf::from(file))
            }),
            timeout: self.timeout.unwrap_or(default.timeout),
            queue: self.queue.unwrap_or(default.queue),
            metrics: self.metrics.unwrap_or_else(|| {
                asked.variable("OTEL_METRICS_EXPORTER").as_deref() != Some("none")
            }),
            sample_ratio: self.sample_ratio.unwrap_or_else(|| asked.sample_ratio()),
            capture_content: self
                .capture_content
                .unwrap_or_else(|| asked.capture_content()),
            redact: self.redact.clone(),
            events: self.events.unwrap_or_default(),
            service_name: service_name
                .or_else(|| asked.variable("OTEL_SERVICE_NAME"))
                .or_else(|| of_env("service.name"))
                .unwrap_or(default.service_name),
            environment: environment.or_else(|| of_env("deployment.environment.name")),
            resource,
        }
    }

    fn endpoint(&self, asked: &mut Asked<'_>) -> Option<String> {
        if asked.variable("OTEL_SDK_DISABLED").as_deref() == Some("true") {
            return None;
        }
        let written = self.endpoint.clone();
        let endpoint = written.or_else(|| {
            let variable = "OTEL_EXPORTER_OTLP_ENDPOINT";
            let text = asked.variable(variable)?;
            if is_endpoint(&text) {
                return Some(text);
            }
            asked.refuse(variable, "an address like http://127.0.0.1:4318");
            None
        });
        endpoint.filter(|endpoint| !endpoint.is_empty())
    }
}

/// Whether a text is an address that can be posted to.
pub(crate) fn is_endpoint(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
    })
}

/// The environment, and what of it cannot be used.
struct Asked<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    unusable: &'a mut Vec<Unusable>,
}

impl Asked<'_> {
    /// A variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    fn refuse(&mut self, variable: &'static str, expected: &'static str) {
        self.unusable.push(Unusable { variable, expected });
    }

    fn sample_ratio(&mut self) -> f64 {
        match self.variable("OTEL_TRACES_SAMPLER").as_deref() {
            Some("always_off" | "parentbased_always_off") => return 0.0,
            Some("always_on" | "parentbased_always_on") => return 1.0,
            _ => {}
        }
        let Some(text) = self.variable("OTEL_TRACES_SAMPLER_ARG") else {
            return 1.0;
        };
        let ratio = text.parse::<f64>().ok();
        ratio
            .filter(|r| (0.0..=1.0).contains(r))
            .unwrap_or_else(|| {
                self.refuse("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1");
                1.0
            })
    }

    fn capture_content(&mut self) -> CaptureContent {
        if let Some(word) = self.variable("EVENKEEL_CAPTURE_CONTENT") {
            let known = CaptureContent::WORDS.iter().find(|(own, _)| *own == word);
            if let Some((_, capture)) = known {
                return *capture;
            }
            self.refuse("EVENKEEL_CAPTURE_CONTENT", "none, span or event");
        }
        let others = self.variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        match others.as_deref() {
            Some("true") => CaptureContent::Span,
            _ => CaptureContent::None,
        }
    }

    fn headers(&mut self) -> BTreeMap<String, SecretString> {
        let pairs = self.pairs("OTEL_EXPORTER_OTLP_HEADERS").into_iter();
        pairs
            .map(|(name, value)| (name, SecretString::from(value)))
            .collect()
    }

    /// `name=value,name=value`, values percent-encoded as in W3C baggage.
    fn pairs(&mut self, variable: &'static str) -> BTreeMap<String, String> {
        let Some(text) = self.variable(variable) else {
            return BTreeMap::new();
        };
        let pairs: Option<BTreeMap<_, _>> = text
            .split(',')
            .filter(|pair| !pair.trim().is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let name = name.trim();
                (!name.is_empty()).then_some(())?;
                Some((name.to_owned(), decoded(value.trim())?))
            })
            .collect();
        pairs.unwrap_or_else(|| {
            self.refuse(variable, "a list of name=value");
            BTreeMap::new()
        })
    }
}

/// A text without its percent-encoding; none where that is broken.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = more;
            continue;
        }
        let digits = std::str::from_utf8(more.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &more[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(written: &WrittenTelemetry, env: &[(&str, &str)]) -> (TelemetryConfig, Vec<String>) {
        let env = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut unusable = Vec::new();
        let settled = written.settled(&env, &mut unusable);
        (settled, unusable.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_environment_says_what_the_files_do_not() {
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Basic%20abc, x=1",
            ),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_SERVICE_NAME", "planner-gateway"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=staging,team=core,service.name=other",
            ),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ];
        let (told, unusable) = settled(&WrittenTelemetry::default(), &env);
        assert_eq!(unusable, Vec::<String>::new());
        assert_eq!(told.endpoint.as_deref(), Some("http://collector:4318"));
        assert_eq!(told.headers["authorization"].expose_secret(), "Basic abc");
        assert_eq!(told.ca_file, Some(PathBuf::from("/etc/ca.pem")));
        assert_eq!(told.service_name, "planner-gateway");
        assert!(!told.metrics);
        assert_eq!(told.environment.as_deref(), Some("staging"));
        assert_eq!(
            told.resource,
            BTreeMap::from([("team".to_owned(), "core".to_owned())])
        );
        assert!((told.sample_ratio - 0.25).abs() < f64::EPSILON);
        assert_eq!(told.capture_content, CaptureContent::Span);

        let (again, _) = settled(&WrittenTelemetry::default(), &env);
        assert!(again.is_as(&told));

        let written = WrittenTelemetry {
            endpoint: Some("https://ours:4318".to_owned()),
            sample_ratio: Some(1.0),
            ca_file: Some(PathBuf::from("ours.pem")),
            service_name: Some("ours".to_owned()),
            capture_content: Some(CaptureContent::None),
            headers: Some(BTreeMap::new()),
            ..WrittenTelemetry::default()
        };
        let (told, _) = settled(&written, &env);
        assert!(!told.is_as(&again));
        assert_eq!(told.endpoint.as_deref(), Some("https://ours:4318"));
        assert!((told.sample_ratio - 1.0).abs() < f64::EPSILON);
        assert_eq!(told.ca_file, Some(PathBuf::from("ours.pem")));
        assert_eq!(told.service_name, "ours");
        assert_eq!(told.capture_content, CaptureContent::None);
        assert!(told.headers.is_empty());
    }

    #[test]
    fn an_empty_endpoint_sends_nothing_whatever_the_environment_says() {
        let written = WrittenTelemetry {
            endpoint: Some(String::new()),
            ..WrittenTelemetry::default()
        };
        let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")];
        assert_eq!(settled(&written, &env).0.endpoint, None);
        let off = [env[0], ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(settled(&WrittenTelemetry::default(), &off).0.endpoint, None);
        assert_eq!(settled(&WrittenTelemetry::default(), &[]).0.endpoint, None);
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_told_without_its_value() {
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("EVENKEEL_CAPTURE_CONTENT", "all"),
        ];
        let (told, unusable) = settled(&WrittenTelemetry::default(), &env);
        assert_eq!(told.endpoint, None);
        assert_eq!(unusable.len(), 4);
        assert!(
            unusable.iter().all(|line| !line.contains("secret")),
            "{unusable:?}"
        );
        assert_eq!(told.capture_content, CaptureContent::None);
    }
}
