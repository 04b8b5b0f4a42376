//! A Rust type in, a value of it out.

use std::marker::PhantomData;

use evenkeel_core::Output;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;

use crate::adapted::Answer;
use crate::dialect::Dialect;
use crate::error::{AnswerError, AnswerFault};
use crate::tools::wire_name;

/// An output demand made from a type, and the reading of answers into it.
#[derive(Debug, Clone)]
pub struct TypedOutput<T> {
    output: Output,
    value: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + DeserializeOwned> Default for TypedOutput<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: JsonSchema + DeserializeOwned> TypedOutput<T> {
    /// The demand for a `T`, by its own schema (draft 2020-12, as it is deserialised).
    pub fn new() -> Self {
        let schema = SchemaSettings::draft2020_12()
            .into_generator()
            .into_root_schema_for::<T>();
        Self {
            output: Output::JsonSchema {
                name: wire_name(&T::schema_name(), Dialect::OpenAiStrict.rules()),
                schema: schema.to_value(),
                strict: true,
                description: None,
            },
            value: PhantomData,
        }
    }

    /// What to put into [`ChatRequest::output`](evenkeel_core::ChatRequest::output).
    pub fn output(&self) -> Output {
        self.output.clone()
    }

    /// The value of an answer; none where the model refused, or calls tools first.
    ///
    /// # Errors
    /// [`AnswerFault::Invalid`] where the type takes less than its schema says.
    pub fn value(&self, answer: &Answer) -> Result<Option<T>, AnswerError> {
        let Some(value) = &answer.value else {
            return Ok(None);
        };
        match T::deserialize(value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let message = format!("the answer does not fit its type: {error}");
                let text = answer.response.plain_text();
                Err(AnswerError::new(AnswerFault::Invalid, message, &text))
            }
        }
    }
}
