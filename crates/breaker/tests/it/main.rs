//! The rules of the breaker and of the budgets, from outside: numbers are those of the project's list of invariants.

mod budgets;
mod cases;
mod clock;
mod config;
mod cost;
mod counting;
mod half_open;
mod machine;
mod opening;
mod operator;
mod reference;
mod service;
mod states;
mod threads;
mod trace;
mod traced;
mod written;
