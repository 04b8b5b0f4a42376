//! What goes wrong, before it is said in a dialect's words.

use std::time::Duration;

/// A failure of a server, as a fault describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble<'a> {
    /// HTTP status, or the one it would have had in a stream.
    pub(crate) status: u16,
    /// `OpenAI`'s machine code for it, or a code to be passed on as it is.
    pub(crate) code: Option<&'a str>,
    pub(crate) message: &'a str,
    /// Wait that is asked for.
    pub(crate) wait: Option<Duration>,
}

/// What kind of failure it is, whatever a provider calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Key,
    Forbidden,
    Quota,
    NoModel,
    NoRoute,
    ContextWindow,
    ContentFilter,
    TooLarge,
    RateLimited,
    Overloaded,
    Timeout,
    Conflict,
    Unprocessable,
    Invalid,
    Server,
}

/// Codes that every dialect has words of its own for.
const CODES: [(&str, Kind); 8] = [
    ("invalid_api_key", Kind::Key),
    ("insufficient_quota", Kind::Quota),
    ("model_not_found", Kind::NoModel),
    ("context_length_exceeded", Kind::ContextWindow),
    ("content_filter", Kind::ContentFilter),
    ("rate_limit_exceeded", Kind::RateLimited),
    ("overloaded", Kind::Overloaded),
    ("not_found", Kind::NoRoute),
];

impl<'a> Trouble<'a> {
    pub(crate) const fn new(status: u16, code: Option<&'a str>, message: &'a str) -> Self {
        Self {
            status,
            code,
            message,
            wait: None,
        }
    }

    /// An error within an answer, whose status went out before.
    pub(crate) fn in_answer(code: Option<&'a str>, message: &'a str) -> Self {
        let status = match kind_of(code) {
            Some(Kind::Key) => 401,
            Some(Kind::Quota | Kind::RateLimited) => 429,
            Some(Kind::NoModel | Kind::NoRoute) => 404,
            Some(Kind::ContextWindow | Kind::ContentFilter) => 400,
            Some(Kind::Overloaded) => 503,
            _ => 500,
        };
        Self::new(status, code, message)
    }

    pub(crate) fn kind(&self) -> Kind {
        kind_of(self.code).unwrap_or(match self.status {
            401 => Kind::Key,
            402 => Kind::Quota,
            403 => Kind::Forbidden,
            404 => Kind::NoRoute,
            408 | 504 => Kind::Timeout,
            409 => Kind::Conflict,
            413 => Kind::TooLarge,
            422 => Kind::Unprocessable,
            429 => Kind::RateLimited,
            503 | 529 => Kind::Overloaded,
            500.. => Kind::Server,
            _ => Kind::Invalid,
        })
    }

    /// A code that no dialect has other words for.
    pub(crate) fn own_code(&self) -> Option<&'a str> {
        self.code.filter(|code| kind_of(Some(code)).is_none())
    }
}

fn kind_of(code: Option<&str>) -> Option<Kind> {
    let (_, kind) = CODES.iter().find(|(name, _)| Some(*name) == code)?;
    Some(*kind)
}
