#![doc = include_str!("../README.md")]

pub mod audit;
mod reason;
