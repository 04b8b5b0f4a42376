#![doc = include_str!("../README.md")]

mod built_in;
mod refusal;

pub use crate::built_in::{BuiltIn, Fault, InvalidRule, JsonRule, PatternRule, pattern_of};
pub use crate::refusal::is_refusal;
