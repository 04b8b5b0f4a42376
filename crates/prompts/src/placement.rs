//! Where a role's prompt goes in a request that may have one of its own.

use std::borrow::Cow;

use evenkeel_core::{ChatRequest, Message, Role};

use crate::Rendered;

/// What a role's prompt does to the system prompt that the caller sends.
///
/// The caller's system prompt is its system and developer messages before the
/// first message of another kind; those in mid-conversation are never touched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// `replace`: it takes the place of the caller's. For agents whose prompt is
    /// kept in the registry; what an agent adds to it by itself is lost.
    Replace,
    /// `prepend`: it comes before the caller's. The default: agent frameworks send
    /// a system prompt of their own, with tool instructions and state that must
    /// not get lost, and a role's prompt that is never used would be no better.
    #[default]
    Prepend,
    /// `if_absent`: it is used only where the caller sends none.
    IfAbsent,
}

/// A request with the role's prompt in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<'a> {
    /// The request; borrowed where nothing had to be changed.
    pub request: Cow<'a, ChatRequest>,
    /// What the caller said and the model is not told, for the trail.
    pub adapted: Option<String>,
}

impl Rendered {
    /// Puts this prompt into a copy of `request`, as its role's [`SystemPrompt`] says.
    ///
    /// A caller that sends this very prompt already gets it once.
    pub fn put_into<'a>(&self, request: &'a ChatRequest) -> Placed<'a> {
        let own = own_prompt(request);
        let said = own.iter().any(|message| message.plain_text() == self.text);
        let replaced = match self.placement {
            SystemPrompt::Replace if said && own.len() == 1 => None,
            SystemPrompt::Prepend if said => None,
            SystemPrompt::IfAbsent if !own.is_empty() => None,
            SystemPrompt::Replace => Some(own.len()),
            SystemPrompt::Prepend | SystemPrompt::IfAbsent => Some(0),
        };
        let Some(replaced) = replaced else {
            return Placed {
                request: Cow::Borrowed(request),
                adapted: None,
            };
        };
        // A developer message before a system message is refused by some; two alike are not.
        let role = own.first().map_or(Role::System, |message| message.role);
        let mut request = request.clone();
        let prompt = Message::text(role, self.text.clone());
        request.messages.splice(..replaced, [prompt]);
        Placed {
            request: Cow::Owned(request),
            adapted: (replaced > 0).then(|| "system prompt: replaced by the role's own".to_owned()),
        }
    }
}

fn own_prompt(request: &ChatRequest) -> &[Message] {
    let is_prompt = |message: &Message| matches!(message.role, Role::System | Role::Developer);
    let end = request.messages.iter().position(|m| !is_prompt(m));
    &request.messages[..end.unwrap_or(request.messages.len())]
}
