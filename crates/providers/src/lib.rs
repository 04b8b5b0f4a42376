#![doc = include_str!("../README.md")]

pub mod wire;

pub use crate::wire::Server;
