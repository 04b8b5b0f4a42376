//! W3C trace contexts in and out, without the SDK's propagator.

use evenkeel_core::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use std::str::FromStr;

/// The span context that a `traceparent` and a `tracestate` name. None where the first is
/// not well-formed (W3C Trace Context, §3.2); a `tracestate` that is not is left out.
pub(crate) fn read(context: &TraceContext) -> Option<SpanContext> {
    let mut fields = context.traceparent.split('-');
    let (version, trace, span, flags) = (
        fields.next().filter(|f| is_hex(f, 2) && *f != "ff")?,
        fields.next().filter(|f| is_hex(f, 32))?,
        fields.next().filter(|f| is_hex(f, 16))?,
        fields.next().filter(|f| is_hex(f, 2))?,
    );
    // Only a version to come may have more.
    if version == "00" && fields.next().is_some() {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
        true,
        TraceState::from_str(&context.tracestate).unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

/// Whether a `traceparent` is well-formed, so that a call may be its child (W3C Trace
/// Context, §3.2). A `tracestate` that is not is left out and makes no difference.
pub fn is_trace_context(context: &TraceContext) -> bool {
    read(context).is_some()
}

fn is_hex(field: &str, length: usize) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    field.len() == length && field.bytes().all(digit)
}

/// The two headers that name `context`.
pub(crate) fn write(context: &SpanContext) -> TraceContext {
    let traceparent = format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        context.trace_flags() & TraceFlags::SAMPLED
    );
    TraceContext {
        traceparent: traceparent.into(),
        tracestate: context.trace_state().header().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(traceparent: &str, tracestate: &str) -> Option<SpanContext> {
        read(&TraceContext {
            traceparent: traceparent.into(),
            tracestate: tracestate.into(),
        })
    }

    #[test]
    fn what_was_read_is_written_again() {
        let context = of(PARENT, "vendor=x,other=y").unwrap();
        assert!(context.is_sampled() && context.is_remote());
        let written = write(&context);
        assert_eq!(&*written.traceparent, PARENT);
        assert_eq!(&*written.tracestate, "vendor=x,other=y");
        let unsampled = of(&PARENT.replace("-01", "-00"), "").unwrap();
        assert!(write(&unsampled).traceparent.ends_with("-00"));
    }

    #[test]
    fn a_forged_one_is_none() {
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert_eq!(of(bad, ""), None, "{bad}");
        }
        // A later version may have more behind what is known of this one.
        assert!(of(&format!("{}-more", PARENT.replacen("00", "01", 1)), "").is_some());
        // A state that cannot be read does not take the parent with it.
        let state = of(PARENT, "=,=,;;").unwrap();
        assert_eq!(state.trace_state().header(), "");
    }

    proptest! {
        #[test]
        fn nothing_panics(parent in ".{0,80}", state in ".{0,80}") {
            let _ = of(&parent, &state);
        }
    }
}
