//! A Rust type in, a value out.

use evenkeel_core::ChatRequest;
use evenkeel_schema_adapter::{Adapter, AnswerFault, Dialect, ModelSupport, TypedOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::asking::said;

/// A ticket.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Ticket {
    title: String,
    severity: Severity,
    /// Who looks after it.
    owner: Option<String>,
    pumps: Vec<Pump>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Severity {
    Low,
    High,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Pump {
    number: u32,
    #[serde(default)]
    spare: bool,
}

#[test]
fn a_type_makes_the_demand_and_reads_the_answer() {
    let typed = TypedOutput::<Ticket>::new();
    let mut request = ChatRequest::user("Pump 3 leaks");
    request.output = typed.output();
    let expected = Ticket {
        title: "Leak".to_owned(),
        severity: Severity::High,
        owner: None,
        pumps: vec![Pump {
            number: 3,
            spare: false,
        }],
    };
    for dialect in Dialect::ALL {
        let adapted = Adapter::new()
            .adapt(&request, ModelSupport::of(dialect))
            .unwrap();
        for text in [
            r#"{"title":"Leak","severity":"high","owner":null,"pumps":[{"number":3,"spare":false}]}"#,
            r#"{"title":"Leak","severity":"high","pumps":[{"number":3}]}"#,
        ] {
            let answer = adapted.back.read(said(text)).unwrap();
            assert_eq!(
                typed.value(&answer).unwrap().as_ref(),
                Some(&expected),
                "{dialect:?}"
            );
        }
        // 2^32 does not fit; the schema's `minimum` refuses what is below, the type what is above.
        let large = r#"{"title":"Leak","severity":"high","pumps":[{"number":4294967296}]}"#;
        let error = adapted
            .back
            .read(said(large))
            .and_then(|a| typed.value(&a))
            .unwrap_err();
        assert_eq!(error.fault, AnswerFault::Invalid);
    }
}
