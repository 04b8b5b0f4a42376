#![doc = include_str!("../README.md")]

mod findings;
mod folder;
mod node;
mod place;
mod placeholder;
mod problem;
mod syntax;
mod table;
mod toml;
mod yaml;

pub use crate::findings::{Findings, nearest};
pub use crate::folder::{Document, Documents, Part, SourceFile, parse_all};
pub use crate::node::{Entry, Node, Table, Value};
pub use crate::place::{Place, Scope, locate_any};
pub use crate::problem::{Problem, Problems, Severity, report};
pub use crate::table::{Item, TableReader, assign};
