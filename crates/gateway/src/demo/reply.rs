//! Reading the gateway's answers as a client of the OpenAI wire format does.
//!
//! Written apart from the product's own decoder on purpose: what checks the
//! gateway must not share its mistakes.

use serde_json::Value;

/// The text of a whole answer.
pub(super) fn whole(body: &[u8]) -> Result<String, String> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|e| format!("the answer is no JSON: {e}"))?;
    let choice = &answer["choices"][0];
    if !choice["finish_reason"].is_string() {
        return Err("the answer has no finish_reason".to_owned());
    }
    match choice["message"]["content"].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err("the answer has no text".to_owned()),
    }
}

/// The text of a stream that ended as it should: a finish reason, then `[DONE]`.
pub(super) fn streamed(body: &[u8]) -> Result<String, String> {
    let body = std::str::from_utf8(body).map_err(|_| "the stream is not UTF-8".to_owned())?;
    let mut stream = Stream::default();
    for line in body.lines() {
        let Some(data) = line.strip_prefix("data:") else {
            continue;
        };
        stream.take(data.trim_start())?;
    }
    if !stream.done {
        return Err("the stream ended without [DONE]".to_owned());
    }
    if !stream.finished {
        return Err("the stream has no finish_reason".to_owned());
    }
    Ok(stream.text)
}

#[derive(Debug, Default)]
struct Stream {
    text: String,
    id: Option<String>,
    finished: bool,
    done: bool,
}

impl Stream {
    fn take(&mut self, data: &str) -> Result<(), String> {
        if self.done {
            return Err("the stream went on after [DONE]".to_owned());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|e| format!("a chunk is no JSON: {e}"))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(format!("the stream ended in an error: {error}"));
        }
        self.one_id(&chunk)?;
        let choice = &chunk["choices"][0];
        self.text
            .push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        self.finished |= choice["finish_reason"].is_string();
        Ok(())
    }

    /// A stream is one answer from its first chunk to its last.
    fn one_id(&mut self, chunk: &Value) -> Result<(), String> {
        let Some(id) = chunk["id"].as_str() else {
            return Err("a chunk has no id".to_owned());
        };
        match &self.id {
            None => self.id = Some(id.to_owned()),
            Some(first) if first == id => {}
            Some(first) => return Err(format!("the id changed from {first} to {id}")),
        }
        Ok(())
    }
}

/// The machine code of an error in OpenAI's form.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    Some(answer["error"]["code"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n";
    const TEXT: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t0 \"},\"finish_reason\":null}]}\n\n";
    const END: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

    fn stream(parts: &[&str]) -> Result<String, String> {
        streamed(parts.concat().as_bytes())
    }

    #[test]
    fn a_stream_gives_its_text_in_order() {
        let text = stream(&[": hello\n\n", START, TEXT, TEXT, END, "data: [DONE]\n\n"]);
        assert_eq!(text.unwrap(), "t0 t0 ");
    }

    #[test]
    fn a_stream_that_does_not_end_well_is_no_answer() {
        let done = "data: [DONE]\n\n";
        let error = "data: {\"error\":{\"code\":\"transient\",\"message\":\"reset\"}}\n\n";
        let other = "data: {\"id\":\"c2\",\"choices\":[]}\n\n";
        let bad: [(&[&str], &str); 6] = [
            (&[START, TEXT], "without [DONE]"),
            (&[START, TEXT, END], "without [DONE]"),
            (&[START, TEXT, done], "no finish_reason"),
            (&[START, TEXT, error, done], "in an error"),
            (&[START, TEXT, END, done, TEXT], "went on"),
            (&[START, TEXT, other], "from c1 to c2"),
        ];
        for (parts, seen) in bad {
            let error = stream(parts).unwrap_err();
            assert!(error.contains(seen), "{error}");
        }
    }

    #[test]
    fn a_whole_answer_needs_text_and_an_end() {
        let answer = |finish: &str| {
            format!(r#"{{"choices":[{{"message":{{"content":"hi"}},"finish_reason":{finish}}}]}}"#)
        };
        assert_eq!(whole(answer("\"stop\"").as_bytes()).unwrap(), "hi");
        assert!(whole(answer("null").as_bytes()).is_err());
        assert!(whole(b"<html>").is_err());
    }

    #[test]
    fn an_error_gives_its_code() {
        let body = br#"{"error":{"message":"no","type":"server_error","code":"roster_exhausted"}}"#;
        assert_eq!(error_code(body).as_deref(), Some("roster_exhausted"));
        assert_eq!(error_code(b"busy"), None);
    }
}
