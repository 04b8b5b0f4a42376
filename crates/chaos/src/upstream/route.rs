//! Which dialect a request speaks, and what it asks for: its path tells.

use super::http::Head;
use crate::Dialect;
use crate::dialect::Addressed;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// An answer, whole or as a stream.
    Answer(Dialect, Addressed),
    /// A count of the request's tokens.
    Count(Dialect, Addressed),
    /// The list of models.
    Models(Dialect),
    /// Nothing that is served here.
    Unknown(Dialect),
}

/// Reads the head of a request. `usual` is the dialect where the path does
/// not tell.
pub(super) fn route(head: &Head, usual: Dialect) -> Route {
    let path = head.path.as_str();
    match head.method.as_str() {
        "GET" if path.ends_with("/models") => Route::Models(of_list(head, usual)),
        "POST" if path.ends_with("/chat/completions") => {
            Route::Answer(usual.of_completions(), Addressed::default())
        }
        "POST" if path.ends_with("/messages") => {
            Route::Answer(Dialect::Anthropic, Addressed::default())
        }
        "POST" if path.ends_with("/messages/count_tokens") => {
            Route::Count(Dialect::Anthropic, Addressed::default())
        }
        "POST" => of_gemini(head).unwrap_or(Route::Unknown(usual)),
        _ => Route::Unknown(usual),
    }
}

/// All dialects have their models at the same path, but for the version.
fn of_list(head: &Head, usual: Dialect) -> Dialect {
    if head.headers.contains_key("anthropic-version") {
        Dialect::Anthropic
    } else if head.headers.contains_key("x-goog-api-key")
        || head.path.starts_with("/v1beta/")
        || value(&head.query, "key").is_some()
    {
        Dialect::Gemini
    } else {
        usual
    }
}

/// `…/models/{model}:{method}`, or any other collection in its place.
fn of_gemini(head: &Head) -> Option<Route> {
    let (resource, method) = head.path.rsplit_once(':')?;
    let model = match resource.rsplit_once("/models/") {
        Some((_, model)) => model,
        // A collection of its own: all that follows the version.
        None => resource.strip_prefix('/')?.split_once('/')?.1,
    };
    let mut to = Addressed {
        model: unescaped(model),
        ..Addressed::default()
    };
    match method {
        "generateContent" => {}
        "streamGenerateContent" => {
            to.stream = true;
            to.array = value(&head.query, "alt") != Some("sse");
        }
        "countTokens" => return Some(Route::Count(Dialect::Gemini, to)),
        _ => return None,
    }
    Some(Route::Answer(Dialect::Gemini, to))
}

/// The value of a parameter of the query.
fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// Text of a path, its escapes undone; as it is where they are none.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next(), rest.next()].map(|d| char::from(d.unwrap_or(b'.')));
            match (digits[0].to_digit(16), digits[1].to_digit(16)) {
                (Some(high), Some(low)) => bytes.extend(u8::try_from(high * 16 + low)),
                _ => return text.to_owned(),
            }
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    fn of(request: &str, usual: Dialect) -> Route {
        let mut inbox = BytesMut::from(format!("{request}\r\n\r\n").as_str());
        let head = super::super::http::head(&mut inbox, 4_096)
            .unwrap()
            .unwrap();
        route(&head, usual)
    }

    fn gemini(model: &str, stream: bool, array: bool) -> Route {
        let model = model.to_owned();
        let to = Addressed {
            model,
            stream,
            array,
        };
        Route::Answer(Dialect::Gemini, to)
    }

    #[test]
    fn the_path_tells_the_dialect() {
        let usual = Dialect::OpenAi;
        let plain = |dialect| Route::Answer(dialect, Addressed::default());
        for (request, expected) in [
            ("POST /v1/chat/completions HTTP/1.1", plain(Dialect::OpenAi)),
            (
                "POST /openai/deployments/d/chat/completions?api-version=1 HTTP/1.1",
                plain(Dialect::OpenAi),
            ),
            (
                "POST /v1/messages?beta=true HTTP/1.1",
                plain(Dialect::Anthropic),
            ),
            (
                "POST /v1/messages/count_tokens HTTP/1.1",
                Route::Count(Dialect::Anthropic, Addressed::default()),
            ),
            (
                "POST /v1beta/models/m-1:generateContent HTTP/1.1",
                gemini("m-1", false, false),
            ),
            (
                "POST /v1/models/m:streamGenerateContent?alt=sse&key=x HTTP/1.1",
                gemini("m", true, false),
            ),
            (
                "POST /v1beta/models/m%20x:streamGenerateContent HTTP/1.1",
                gemini("m x", true, true),
            ),
            (
                "POST /v1beta/tunedModels/mine:generateContent HTTP/1.1",
                gemini("tunedModels/mine", false, false),
            ),
            (
                "POST /v1/projects/p/locations/l/publishers/google/models/m:generateContent HTTP/1.1",
                gemini("m", false, false),
            ),
            (
                "POST /v1/models/m:embedContent HTTP/1.1",
                Route::Unknown(usual),
            ),
            ("GET /v1/chat/completions HTTP/1.1", Route::Unknown(usual)),
            ("GET /v1/models HTTP/1.1", Route::Models(Dialect::OpenAi)),
            (
                "GET /v1beta/models HTTP/1.1",
                Route::Models(Dialect::Gemini),
            ),
            (
                "GET /v1/models?key=x HTTP/1.1",
                Route::Models(Dialect::Gemini),
            ),
            (
                "GET /v1/models HTTP/1.1\r\nAnthropic-Version: 2023-06-01",
                Route::Models(Dialect::Anthropic),
            ),
        ] {
            assert_eq!(of(request, usual), expected, "{request}");
        }
    }

    #[test]
    fn broken_escapes_stand_as_they_are() {
        assert_eq!(unescaped("a%zzb%"), "a%zzb%");
        assert_eq!(unescaped("%ff"), "%ff");
        assert_eq!(unescaped("%C3%A9"), "é");
    }
}
