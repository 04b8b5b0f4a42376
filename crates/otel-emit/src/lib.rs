#![doc = include_str!("../README.md")]

pub mod audit;
pub mod metrics;
mod reason;
