//! The crate as its users see it: text in, a configuration or its problems out.

mod audit;
mod candidates;
mod cases;
mod chaos;
mod fixtures;
mod folder;
mod messages;
mod secrets;
mod stamp;
