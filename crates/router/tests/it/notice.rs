//! A role's notice: in Meta, or behind plain text and nothing else.

use crate::tailoring::{Reply, Stage, answer, down, plain, says, stage};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Finish, Output, Part, ReasoningPart, StreamEvent, Tool,
    ToolCall, Usage,
};
use evenkeel_roster::NoticeIn;
use futures_util::StreamExt;

const NOTICE: &str = "Answered by a stand-in.";

fn noticed(reply: Reply, notice_in: NoticeIn) -> Stage {
    stage(vec![(down(), plain(0)), (reply, plain(1))], |p| {
        NOTICE.clone_into(&mut p.degraded.notice);
        p.degraded.notice_in = notice_in;
    })
}

fn always(response: ChatResponse) -> Reply {
    Box::new(move |_, _| Ok(response.clone()))
}

/// The text of a whole answer and of a stream to the same request; the stream's usage.
async fn texts(stage: &Stage, request: ChatRequest) -> (String, String, Option<Usage>) {
    let whole = stage.ask(request.clone()).await.unwrap();
    assert_eq!(whole.meta.notice.as_deref(), Some(NOTICE));
    let stream = stage
        .router
        .stream("agent", request, CallContext::default())
        .await;
    let stream = stream.unwrap();
    assert_eq!(stream.meta().notice.as_deref(), Some(NOTICE));
    let mut sum = evenkeel_core::Accumulator::default();
    for event in stream.collect::<Vec<_>>().await {
        sum.push(&event.unwrap());
    }
    let sum = sum.finish().unwrap();
    (whole.response.plain_text(), sum.plain_text(), sum.usage)
}

#[tokio::test(start_paused = true)]
async fn plain_text_ends_in_the_notice_and_its_usage_stays() {
    let usage = Usage {
        input: 7,
        output: 3,
        ..Usage::default()
    };
    for (parts, finish) in [
        (vec![Part::Text("The tide turns.".into())], Finish::Stop),
        (
            vec![Part::Text("The tide ".into()), Part::Text("turns.".into())],
            Finish::Length,
        ),
        (
            vec![
                Part::Reasoning(ReasoningPart {
                    text: "{hm}".into(),
                    ..ReasoningPart::default()
                }),
                Part::Text("The tide turns.".into()),
            ],
            Finish::StopSequence,
        ),
    ] {
        let mut response = answer(parts, finish);
        response.usage = Some(usage);
        let stage = noticed(always(response), NoticeIn::Text);
        let (whole, streamed, told) = texts(&stage, ChatRequest::user("q")).await;
        let expected = format!("The tide turns.\n\n{NOTICE}");
        assert_eq!((whole, streamed), (expected.clone(), expected));
        assert_eq!(told, Some(usage));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_parsed_gets_nothing_behind_it() {
    let json = ["{\"a\": 1}", " \n[1, 2]", "```json\n{}\n```"];
    for text in json {
        let stage = noticed(always(says(text)), NoticeIn::Text);
        let (whole, streamed, _) = texts(&stage, ChatRequest::user("q")).await;
        assert_eq!((whole.as_str(), streamed.as_str()), (text, text));
    }
    let object = ChatRequest {
        output: Output::JsonObject,
        ..ChatRequest::user("q")
    };
    let stage = noticed(always(says("{\"a\": 1}")), NoticeIn::Text);
    assert_eq!(texts(&stage, object).await.1, "{\"a\": 1}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_tools_and_refusals_get_nothing_behind_them() {
    let call = ToolCall {
        id: "c".into(),
        name: "look".into(),
        arguments: "{}".into(),
        ..ToolCall::default()
    };
    let calls = answer(
        vec![Part::Text("Let me look.".into()), Part::ToolCall(call)],
        Finish::ToolUse,
    );
    let request = ChatRequest {
        tools: vec![Tool {
            name: "look".into(),
            description: None,
            parameters: None,
            strict: None,
            extra: evenkeel_core::Extra::default(),
        }],
        ..ChatRequest::user("q")
    };
    let stage = noticed(always(calls), NoticeIn::Text);
    let (whole, streamed, _) = texts(&stage, request.clone()).await;
    assert_eq!(
        (whole.as_str(), streamed.as_str()),
        ("Let me look.", "Let me look.")
    );
    // The same request, answered in plain text.
    let stage = noticed(always(says("None to see.")), NoticeIn::Text);
    let (whole, streamed, _) = texts(&stage, request).await;
    assert_eq!(whole, format!("None to see.\n\n{NOTICE}"));
    assert_eq!(streamed, whole);
    let refused = answer(
        vec![
            Part::Text("No: ".into()),
            Part::Refusal("I may not.".into()),
        ],
        Finish::Refusal,
    );
    let stage = noticed(always(refused), NoticeIn::Text);
    assert_eq!(texts(&stage, ChatRequest::user("q")).await.0, "No: ");
}

#[tokio::test(start_paused = true)]
async fn by_default_it_is_in_meta_alone_and_the_primary_has_none() {
    let stage_in_meta = noticed(always(says("The tide turns.")), NoticeIn::Meta);
    let (whole, streamed, _) = texts(&stage_in_meta, ChatRequest::user("q")).await;
    assert_eq!(
        (whole.as_str(), streamed.as_str()),
        ("The tide turns.", "The tide turns.")
    );

    let healthy = stage(vec![(always(says("Ebb.")), plain(0))], |p| {
        NOTICE.clone_into(&mut p.degraded.notice);
        p.degraded.notice_in = NoticeIn::Text;
    });
    let got = healthy.ask(ChatRequest::user("q")).await.unwrap();
    assert_eq!(
        (got.meta.notice, got.response.plain_text().as_str()),
        (None, "Ebb.")
    );
    let stream = healthy
        .router
        .stream("agent", ChatRequest::user("q"), CallContext::default())
        .await;
    let events = stream.unwrap().collect::<Vec<_>>().await;
    let is_end = |e: &StreamEvent| *e == StreamEvent::End;
    assert!(events.last().unwrap().as_ref().is_ok_and(is_end));
}
