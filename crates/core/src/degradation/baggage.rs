//! The `baggage` header (W3C Baggage): how a degradation context travels
//! between processes.

use super::percent::{decode, encode};
use super::{DEEPEST, DegradationContext, DegradedAgent, LastStep, MOST_AGENTS, reason};
use crate::ModelId;
use std::sync::Arc;

/// Members and bytes that a header may have (W3C Baggage, section 3.3.2).
const MOST_MEMBERS: usize = 64;
const LONGEST_HEADER: usize = 8_192;
/// Bytes that evenkeel's own members may have together, commas included.
const LONGEST_OWN: usize = 512;
/// Longest name or id, bytes.
const LONGEST_NAME: usize = 256;
/// The last second of the year 9999: no later time is one.
const LATEST: u64 = 253_402_300_799;

const PREFIX: &str = "evenkeel.";
/// The spaces that may stand around a member (RFC 9110, section 5.6.3).
const SPACES: [char; 2] = [' ', '\t'];

/// A `baggage` header taken apart: evenkeel's own members and everybody else's.
///
/// Anybody can write a header. Only where the sender is trusted should
/// [`Baggage::degradation`] be asked for; [`Baggage::write`] sends none of the
/// own members on as they came, whoever sent them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baggage {
    /// Members of others, as they came, in their order.
    foreign: Vec<String>,
    /// Key without prefix, and value as it came.
    own: Vec<(String, String)>,
}

impl Baggage {
    /// Reads the values of a message's `baggage` headers, in their order.
    ///
    /// More than 8,192 bytes are not read at all, and members after the 64th are
    /// left out, as W3C Baggage allows. Own members beyond 512 bytes are left
    /// out too: nobody who keeps to the rules writes them.
    pub fn read<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let headers: Vec<&str> = headers.into_iter().collect();
        let bytes: usize = headers.iter().map(|header| header.len() + 1).sum();
        let mut baggage = Self::default();
        if bytes > LONGEST_HEADER + 1 {
            return baggage;
        }
        let members = headers.iter().flat_map(|header| header.split(','));
        let members = members.map(|member| member.trim_matches(SPACES));
        let mut own_bytes = 0;
        for member in members
            .filter(|member| !member.is_empty())
            .take(MOST_MEMBERS)
        {
            let Some(own) = member.strip_prefix(PREFIX) else {
                baggage.foreign.push(member.to_owned());
                continue;
            };
            own_bytes += member.len() + 1;
            if own_bytes <= LONGEST_OWN + 1
                && let Some((key, value)) = own.split_once('=')
            {
                let value = value.split(';').next().unwrap_or_default();
                baggage.own.push((
                    key.trim_end_matches(SPACES).to_owned(),
                    value.trim_matches(SPACES).to_owned(),
                ));
            }
        }
        baggage
    }

    /// The context that evenkeel's own members tell of.
    ///
    /// A value outside the grammar counts as not there, it is not bent to fit.
    /// A context is degraded as soon as one member says so: a `degraded` of 1, a
    /// `depth`, or an agent. What such a context does not say is taken for the
    /// worst: without `min_capability` its capability is its `quality`, and the
    /// other way round, and without both they are 0. Of a member that is there
    /// twice the last one counts.
    pub fn degradation(&self) -> DegradationContext {
        let name = |text: String| is_name(&text).then(|| Arc::from(text));
        let model = |text: String| ModelId::new(&text).ok();
        let mut context = DegradationContext {
            workflow: self.member("workflow", name),
            ..DegradationContext::default()
        };
        let said = self.member("degraded", |text| match &*text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        });
        let names = self.member("agents", |text| read_agents(&text));
        let names = names.unwrap_or_default();
        let least = u8::from(said == Some(true) || !names.is_empty());
        let depth = self.member("depth", |text| read_depth(&text));
        context.depth = depth.unwrap_or(0).max(least);
        if context.depth == 0 {
            return context;
        }
        let capability = self.member("min_capability", |text| read_share(&text));
        let quality = self.member("quality", |text| read_share(&text));
        context.min_capability_score = capability.or(quality).unwrap_or(0.0);
        context.quality = quality.or(capability).unwrap_or(0.0);
        context.since = self.member("since", |text| read_since(&text));
        context.last = LastStep {
            role: self.member("role", name),
            primary: self.member("primary", model),
            active: self.member("active", model),
            reason: self.member("reason", |text| reason::known(&text)),
        };
        context.agents = staged(names, context.depth);
        context
    }

    /// What the last member of that key says that `read` understands.
    fn member<T>(&self, key: &str, read: impl Fn(String) -> Option<T>) -> Option<T> {
        let mut named = self.own.iter().rev().filter(|(own, _)| own == key);
        named.find_map(|(_, value)| decode_value(value).and_then(&read))
    }

    /// The header that carries `degradation` and everybody else's members as
    /// they came; none where that is nothing.
    ///
    /// Evenkeel's members come first and have at most 512 bytes: of what does
    /// not fit, the oldest agents are left out before anything else, then the
    /// names of the last step. Of the others' members those at the end are left
    /// out where the whole would exceed 64 members or 8,192 bytes.
    pub fn write(&self, degradation: &DegradationContext) -> Option<String> {
        let own = own_members(degradation);
        let mut header = own.join(",");
        for member in self.foreign.iter().take(MOST_MEMBERS - own.len()) {
            let comma = usize::from(!header.is_empty());
            if header.len() + comma + member.len() > LONGEST_HEADER {
                break;
            }
            if comma > 0 {
                header.push(',');
            }
            header.push_str(member);
        }
        (!header.is_empty()).then_some(header)
    }
}

/// Evenkeel's members, the most telling ones first; at most 512 bytes joined.
fn own_members(context: &DegradationContext) -> Vec<String> {
    let mut members = Members::default();
    if context.is_degraded() {
        members.push("degraded", "1");
        members.push("depth", &context.depth.to_string());
        members.push(
            "min_capability",
            &written_share(context.min_capability_score),
        );
        members.push("quality", &written_share(context.quality));
    } else if context.workflow.is_some() {
        members.push("degraded", "0");
    }
    if let Some(since) = context.since {
        members.push("since", &since.min(LATEST).to_string());
    }
    if let Some(reason) = context.last.reason.and_then(reason::known) {
        members.push("reason", reason);
    }
    let names = [
        ("workflow", context.workflow.as_deref()),
        ("role", context.last.role.as_deref()),
        ("active", context.last.active.as_ref().map(ModelId::as_str)),
        (
            "primary",
            context.last.primary.as_ref().map(ModelId::as_str),
        ),
    ];
    for (key, name) in names {
        if let Some(name) = name.filter(|name| is_name(name)) {
            members.push(key, &encode(name));
        }
    }
    members.push_agents(context.degraded_agents());
    members.list
}

/// Own members as far as there is room.
#[derive(Default)]
struct Members {
    list: Vec<String>,
    /// Joined by commas, one at the end included.
    bytes: usize,
}

impl Members {
    /// Bytes that one more member may have.
    fn room(&self) -> usize {
        LONGEST_OWN.saturating_sub(self.bytes)
    }

    /// Adds a member, if there is room for it.
    fn push(&mut self, key: &str, value: &str) {
        let member = format!("{PREFIX}{key}={value}");
        if member.len() <= self.room() {
            self.bytes += member.len() + 1;
            self.list.push(member);
        }
    }

    /// Adds the last of the agents that there is room for.
    fn push_agents<'a>(&mut self, agents: impl DoubleEndedIterator<Item = &'a str>) {
        let mut room = self.room().saturating_sub("evenkeel.agents=".len());
        let mut names = Vec::new();
        for name in agents.rev().filter(|name| is_name(name)) {
            // Encoded as a name, and then as a part of a header's value.
            let name = encode(name).replace('%', "%25");
            let bytes = name.len() + usize::from(!names.is_empty());
            if bytes > room {
                break;
            }
            room -= bytes;
            names.push(name);
        }
        names.reverse();
        if !names.is_empty() {
            self.push("agents", &names.join("|"));
        }
    }
}

/// Names with the stages they most likely had: the last at the last step.
fn staged(names: Vec<Arc<str>>, depth: u8) -> Vec<DegradedAgent> {
    let known = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let before = u32::from(depth).saturating_sub(known);
    let agents = names.into_iter().zip(before + 1..);
    agents
        .map(|(name, stage)| DegradedAgent { stage, name })
        .collect()
}

/// The value of a member: visible ASCII without the signs that end or quote one
/// (`baggage-octet`), percent-encoded.
fn decode_value(value: &str) -> Option<String> {
    let fits = |b: u8| matches!(b, 0x21 | 0x23..=0x2B | 0x2D..=0x3A | 0x3C..=0x5B | 0x5D..=0x7E);
    if !value.bytes().all(fits) {
        return None;
    }
    decode(value)
}

/// Something, not too long, and nothing that could break a line of a log.
fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A whole number as people write it: digits, no sign, no zero in front.
fn read_number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

fn read_depth(text: &str) -> Option<u8> {
    let depth = u8::try_from(read_number(text)?).ok()?;
    (depth <= DEEPEST).then_some(depth)
}

fn read_since(text: &str) -> Option<u64> {
    read_number(text).filter(|since| *since <= LATEST)
}

/// Longest share, bytes: what doubles need to be told apart.
const LONGEST_SHARE: usize = 17;

/// A share as people write it: 0 to 1, with a fraction or without, no sign, no exponent. We
/// write two digits behind the point; others write what they like.
fn read_share(text: &str) -> Option<f64> {
    let is_number = match text.split_once('.') {
        None => matches!(text, "0" | "1"),
        Some((whole, fraction)) => {
            matches!(whole, "0" | "1")
                && !fraction.is_empty()
                && fraction.bytes().all(|b| b.is_ascii_digit())
        }
    };
    let share = (is_number && text.len() <= LONGEST_SHARE).then(|| text.parse().ok());
    share.flatten().filter(|share| *share <= 1.0)
}

/// Rounded down, so that what is degraded never reads as if it were not.
fn written_share(share: f64) -> String {
    // What was read from two digits must not lose one by being no exact binary.
    let hundredths = (share * 100.0 + 1e-6).floor() / 100.0;
    format!("{hundredths:.2}")
}

/// Names joined by `|`, each percent-encoded; one that is none, or one too many,
/// and it is no list.
fn read_agents(text: &str) -> Option<Vec<Arc<str>>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for name in text.split('|') {
        let name = decode(name).filter(|name| is_name(name))?;
        if names.len() == MOST_AGENTS || names.iter().any(|known| **known == name) {
            return None;
        }
        names.push(Arc::from(name));
    }
    Some(names)
}
