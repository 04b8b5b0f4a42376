//! How fast streams are read, each format beside plain `serde_json` over the
//! same payloads: the least that any reader has to do.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_core::{Delta, Extra, Finish, StreamEvent, Usage};
use evenkeel_providers::Server;
use evenkeel_providers::wire::{EventDecoder, anthropic, gemini, mistral, openai};
use std::hint::black_box;

/// Content events of a stream: a long answer of some 1,500 words.
const DELTAS: usize = 2_000;
/// Bytes of a read, as TLS records and sockets give them.
const READ: usize = 4 * 1024;

/// The events of an answer of usual pieces: four characters, the usual length
/// of a token.
fn events() -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Start {
        id: "chatcmpl-bench".into(),
        model: "bench-1".into(),
        created: 1_790_000_000,
        extra: Extra::default(),
    }];
    events.extend((0..DELTAS).map(|i| {
        let word = ["tide", " low", "est ", "and,"][i % 4];
        StreamEvent::Delta(Delta::Text(word.into()))
    }));
    events.push(StreamEvent::Finish(Finish::Stop));
    events.push(StreamEvent::Usage(Usage {
        input: 40,
        output: DELTAS as u64,
        ..Usage::default()
    }));
    events.push(StreamEvent::End);
    events
}

/// The stream of `events` as `write` puts them on the wire.
fn stream(mut write: impl FnMut(&StreamEvent, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events() {
        write(&event, &mut bytes);
    }
    bytes
}

/// The JSON of each `data:` line.
fn payloads(stream: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stream);
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| data.starts_with('{'))
        .map(str::to_owned)
        .collect()
}

fn read(stream: &[u8], mut decoder: Box<dyn EventDecoder>) -> usize {
    let mut events = 0;
    for bytes in stream.chunks(READ) {
        for event in decoder.push(bytes) {
            events += usize::from(event.is_ok());
        }
    }
    events + decoder.finish().len()
}

type Make = fn() -> Box<dyn EventDecoder>;

fn streams(c: &mut Criterion) {
    let mut openai_out = openai::StreamEncoder::new("chatcmpl-bench", 1_790_000_000, "m", true);
    let mut anthropic_out = anthropic::StreamEncoder::new("msg_bench", "m");
    let mut gemini_out = gemini::StreamEncoder::new("bench", "m");
    let mut mistral_out = mistral::StreamEncoder::new("bench", 1_790_000_000, "m");
    let formats: [(&str, Vec<u8>, Make); 4] = [
        (
            "openai",
            stream(|event, out| openai_out.write(event, out)),
            || Box::new(openai::StreamDecoder::new(Server::OpenAi)),
        ),
        (
            "anthropic",
            stream(|event, out| anthropic_out.write(event, out)),
            || Box::new(anthropic::StreamDecoder::new()),
        ),
        (
            "gemini",
            stream(|event, out| gemini_out.write(event, out)),
            || Box::new(gemini::StreamDecoder::new()),
        ),
        (
            "mistral",
            stream(|event, out| mistral_out.write(event, out)),
            || Box::new(mistral::StreamDecoder::new()),
        ),
    ];
    let mut group = c.benchmark_group("streams");
    for (name, bytes, make) in formats {
        assert!(read(&bytes, make()) > DELTAS, "{name} reads what it wrote");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_with_input(BenchmarkId::new("read", name), &bytes, |b, bytes| {
            b.iter(|| read(black_box(bytes), make()));
        });
        let payloads = payloads(&bytes);
        group.bench_with_input(BenchmarkId::new("serde_json", name), &payloads, |b, all| {
            b.iter(|| {
                let parsed = all
                    .iter()
                    .filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok());
                parsed.map(black_box).count()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, streams);
criterion_main!(benches);
