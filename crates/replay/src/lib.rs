#![doc = include_str!("../README.md")]

mod event_line;
mod judge;
mod record;
mod request;
mod run;
mod scenario;
mod world;

pub use crate::event_line::event_line;
pub use crate::judge::{Check, Report, judge};
pub use crate::record::{End, Record, RequestRecord, Told};
pub use crate::run::{replay, run};
pub use crate::scenario::{
    Band, Change, Drill, EventExpectation, Expectations, ModelPlan, Output, PhaseExpectation,
    Scenario, Service, StepPattern, Traffic, TrailExpectation,
};
pub use crate::world::World;
