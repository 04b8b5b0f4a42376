//! What a model is told in words.

use serde_json::Value;

/// The instructions that stand in for enforcement, or that show a schema to a model whose server
/// enforces it without showing it.
pub(crate) fn instructions(schema: &Value, description: Option<&str>) -> String {
    let about = description.map_or_else(String::new, |text| format!(" The value is: {text}."));
    format!(
        "Answer with one JSON value and nothing else: no explanation before or after it, no code \
         fence. The value must obey the JSON Schema below. Give every property that `required` \
         lists; leave a property that is not listed there out rather than inventing a value for \
         it. Use the exact spelling of property names and of `enum` values.{about}\n\nJSON \
         Schema:\n{schema}"
    )
}

/// The instructions for a JSON object of any shape.
pub(crate) const ANY_OBJECT: &str = "Answer with one JSON object and nothing else: no explanation \
     before or after it, no code fence.";

/// What the tool is for that carries an answer.
pub(crate) fn tool_description(description: Option<&str>) -> String {
    let about = description.map_or_else(String::new, |text| format!(" The answer is: {text}."));
    format!("Gives the answer. Call it once, with the whole answer as its arguments.{about}")
}
