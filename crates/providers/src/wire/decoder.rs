//! What the stream decoders of all wire formats have in common.

use evenkeel_core::{Failure, StreamEvent};
use std::fmt;

/// Turns the bytes of a stream into neutral events, in any split.
///
/// After [`StreamEvent::End`] or an `Err` nothing more comes.
pub trait EventDecoder: fmt::Debug + Send {
    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>>;

    /// Ends the stream: nothing more will come. Gives the end, or why there is none.
    fn finish(&mut self) -> Vec<Result<StreamEvent, Failure>>;

    /// Whether the answer is whole, though the stream may not have ended.
    fn is_complete(&self) -> bool;

    /// Whether the last event or the failure has been given.
    fn is_over(&self) -> bool;
}
