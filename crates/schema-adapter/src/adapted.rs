//! One request as a model is asked, and the way back for its answer.

use std::sync::Arc;

use evenkeel_core::{
    ChatRequest, ChatResponse, Finish, Message, Output, Part, ReasoningPart, Role, Tool, ToolChoice,
};
use serde_json::Value;

use crate::checker::Checker;
use crate::error::{AnswerError, AnswerFault, Reason};
use crate::kind::Kinds;
use crate::loss::Loss;
use crate::mode::Mode;
use crate::node::Tree;
use crate::read::{Reading, Repair, read};
use crate::tools::{ToolPlan, arguments};
use crate::undo::{changes_any, unwrap, without_absences};

/// How one model is asked for what a request demands.
#[derive(Debug, Clone)]
pub struct Adapted {
    /// How JSON is asked for; none where the request demands none.
    pub mode: Option<Mode>,
    /// Lines for `adapted`: what the model could not be told as asked.
    pub notes: Vec<String>,
    /// The same by place, for reports.
    pub losses: Vec<Loss>,
    /// Stronger modes, and why they were not used.
    pub passed_over: Vec<(Mode, Reason)>,
    /// Reads the model's answer.
    pub back: Return,
    pub(crate) asking: Asking,
    pub(crate) tools: Option<Arc<ToolPlan>>,
}

/// What is put into the request.
#[derive(Debug, Clone)]
pub(crate) enum Asking {
    /// Nothing.
    AsItIs,
    /// An output, and instructions where the model would not know the schema otherwise.
    Output {
        output: Output,
        instructions: Option<String>,
    },
    /// A tool that has to be called.
    Tool { tool: Tool },
}

impl Adapted {
    /// For a request that demands no JSON.
    pub(crate) fn plain() -> Self {
        Self {
            mode: None,
            notes: Vec::new(),
            losses: Vec::new(),
            passed_over: Vec::new(),
            back: Return::new(Answering::Anything, None, Kinds::NONE, None),
            asking: Asking::AsItIs,
            tools: None,
        }
    }

    pub(crate) fn take_tools(&mut self, plan: Option<ToolPlan>) {
        let Some(plan) = plan.map(Arc::new) else {
            return;
        };
        self.notes.extend(plan.notes.iter().cloned());
        self.back.tools = Some(Arc::clone(&plan));
        self.tools = Some(plan);
    }

    /// Whether the answer has to be held until it is whole and read: for a JSON demand always. Text
    /// and JSON of such a call are delivered by [`Return::read`] alone, so a stream commits on `full`.
    ///
    /// Likewise where tools go out with another schema: their calls have to be turned back first.
    pub fn holds_answer(&self) -> bool {
        self.mode.is_some() || self.tools.as_ref().is_some_and(|tools| tools.turns_calls())
    }

    /// Whether the answer may come in other terms than the caller's, so that nothing of it is of
    /// use before it has been read whole: JSON in a call or among other text, something around it,
    /// nulls that stand for absence, calls to tools with another schema.
    pub fn turns_answer(&self) -> bool {
        let as_it_is = match self.mode {
            None => true,
            Some(Mode::Native | Mode::JsonObject) => !self.back.undoes_any(),
            Some(Mode::ForcedTool | Mode::Prompt) => false,
        };
        !as_it_is || self.tools.as_ref().is_some_and(|tools| tools.turns_calls())
    }

    /// Changes `request`, a copy of the one that was adapted, into what the model is asked.
    pub fn apply(&self, request: &mut ChatRequest) {
        if let Some(tools) = &self.tools {
            tools.apply(request);
        }
        match &self.asking {
            Asking::AsItIs => {}
            Asking::Output {
                output,
                instructions,
            } => {
                request.output = output.clone();
                if let Some(text) = instructions {
                    instruct(&mut request.messages, text);
                }
            }
            Asking::Tool { tool } => {
                request.output = Output::Text;
                request.tool_choice = Some(ToolChoice::Named(tool.name.clone()));
                request.tools.push(tool.clone());
            }
        }
    }
}

/// Adds `text` to the system prompt, or makes it one.
fn instruct(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut() {
        Some(first) if matches!(first.role, Role::System | Role::Developer) => {
            let before = if first.parts.is_empty() { "" } else { "\n\n" };
            first.parts.push(Part::Text(format!("{before}{text}")));
        }
        _ => messages.insert(0, Message::text(Role::System, text)),
    }
}

/// Where the answer stands.
#[derive(Debug, Clone)]
pub(crate) enum Answering {
    /// Wherever: no JSON was asked for.
    Anything,
    /// In the text.
    Text,
    /// In the arguments of a call to this tool.
    Call(String),
}

/// The way back from a model's answer to one that obeys the caller's schema.
#[derive(Debug, Clone)]
pub struct Return {
    answering: Answering,
    checker: Option<Arc<Checker>>,
    /// Types the answer may have; empty: any.
    roots: Kinds,
    tree: Option<Arc<Tree>>,
    tools: Option<Arc<ToolPlan>>,
}

/// An answer as the caller gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer; JSON that was asked for is its one text part, and obeys the caller's schema.
    pub response: ChatResponse,
    /// That JSON; none where none was asked for, the model refused, or it calls tools first.
    pub value: Option<Value>,
    /// What was repaired, also in the response's `adapted`.
    pub repairs: Vec<Repair>,
}

impl Return {
    pub(crate) fn new(
        answering: Answering,
        checker: Option<Arc<Checker>>,
        roots: Kinds,
        tree: Option<Arc<Tree>>,
    ) -> Self {
        Self {
            answering,
            checker,
            roots,
            tree,
            tools: None,
        }
    }

    /// Whether the JSON of an answer may have to be changed on its way back.
    fn undoes_any(&self) -> bool {
        self.tree.as_deref().is_some_and(changes_any)
    }

    /// Reads a whole answer. Call it before [`ChatResponse::verify`], which knows of no repair.
    ///
    /// Refusals and filtered answers pass as they are. Calls to the caller's tools get their own
    /// names back and are checked against the tools' schemas.
    ///
    /// # Errors
    /// [`AnswerError`] where there is no JSON, several values, JSON that was cut, or that does not
    /// obey the schema; likewise for the arguments of calls.
    pub fn read(&self, mut response: ChatResponse) -> Result<Answer, AnswerError> {
        let cut = matches!(response.finish, Finish::Length | Finish::ContextWindow);
        let mut repairs = Vec::new();
        let said_no = matches!(response.finish, Finish::ContentFilter | Finish::Refusal)
            || response.parts.iter().any(|p| matches!(p, Part::Refusal(_)));
        if said_no {
            return Ok(Answer {
                response,
                value: None,
                repairs,
            });
        }
        self.read_calls(&mut response, cut, &mut repairs)?;
        let value = match &self.answering {
            Answering::Anything => None,
            Answering::Text if response.tool_calls().next().is_some() => None,
            Answering::Text => Some(self.read_text(&mut response, cut, &mut repairs)?),
            Answering::Call(tool) => {
                Some(self.read_call(&mut response, tool, cut, &mut repairs)?)
            }
        };
        let lines = repairs.iter().map(|r: &Repair| r.as_str().to_owned());
        response.adapted.extend(lines);
        Ok(Answer {
            response,
            value,
            repairs,
        })
    }

    fn read_calls(
        &self,
        response: &mut ChatResponse,
        cut: bool,
        repairs: &mut Vec<Repair>,
    ) -> Result<(), AnswerError> {
        let Some(tools) = &self.tools else {
            return Ok(());
        };
        for part in &mut response.parts {
            if let Part::ToolCall(call) = part {
                repairs.extend(tools.read(call, cut)?);
            }
        }
        Ok(())
    }

    fn read_text(
        &self,
        response: &mut ChatResponse,
        cut: bool,
        repairs: &mut Vec<Repair>,
    ) -> Result<Value, AnswerError> {
        let text = response.plain_text();
        let reading = read(&text, self.roots, cut)?;
        let (value, json, thinking, made) = self.turned_back(reading, &text)?;
        repairs.extend(made);
        if json != text || thinking.is_some() {
            put(response, json, thinking);
        }
        Ok(value)
    }

    fn read_call(
        &self,
        response: &mut ChatResponse,
        tool: &str,
        cut: bool,
        repairs: &mut Vec<Repair>,
    ) -> Result<Value, AnswerError> {
        let mut calls = response.tool_calls();
        let Some(call) = calls.next() else {
            drop(calls);
            repairs.push(Repair::TextForCall);
            return self.read_text(response, cut, repairs);
        };
        if let Some(other) = response.tool_calls().find(|call| call.name != tool) {
            let message = format!("a call to `{}`, expected one to `{tool}`", other.name);
            return Err(AnswerError::new(AnswerFault::UnknownTool, message, ""));
        }
        let text = call.arguments.clone();
        let reading = arguments(tool, if text.trim().is_empty() { "{}" } else { &text }, cut)?;
        for other in calls {
            let same = serde_json::from_str::<Value>(&other.arguments);
            if same.map_or(true, |value| value != reading.value) {
                let message = format!("several calls to `{tool}`, expected one");
                return Err(AnswerError::new(AnswerFault::Ambiguous, message, &text));
            }
        }
        let (value, json, _, made) = self.turned_back(reading, &text)?;
        repairs.extend(made);
        response
            .parts
            .retain(|part| !matches!(part, Part::ToolCall(_)));
        put(response, json, None);
        if response.finish == Finish::ToolUse {
            response.finish = Finish::Stop;
        }
        Ok(value)
    }

    /// The value in the caller's terms, its text, thinking before it, and the repairs.
    fn turned_back(
        &self,
        reading: Reading,
        text: &str,
    ) -> Result<(Value, String, Option<String>, Vec<Repair>), AnswerError> {
        let mut value = reading.value;
        let mut changed = false;
        if let Some(tree) = &self.tree {
            changed = unwrap(tree, &mut value);
            let as_written = value.clone();
            if without_absences(tree, &mut value) {
                // A model that is not held to the dialect may have meant a null as it stands.
                if !self.is_valid(&value) && self.is_valid(&as_written) {
                    value = as_written;
                } else {
                    changed = true;
                }
            }
        }
        self.check(&value, text)?;
        let json = match reading.verbatim {
            Some(verbatim) if !changed => verbatim,
            _ => value.to_string(),
        };
        Ok((value, json, reading.thinking, reading.repairs))
    }

    fn is_valid(&self, value: &Value) -> bool {
        self.checker
            .as_ref()
            .is_none_or(|checker| checker.is_valid(value))
    }

    fn check(&self, value: &Value, text: &str) -> Result<(), AnswerError> {
        match &self.checker {
            Some(checker) => checker.check(value).map_err(|mut error| {
                text.clone_into(&mut error.text);
                error
            }),
            None if value.is_object() || self.roots.is_empty() => Ok(()),
            None => {
                let message = "at the answer: expected a JSON object";
                Err(AnswerError::new(AnswerFault::Invalid, message, text).at(""))
            }
        }
    }
}

/// Puts `json` in the place of the text, and thinking before it.
fn put(response: &mut ChatResponse, json: String, thinking: Option<String>) {
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    let at = response
        .parts
        .iter()
        .position(is_text)
        .unwrap_or(response.parts.len());
    response.parts.retain(|part| !is_text(part));
    let at = at.min(response.parts.len());
    response.parts.insert(at, Part::Text(json));
    if let Some(text) = thinking.filter(|text| !text.is_empty()) {
        let part = ReasoningPart {
            text,
            ..ReasoningPart::default()
        };
        response.parts.insert(at, Part::Reasoning(part));
    }
}
