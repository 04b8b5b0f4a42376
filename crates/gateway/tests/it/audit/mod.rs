//! The audit log of the gateway, and the commands that read it.

mod command;
mod killed;
mod process;
mod refused;
mod served;
mod stopped;
