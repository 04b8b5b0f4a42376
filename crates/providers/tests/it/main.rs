//! The crate as its users see it: every fixture of `fixtures/wire`, round
//! trips, and a client against real sockets.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that finds its test set up wrongly may fail it"
)]

mod anthropic_bad_input;
mod anthropic_fixtures;
mod anthropic_parameters;
mod anthropic_requests;
mod anthropic_roundtrip;
mod anthropic_stream_writing;
mod anthropic_streams;
mod anthropic_tools;
mod client_access;
mod client_answers;
mod client_bounds;
mod client_faults;
mod client_own_words;
mod fixtures;
mod gemini_answers;
mod gemini_bad_input;
mod gemini_build;
mod gemini_elsewhere;
mod gemini_fixtures;
mod gemini_history;
mod gemini_requests;
mod gemini_roundtrip;
mod gemini_settings;
mod gemini_signatures;
mod gemini_streams;
mod gemini_tools;
mod listing;
mod openai_calls;
mod openai_streams;
mod server;
mod wire_cases;
mod wire_classes;
mod wire_details;
mod wire_digits;
mod wire_mistral;
mod wire_pairs;
mod wire_rate_limits;
mod wire_requests;
mod wire_roundtrip;
mod wire_streams;
