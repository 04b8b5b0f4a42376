//! Which mode a model is asked in, and what is put into the request.

use evenkeel_core::{
    ChatRequest, ChatResponse, Class, Effort, Extra, Failure, Finish, Message, Output, Part,
    Reasoning, Role, Tool, ToolCall, ToolChoice,
};
use evenkeel_schema_adapter::{
    AdaptError, Adapted, Adapter, AnswerFault, Dialect, Mode, ModelSupport, Reason, Repair,
};
use serde_json::{Value, json};

pub(crate) fn demand(schema: Value) -> ChatRequest {
    let mut request = ChatRequest::user("Pump 3 leaks");
    request.output = Output::JsonSchema {
        name: "ticket".to_owned(),
        schema,
        strict: true,
        description: None,
    };
    request
}

pub(crate) fn ticket() -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "severity": {"type": "string", "enum": ["low", "high"]},
            "owner": {"type": "string"}
        },
        "required": ["title", "severity"],
        "additionalProperties": false
    })
}

fn node() -> Value {
    json!({"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["value"]
    }}})
}

pub(crate) fn said(text: &str) -> ChatResponse {
    answer(vec![Part::Text(text.to_owned())], Finish::Stop)
}

pub(crate) fn answer(parts: Vec<Part>, finish: Finish) -> ChatResponse {
    ChatResponse {
        id: String::new(),
        model: String::new(),
        created: 0,
        parts,
        finish,
        usage: None,
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    }
}

pub(crate) fn called(name: &str, arguments: &str) -> ChatResponse {
    let call = ToolCall {
        id: "call_1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        extra: Extra::default(),
    };
    answer(vec![Part::ToolCall(call)], Finish::ToolUse)
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool {
        name: name.to_owned(),
        description: None,
        parameters: Some(parameters),
        strict: None,
        extra: Extra::default(),
    }
}

fn adapt(request: &ChatRequest, support: ModelSupport) -> (Adapted, ChatRequest) {
    let adapted = Adapter::new().adapt(request, support).unwrap();
    let mut sent = request.clone();
    adapted.apply(&mut sent);
    (adapted, sent)
}

#[test]
fn the_strongest_mode_that_the_model_has_is_used() {
    let request = demand(ticket());
    let support = ModelSupport::of(Dialect::OpenAiStrict);
    assert_eq!(adapt(&request, support).0.mode, Some(Mode::Native));
    let (adapted, sent) = adapt(&request, support.without_native());
    assert_eq!(adapted.mode, Some(Mode::ForcedTool));
    assert_eq!(adapted.passed_over, [(Mode::Native, Reason::NotDeclared)]);
    assert_eq!(
        sent.tool_choice,
        Some(ToolChoice::Named("ticket".to_owned()))
    );
    assert_eq!(
        (sent.output, sent.tools[0].strict),
        (Output::Text, Some(true))
    );
    assert_eq!(
        adapted.notes,
        ["output schema: asked for by a forced tool call, checked on return"]
    );
    let tool_less = ModelSupport {
        forced_tool: false,
        ..support.without_native()
    };
    let (adapted, sent) = adapt(&request, tool_less);
    assert_eq!(
        (adapted.mode, sent.output),
        (Some(Mode::JsonObject), Output::JsonObject)
    );
    let system = &sent.messages[0];
    assert_eq!(system.role, Role::System);
    assert!(system.plain_text().contains(&ticket().to_string()));
    let (adapted, sent) = adapt(&request, ModelSupport::PROMPT_ONLY);
    assert_eq!(
        (adapted.mode, sent.output),
        (Some(Mode::Prompt), Output::Text)
    );
}

#[test]
fn a_call_is_not_forced_over_own_tools_or_reasoning() {
    let support = ModelSupport::of(Dialect::Anthropic).without_native();
    let mut with_tools = demand(ticket());
    with_tools
        .tools
        .push(tool("look", json!({"type": "object"})));
    let mut reasoning = demand(ticket());
    reasoning.reasoning = Some(Reasoning {
        effort: Some(Effort::High),
        budget_tokens: None,
    });
    for (request, reason) in [
        (with_tools, Reason::OwnTools),
        (reasoning, Reason::Reasoning),
    ] {
        let (adapted, _) = adapt(&request, support);
        assert_eq!(adapted.mode, Some(Mode::Prompt));
        assert!(adapted.passed_over.contains(&(Mode::ForcedTool, reason)));
    }
}

#[test]
fn recursion_goes_where_it_can_be_said() {
    for (dialect, mode) in [
        (Dialect::OpenAiStrict, Mode::Native),
        (Dialect::Vllm, Mode::Native),
        // `next` is optional, which is the one way Gemini unrolls.
        (Dialect::Gemini, Mode::Native),
        (Dialect::GeminiOpenApi, Mode::Prompt),
        (Dialect::LlamaCpp, Mode::Prompt),
        (Dialect::Anthropic, Mode::Prompt),
    ] {
        let support = ModelSupport {
            json_object: false,
            ..ModelSupport::of(dialect)
        };
        let (adapted, _) = adapt(&demand(node()), support);
        assert_eq!(
            adapted.mode,
            Some(mode),
            "{dialect:?}: {:?}",
            adapted.passed_over
        );
        if mode == Mode::Prompt {
            assert!(matches!(
                &adapted.passed_over[0],
                (Mode::Native, Reason::Recursive { .. })
            ));
        }
        let read = adapted
            .back
            .read(said(r#"{"value":1,"next":{"value":2}}"#))
            .unwrap();
        assert_eq!(read.value, Some(json!({"value": 1, "next": {"value": 2}})));
    }
}

#[test]
fn a_model_without_any_mode_is_a_capability_gap_and_says_why() {
    let support = ModelSupport {
        json_object: false,
        forced_tool: false,
        prompt: false,
        ..ModelSupport::of(Dialect::Anthropic)
    };
    let error = Adapter::new().adapt(&demand(node()), support).unwrap_err();
    let AdaptError::Refused(refusal) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(refusal.reasons.len(), 4);
    let failure = Failure::from(error);
    assert_eq!(
        (failure.class, failure.capability_gap),
        (Class::BadRequest, true)
    );
    assert!(
        failure.message.contains("native: recursive at"),
        "{failure}"
    );
}

#[test]
fn instructions_follow_a_system_prompt_that_is_there() {
    let mut request = demand(ticket());
    request
        .messages
        .insert(0, Message::text(Role::System, "Be brief."));
    let (_, sent) = adapt(&request, ModelSupport::of(Dialect::LlamaCpp));
    assert_eq!(sent.messages.len(), 2);
    let text = sent.messages[0].plain_text();
    assert!(
        text.starts_with("Be brief.\n\nAnswer with one JSON value"),
        "{text}"
    );
    // OpenAI shows the schema to the model itself.
    let (_, sent) = adapt(&request, ModelSupport::of(Dialect::OpenAiStrict));
    assert_eq!(sent.messages, request.messages);
}

#[test]
fn an_answer_by_tool_call_becomes_text() {
    let (adapted, _) = adapt(
        &demand(ticket()),
        ModelSupport::of(Dialect::OpenAiStrict).without_native(),
    );
    let call = called("ticket", r#"{"title":"a","severity":"low","owner":null}"#);
    let read = adapted.back.read(call).unwrap();
    assert_eq!(read.response.finish, Finish::Stop);
    assert_eq!(
        read.response.plain_text(),
        r#"{"title":"a","severity":"low"}"#
    );
    assert_eq!(read.response.tool_calls().count(), 0);
    // Some models answer in text although a call was demanded.
    let read = adapted
        .back
        .read(said(r#"{"title":"a","severity":"low"}"#))
        .unwrap();
    assert_eq!(read.repairs, [Repair::TextForCall]);
    let error = adapted
        .back
        .read(called("ticket", r#"{"title":"#))
        .unwrap_err();
    assert_eq!(
        (error.fault, error.class()),
        (AnswerFault::BrokenArguments, Class::Malformed)
    );
    let error = adapted.back.read(called("other", "{}")).unwrap_err();
    assert_eq!(error.fault, AnswerFault::UnknownTool);
}

#[test]
fn text_that_needs_no_change_stays_as_the_model_wrote_it() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]});
    let (adapted, _) = adapt(&demand(schema), ModelSupport::of(Dialect::Vllm));
    let text = "{ \"n\": 1.0e2 }";
    assert_eq!(adapted.back.read(said(text)).unwrap().response, said(text));
}

#[test]
fn refusals_and_calls_to_own_tools_are_no_answers_and_no_failures() {
    let mut request = demand(ticket());
    let strict = Tool {
        strict: Some(true),
        ..tool(
            "find_pump",
            json!({"type": "object", "properties": {"n": {"type": "integer"}, "of": {"type": "string"}}, "required": ["n"]}),
        )
    };
    request.tools.push(strict);
    let (adapted, sent) = adapt(&request, ModelSupport::of(Dialect::OpenAiStrict));
    assert_eq!(
        sent.tools[0].parameters.as_ref().unwrap()["required"],
        json!(["n", "of"])
    );
    let read = adapted
        .back
        .read(called("find_pump", r#"{"n":3,"of":null}"#))
        .unwrap();
    assert_eq!(read.value, None);
    let call = read.response.tool_calls().next().unwrap();
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("find_pump", r#"{"n":3}"#)
    );
    let error = adapted
        .back
        .read(called("find_pump", r#"{"n":"3","of":null}"#))
        .unwrap_err();
    assert_eq!(
        (error.fault, error.pointer.as_deref()),
        (AnswerFault::Invalid, Some("/n"))
    );
    let error = adapted.back.read(called("made_up", "{}")).unwrap_err();
    assert_eq!(error.fault, AnswerFault::UnknownTool);
    let refusal = answer(vec![Part::Refusal("no".to_owned())], Finish::Refusal);
    assert_eq!(
        adapted.back.read(refusal.clone()).unwrap().response,
        refusal
    );
}

#[test]
fn an_answer_is_held_for_a_tool_only_where_its_schema_is_rewritten() {
    let mut request = ChatRequest::user("go");
    let parameters = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    request.tools.push(tool("extract", parameters));
    let support = ModelSupport::of(Dialect::OpenAiStrict);
    let (adapted, sent) = adapt(&request, support);
    assert_eq!((adapted.mode, adapted.holds_answer()), (None, false));
    assert_eq!(sent, request);
    request.tools[0].strict = Some(true);
    let (adapted, sent) = adapt(&request, support);
    assert_eq!((adapted.mode, adapted.holds_answer()), (None, true));
    assert_ne!(sent.tools, request.tools);
}

#[test]
fn an_answer_is_turned_back_where_the_model_does_not_say_it_as_the_caller_asked() {
    let turns = |schema: Value, support| {
        let mut request = ChatRequest::user("go");
        request.output = Output::JsonSchema {
            name: "s".to_owned(),
            schema,
            strict: true,
            description: None,
        };
        let (adapted, _) = adapt(&request, support);
        assert!(adapted.holds_answer());
        adapted.turns_answer()
    };
    let strict = || ModelSupport::of(Dialect::OpenAiStrict);
    let all = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let optional = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "additionalProperties": false});
    assert!(!turns(all.clone(), strict()));
    assert!(turns(optional, strict()), "absence goes out as null");
    assert!(
        turns(json!({"type": "string"}), strict()),
        "an object is put around it"
    );
    let mut prompt_only = strict();
    (prompt_only.json_schema, prompt_only.json_object) = (false, false);
    prompt_only.forced_tool = false;
    assert!(turns(all.clone(), prompt_only), "JSON among other text");
    prompt_only.forced_tool = true;
    assert!(turns(all, prompt_only), "JSON in a call");
}

#[test]
fn a_demand_for_any_object_is_checked_too() {
    let mut request = ChatRequest::user("go");
    request.output = Output::JsonObject;
    let (adapted, sent) = adapt(&request, ModelSupport::of(Dialect::OpenAiStrict));
    assert_eq!((sent.output, adapted.notes.len()), (Output::JsonObject, 0));
    assert!(adapted.back.read(said("[1]")).is_err());
    let (adapted, sent) = adapt(&request, ModelSupport::of(Dialect::Anthropic));
    assert_eq!(
        (adapted.mode, sent.output),
        (Some(Mode::Prompt), Output::Text)
    );
    assert_eq!(
        adapted
            .back
            .read(said("Sure: {}"))
            .unwrap()
            .response
            .plain_text(),
        "{}"
    );
}

#[test]
fn a_wrapped_answer_is_unwrapped_and_one_in_the_callers_terms_is_taken() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let (adapted, sent) = adapt(&demand(schema), ModelSupport::of(Dialect::OpenAiStrict));
    let Output::JsonSchema { schema, .. } = &sent.output else {
        panic!()
    };
    assert_eq!(schema["required"], json!(["value"]));
    for text in [r#"{"value":[1,2]}"#, "[1,2]"] {
        assert_eq!(
            adapted.back.read(said(text)).unwrap().response.plain_text(),
            "[1,2]"
        );
    }
}

#[test]
fn a_second_attempt_after_a_refused_schema_sends_the_core_alone() {
    // Case C088.
    let schema = json!({"type": "object", "properties": {"o": {"type": "object", "properties": {
        "s": {"type": "string", "pattern": "^a+$"}, "t": {"type": "string", "maxLength": 40}}}}});
    let wire = |support| match adapt(&demand(schema.clone()), support).1.output {
        Output::JsonSchema { schema, .. } => schema.to_string(),
        other => panic!("{other:?}"),
    };
    let first = wire(ModelSupport::of(Dialect::LlamaCpp));
    assert!(
        first.contains(r#""pattern":"^a+$""#) && first.contains(r#""maxLength":40"#),
        "{first}"
    );
    let second = wire(ModelSupport::of(Dialect::LlamaCpp).core());
    assert!(
        !second.contains(r#""pattern""#) && !second.contains(r#""maxLength""#),
        "{second}"
    );
    let (adapted, _) = adapt(
        &demand(schema.clone()),
        ModelSupport::of(Dialect::LlamaCpp).core(),
    );
    assert!(adapted.back.read(said(r#"{"o":{"s":"b"}}"#)).is_err());
}
