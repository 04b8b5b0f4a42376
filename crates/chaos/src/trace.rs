//! Request traces: when requests came and how many tokens they had.

use std::time::Duration;

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRow {
    /// When it came, since the first of the trace.
    pub at: Duration,
    /// Tokens of its input.
    pub input_tokens: u32,
    /// Tokens that were generated.
    pub output_tokens: u32,
}

/// A line that is no row of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the trace: `{text}` is not `YYYY-MM-DD HH:MM:SS.fraction,input tokens,output tokens`"
)]
pub struct InvalidTrace {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

/// Reads a trace in the form of Azure's public LLM inference traces: a heading,
/// then `TIMESTAMP,ContextTokens,GeneratedTokens`, oldest first, within one day.
///
/// # Errors
/// [`InvalidTrace`] names the first line that can't be read.
pub fn read_trace(csv: &str) -> Result<Vec<TraceRow>, InvalidTrace> {
    let mut rows: Vec<(f64, u32, u32)> = Vec::new();
    for (index, text) in csv.lines().enumerate().skip(1) {
        if text.trim().is_empty() {
            continue;
        }
        rows.push(row(text).ok_or_else(|| InvalidTrace {
            line: index + 1,
            text: text.chars().take(80).collect(),
        })?);
    }
    let first = rows.first().map_or(0.0, |(at, ..)| *at);
    let since = |at: f64| Duration::try_from_secs_f64(at - first).unwrap_or_default();
    let rows = rows
        .into_iter()
        .map(|(at, input_tokens, output_tokens)| TraceRow {
            at: since(at),
            input_tokens,
            output_tokens,
        });
    Ok(rows.collect())
}

fn row(text: &str) -> Option<(f64, u32, u32)> {
    let mut fields = text.trim().split(',');
    let clock = fields.next()?.split_once(' ')?.1;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let mut part = || parts.next()?.ok().filter(|p| p.is_finite());
    let at = part()? * 3_600.0 + part()? * 60.0 + part()?;
    let input = fields.next()?.parse().ok()?;
    let output = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((at, input, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_from_the_first() {
        let csv = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                   2023-11-16 18:15:46.5000000,374,44\r\n\
                   2023-11-16 18:16:50.7500000,396,109\r\n";
        let rows = read_trace(csv).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].at, Duration::ZERO);
        assert_eq!(rows[1].at, Duration::from_millis(64_250));
        assert_eq!((rows[1].input_tokens, rows[1].output_tokens), (396, 109));
    }

    #[test]
    fn a_bad_line_is_named() {
        let bad = read_trace("heading\n2023-11-16 18:15:46,1,2\n2023-11-16 18:15:46,x,2\n");
        assert_eq!(bad.unwrap_err().line, 3);
    }
}
