//! Which model answered which request, when and why.

use super::fixture;
use evenkeel_otel_emit::audit::{AuditFilter, AuditId, AuditModel, RecordKind, Row, query};
use std::io;

fn found(filter: &AuditFilter) -> Vec<String> {
    let mut kinds = Vec::new();
    let example = fixture("audit-example.jsonl");
    let unreadable = query(example.as_bytes(), filter, |line, record| {
        assert_eq!(line.first(), Some(&b'{'));
        let seq = record.seq;
        kinds.push(format!("{seq} {}", record.text("kind").unwrap()));
        Ok::<_, io::Error>(())
    });
    assert_eq!(unreadable.unwrap(), 0);
    kinds
}

#[test]
fn records_are_found_by_request_role_model_kind_and_time() {
    let all = AuditFilter::default();
    assert_eq!(found(&all).len(), 10);
    let request = all.clone().of_request("req_01");
    assert_eq!(found(&request), ["2 substitution", "3 answer"]);
    assert_eq!(found(&all.clone().of_request("req_0")), [""; 0]);
    let mut role = all.clone().of_role("planner");
    role.kind = Some(RecordKind::Hedge);
    assert_eq!(found(&role), ["0 hedge"]);
    let model = |name: &str| AuditFilter::default().of_model(name);
    let haiku = found(&model("claude-haiku-4-5"));
    let expected = [
        "0 hedge",
        "2 substitution",
        "3 answer",
        "4 fallback",
        "8 restoration",
    ];
    assert_eq!(haiku, expected);
    assert_eq!(found(&model("claude")), [""; 0]);
    let time = |text: &str| Some(text.parse().unwrap());
    let mut noon = all;
    noon.since = time("2026-11-29T12:00:00Z");
    noon.until = time("2026-11-29T12:00:01.900Z");
    assert_eq!(found(&noon), ["1 latency_breach", "2 substitution"]);
}

#[test]
fn a_long_or_odd_id_is_found_as_records_have_it() {
    let long = "q".repeat(200);
    let odd = r#"a "b" \c"#;
    let mut chain = evenkeel_otel_emit::audit::Chain::new("gw", true);
    for id in [long.as_str(), odd] {
        let mut record = super::record(1);
        record.request_id = Some(evenkeel_otel_emit::audit::Text64::new(id));
        let line = chain.seal(record).unwrap().line;
        let mut count = 0;
        let filter = AuditFilter::default().of_request(id);
        query(&line[..], &filter, |_, _| {
            count += 1;
            Ok::<_, io::Error>(())
        })
        .unwrap();
        assert_eq!(count, 1, "{id}");
    }
}

#[test]
fn a_role_or_model_is_found_under_the_name_it_has_whatever_records_make_of_it() {
    let names = ["wr+iter", "plän er", &"long".repeat(50)];
    for name in names {
        let mut chain = evenkeel_otel_emit::audit::Chain::new("gw", true);
        let mut record = super::record(1);
        let id = AuditId::new(name).unwrap();
        assert_ne!(id.as_str(), name, "a record cannot hold it as it is");
        record.role = Some(id.clone());
        record.kind = RecordKind::Substitution;
        record.model = Some(AuditModel {
            primary: Some(id),
            ..AuditModel::default()
        });
        let line = chain.seal(record).unwrap().line;
        let count = |filter: AuditFilter| {
            let mut count = 0;
            let counted = |_: &[u8], _: &_| {
                count += 1;
                Ok::<_, io::Error>(())
            };
            query(&line[..], &filter, counted).unwrap();
            count
        };
        assert_eq!(count(AuditFilter::default().of_role(name)), 1, "{name}");
        assert_eq!(count(AuditFilter::default().of_model(name)), 1, "{name}");
        assert_eq!(count(AuditFilter::default().of_role("writer")), 0);
        assert_eq!(count(AuditFilter::default().of_role("")), 0);
    }
}

#[test]
fn a_row_says_what_happened() {
    let example = fixture("audit-example.jsonl");
    let mut table = vec![Row::head()];
    query(example.as_bytes(), &AuditFilter::default(), |_, record| {
        table.push(Row(record).to_string());
        Ok::<_, io::Error>(())
    })
    .unwrap();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn a_row_is_one_line_whatever_a_client_called_its_request() {
    let mut record = super::record(1);
    record.request_id = Some(evenkeel_otel_emit::audit::Text64::new("a\u{1b}[2J\nb"));
    let mut chain = evenkeel_otel_emit::audit::Chain::new("gw", true);
    let line = chain.seal(record).unwrap().line;
    let mut rows = Vec::new();
    query(&line[..], &AuditFilter::default(), |_, record| {
        rows.push(Row(record).to_string());
        Ok::<_, io::Error>(())
    })
    .unwrap();
    assert!(!rows[0].chars().any(char::is_control), "{rows:?}");
}
