//! One demand, and how each model is asked for it.

use std::sync::Arc;

use evenkeel_core::{ChatRequest, Output};
use serde_json::Value;

use crate::adapted::{Adapted, Answering, Asking, Return};
use crate::build::build;
use crate::cache::Cache;
use crate::checker::Checker;
use crate::dialect::Dialect;
use crate::emit::{check_limits, emit};
use crate::error::{AdaptError, Reason, Refusal, SchemaError, SchemaFault};
use crate::kind::Kinds;
use crate::loss::{Loss, notes};
use crate::mode::{Mode, ModelSupport};
use crate::node::Tree;
use crate::prompt;
use crate::survey::{MOST_DEPTH, is_shallow};
use crate::tools::{ToolPlan, wire_name};

/// Schemas, compiled or rewritten, that an adapter remembers unless told otherwise.
const DEFAULT_CAPACITY: usize = 256;

/// A schema in the words of one dialect.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The schema to send.
    pub schema: Value,
    /// What it does not say, in the order of the caller's schema.
    pub losses: Vec<Loss>,
    pub(crate) tree: Arc<Tree>,
}

type CheckerResult = Result<Arc<Checker>, SchemaError>;
type RewriteResult = Result<Arc<Rewritten>, Reason>;

/// Adapts requests to models. It remembers what it has compiled and rewritten, by the schema's own
/// text; share one between all calls.
#[derive(Debug)]
pub struct Adapter {
    checkers: Cache<String, CheckerResult>,
    rewrites: Cache<(Dialect, bool, String), RewriteResult>,
}

impl Default for Adapter {
    fn default() -> Self {
        Self::new()
    }
}

impl Adapter {
    /// An adapter that remembers 256 schemas.
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// An adapter that remembers `capacity` compiled schemas and four times as many rewritten ones.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            checkers: Cache::new(capacity.max(1)),
            rewrites: Cache::new(capacity.max(1).saturating_mul(4)),
        }
    }

    /// The validator of `schema`.
    ///
    /// # Errors
    /// [`SchemaError`] as [`Checker::new`] does.
    pub fn checker(&self, schema: &Value) -> Result<Arc<Checker>, SchemaError> {
        let text = text_of(schema)?;
        self.checkers
            .get_or(&text, || Checker::new(schema).map(Arc::new))
    }

    /// `schema` in the words of `dialect`; with `core_only` in the core that every dialect enforces.
    ///
    /// # Errors
    /// [`AdaptError::Schema`] for a schema that cannot be used anywhere, [`AdaptError::Refused`]
    /// where the dialect cannot say it.
    pub fn rewrite(
        &self,
        schema: &Value,
        dialect: Dialect,
        core_only: bool,
    ) -> Result<Arc<Rewritten>, AdaptError> {
        let checker = self.checker(schema)?;
        self.rewritten(schema, &checker, dialect, core_only)
            .map_err(|reason| {
                let reasons = vec![(Mode::Native, reason)];
                AdaptError::Refused(Refusal { reasons })
            })
    }

    pub(crate) fn rewritten(
        &self,
        schema: &Value,
        checker: &Checker,
        dialect: Dialect,
        core_only: bool,
    ) -> RewriteResult {
        self.rewrites
            .get_or(&(dialect, core_only, schema.to_string()), || {
                let built = build(checker.plain(schema), checker.survey(), dialect, core_only)?;
                let rules = dialect.rules();
                let written = emit(&built.tree, rules);
                check_limits(&written, &rules.limits, dialect.as_str())?;
                Ok(Arc::new(Rewritten {
                    schema: written,
                    losses: built.losses,
                    tree: Arc::new(built.tree),
                }))
            })
    }

    /// How a model with `support` is asked for what `request` demands, and how its answer is read.
    ///
    /// The mode is the strongest that the model has and that can carry the demand, in the order of
    /// [`Mode`]: enforced by the provider; a forced tool call, which is trained for and often
    /// enforced in part; JSON mode; the prompt alone. `request` stays as it is;
    /// [`Adapted::apply`] changes a copy.
    ///
    /// # Errors
    /// [`AdaptError::Schema`] for a schema that cannot be used anywhere (the caller's fault),
    /// [`AdaptError::Refused`] where this model has no mode for it (the next rung may).
    pub fn adapt(
        &self,
        request: &ChatRequest,
        support: ModelSupport,
    ) -> Result<Adapted, AdaptError> {
        let tools = ToolPlan::new(self, &request.tools, support);
        let mut adapted = match &request.output {
            Output::Text => Adapted::plain(),
            Output::JsonObject => any_object(support)?,
            Output::JsonSchema { .. } => self.by_schema(request, support)?,
        };
        adapted.take_tools(tools);
        Ok(adapted)
    }

    fn by_schema(
        &self,
        request: &ChatRequest,
        support: ModelSupport,
    ) -> Result<Adapted, AdaptError> {
        let Output::JsonSchema { schema, .. } = &request.output else {
            return Ok(Adapted::plain());
        };
        let checker = self.checker(schema)?;
        let mut reasons = Vec::new();
        for mode in Mode::ALL {
            if !support.has(mode) {
                reasons.push((mode, Reason::NotDeclared));
                continue;
            }
            match self.by_mode(mode, request, support, &checker) {
                Ok(mut adapted) => {
                    adapted.passed_over = reasons;
                    return Ok(adapted);
                }
                Err(reason) => reasons.push((mode, reason)),
            }
        }
        Err(Refusal { reasons }.into())
    }

    fn by_mode(
        &self,
        mode: Mode,
        request: &ChatRequest,
        support: ModelSupport,
        checker: &Arc<Checker>,
    ) -> Result<Adapted, Reason> {
        let Output::JsonSchema {
            name,
            schema,
            strict,
            description,
        } = &request.output
        else {
            return Ok(Adapted::plain());
        };
        let schema = checker.plain(schema);
        let rules = support.dialect.rules();
        let told = || prompt::instructions(schema, description.as_deref());
        let (asking, answering, losses, tree) = match mode {
            Mode::Native => {
                let rewritten =
                    self.rewritten(schema, checker, support.dialect, support.core_only)?;
                let asking = Asking::Output {
                    output: Output::JsonSchema {
                        name: wire_name(name, rules),
                        schema: rewritten.schema.clone(),
                        strict: *strict || rules.all_required,
                        description: description.clone(),
                    },
                    instructions: (!rules.shown).then(told),
                };
                let tree = Arc::clone(&rewritten.tree);
                (
                    asking,
                    Answering::Text,
                    rewritten.losses.clone(),
                    Some(tree),
                )
            }
            Mode::ForcedTool => {
                may_force(request)?;
                let rewritten = self.for_tool(schema, checker, support)?;
                let tool = wire_name(name, rules);
                let asking = Asking::Tool {
                    tool: crate::tools::answer_tool(
                        &tool,
                        prompt::tool_description(description.as_deref()),
                        &rewritten,
                    ),
                };
                let (losses, tree) = (rewritten.losses, rewritten.tree);
                (asking, Answering::Call(tool), losses, tree)
            }
            Mode::JsonObject => {
                // JSON mode promises an object; a schema of another type would be at odds with it.
                if !roots(schema).admits(Kinds::OBJECT) {
                    return Err(Reason::Inexpressible {
                        what: "an answer that is no object",
                        pointer: String::new(),
                        dialect: support.dialect.as_str(),
                    });
                }
                let asking = Asking::Output {
                    output: Output::JsonObject,
                    instructions: Some(told()),
                };
                (asking, Answering::Text, Vec::new(), None)
            }
            Mode::Prompt => {
                let asking = Asking::Output {
                    output: Output::Text,
                    instructions: Some(told()),
                };
                (asking, Answering::Text, Vec::new(), None)
            }
        };
        let mut lines = Vec::new();
        lines.extend(note_of(mode));
        lines.extend(notes(&losses));
        Ok(Adapted {
            mode: Some(mode),
            notes: lines,
            losses,
            passed_over: Vec::new(),
            asking,
            tools: None,
            back: Return::new(answering, Some(Arc::clone(checker)), roots(schema), tree),
        })
    }

    /// The parameters of the tool that carries the answer: in the dialect's strict form, or, where
    /// that cannot say it and tools are not held to it, as guidance.
    fn for_tool(
        &self,
        schema: &Value,
        checker: &Checker,
        support: ModelSupport,
    ) -> Result<crate::tools::Parameters, Reason> {
        let rules = support.dialect.rules();
        let strict = self.rewritten(schema, checker, support.dialect, support.core_only);
        match strict {
            Ok(rewritten) if rewritten.schema.get("type").is_some_and(is_object) => {
                Ok(crate::tools::Parameters {
                    schema: rewritten.schema.clone(),
                    strict: rules.strict_tools,
                    losses: rewritten.losses.clone(),
                    tree: Some(Arc::clone(&rewritten.tree)),
                })
            }
            _ if rules.loose_tools && roots(schema) == Kinds::OBJECT => {
                Ok(crate::tools::Parameters {
                    schema: schema.clone(),
                    strict: false,
                    losses: Vec::new(),
                    tree: None,
                })
            }
            Err(reason) => Err(reason),
            Ok(_) => Err(Reason::Inexpressible {
                what: "an answer that is no object",
                pointer: String::new(),
                dialect: support.dialect.as_str(),
            }),
        }
    }
}

fn is_object(kind: &Value) -> bool {
    kind.as_str()
        .is_some_and(|name| name.eq_ignore_ascii_case("object"))
}

/// A schema's text, which is its key; refuses what is too deep to be written.
fn text_of(schema: &Value) -> Result<String, SchemaError> {
    if is_shallow(schema) {
        return Ok(schema.to_string());
    }
    let fault = SchemaFault::TooLarge {
        what: "levels",
        limit: MOST_DEPTH,
    };
    Err(SchemaError::new("", fault))
}

/// The types a schema says its values have; none said means any.
fn roots(schema: &Value) -> Kinds {
    schema.get("type").map_or(Kinds::NONE, Kinds::written)
}

/// Whether a call may be forced although the caller did not ask for one.
fn may_force(request: &ChatRequest) -> Result<(), Reason> {
    if !request.tools.is_empty() {
        return Err(Reason::OwnTools);
    }
    let reasons = request.reasoning.is_some_and(|r| {
        r.budget_tokens.is_some_and(|n| n > 0)
            || r.effort.is_some_and(|e| e != evenkeel_core::Effort::None)
    });
    if reasons {
        Err(Reason::Reasoning)
    } else {
        Ok(())
    }
}

fn note_of(mode: Mode) -> Option<String> {
    let how = match mode {
        Mode::Native => return None,
        Mode::ForcedTool => "asked for by a forced tool call, checked on return",
        Mode::JsonObject => {
            "asked for in JSON mode with the schema in the prompt, checked on return"
        }
        Mode::Prompt => "asked for in the prompt, checked on return",
    };
    Some(format!("output schema: {how}"))
}

/// A demand for an object of any shape.
fn any_object(support: ModelSupport) -> Result<Adapted, AdaptError> {
    let (mode, output) = if support.json_object {
        (Mode::JsonObject, Output::JsonObject)
    } else if support.prompt {
        (Mode::Prompt, Output::Text)
    } else {
        let reasons = [Mode::JsonObject, Mode::Prompt].map(|mode| (mode, Reason::NotDeclared));
        return Err(Refusal {
            reasons: reasons.to_vec(),
        }
        .into());
    };
    let told = mode == Mode::Prompt;
    Ok(Adapted {
        mode: Some(mode),
        notes: note_of(mode)
            .filter(|_| told)
            .map(|_| "output JSON: asked for in the prompt, checked on return".to_owned())
            .into_iter()
            .collect(),
        losses: Vec::new(),
        passed_over: Vec::new(),
        asking: Asking::Output {
            output,
            instructions: told.then(|| prompt::ANY_OBJECT.to_owned()),
        },
        tools: None,
        back: Return::new(Answering::Text, None, Kinds::OBJECT, None),
    })
}
