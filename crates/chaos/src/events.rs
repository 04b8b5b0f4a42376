//! A script's acts as what a client reads from them.

use crate::answer::Answer;
use crate::dialect::{StreamWriter, Wanted};
use crate::script::Act;
use evenkeel_core::{Failure, StreamEvent};
use evenkeel_providers::wire::EventDecoder;

/// Reads a stream as the product's client of its dialect does.
#[derive(Debug)]
pub(crate) struct Reader {
    writer: Box<dyn StreamWriter>,
    decoder: Box<dyn EventDecoder>,
}

impl Reader {
    pub(crate) fn new(answer: &Answer) -> Self {
        let format = answer.label.dialect.format();
        let wanted = Wanted {
            usage: true,
            array: false,
        };
        Self {
            writer: format.writer(answer, wanted),
            decoder: format.decoder(),
        }
    }

    /// What a client learns from an act.
    pub(crate) fn read(
        &mut self,
        act: &Act,
        answer: &Answer,
        sent: u32,
    ) -> Vec<Result<StreamEvent, Failure>> {
        let mut bytes = Vec::new();
        self.writer.write(act, answer, sent, &mut bytes);
        let mut read = self.decoder.push(&bytes);
        if act.ends_body() {
            read.extend(self.decoder.finish());
        }
        read
    }
}
