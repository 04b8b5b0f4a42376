//! The audit log of the gateway, and the commands that read it.

mod command;
