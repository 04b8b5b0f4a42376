//! Calls that found nothing left: kept as tickets, and asked again until
//! something answers.

mod keep;
mod mend;
mod worker;

pub(crate) use keep::Keep;
pub(crate) use worker::Worker;
