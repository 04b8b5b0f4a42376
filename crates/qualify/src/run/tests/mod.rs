//! Runs on the paused clock, over the real router.

mod asking;
mod going_on;
mod limits;
mod world;
