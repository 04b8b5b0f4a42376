//! What an endpoint says of the models that it serves.

use crate::client::Client;
use crate::dialect::Dialect;
use crate::wire::classify::{Reply, classify};
use crate::wire::{anthropic, gemini, openai};
use bytes::Bytes;
use evenkeel_core::{Class, Failure};
use http::{Method, Request, Uri};
use http_body_util::Full;
use jiff::civil::Date;
use serde_json::{Value, json};
use std::time::Duration;

/// Pages of a list that are read at most: a server that never ends one has no list.
const MOST_PAGES: usize = 64;

/// Where a model stands by its provider's own word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// The provider says nothing of it, or that all is well.
    #[default]
    Active,
    /// It is to be left.
    Deprecated,
    /// It is served no more.
    Retired,
}

/// What an endpoint says of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name, as requests use it.
    pub id: String,
    /// Where it stands.
    pub lifecycle: Lifecycle,
    /// The day on which it is switched off, where one is set. It may be moved.
    pub last_day: Option<Date>,
}

impl Client {
    /// Every model that the endpoint lists; each connection stands within `connect`.
    ///
    /// # Errors
    /// A classified failure. [`Class::BadRequest`] where the endpoint has no list that
    /// this client could ask for: Vertex AI, and Azure by deployments.
    pub async fn models(&self, connect: Duration) -> Result<Vec<ListedModel>, Failure> {
        let mut all = Vec::new();
        let mut next = None;
        for _ in 0..MOST_PAGES {
            let body = self.get(None, next.as_deref(), connect).await?;
            all.extend(self.read_listing(&body)?);
            next = self.next_page(&body);
            if next.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// What the endpoint says of one model, also by a name that its list does not show.
    ///
    /// # Errors
    /// A classified failure: [`Class::ModelGone`] where it is not there.
    pub async fn describe(&self, model: &str, connect: Duration) -> Result<ListedModel, Failure> {
        let body = self.get(Some(model), None, connect).await?;
        let malformed = |e: serde_json::Error| {
            Failure::new(Class::Malformed, "the model's description is not JSON").with_source(e)
        };
        let card: Value = serde_json::from_slice(&body).map_err(malformed)?;
        let list = match self.dialect() {
            Dialect::Gemini => json!({ "models": [card] }),
            Dialect::OpenAi | Dialect::Anthropic | Dialect::Mistral => json!({ "data": [card] }),
        };
        let listed = self.read_listing(list.to_string().as_bytes())?;
        let unnamed = || Failure::new(Class::Malformed, "the model's description names none");
        listed.into_iter().next().ok_or_else(unnamed)
    }

    async fn get(
        &self,
        model: Option<&str>,
        page: Option<&str>,
        connect: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let uri = self.listing_uri(model, page)?;
        let key = self.current_key()?;
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri;
        let options = self.model_options(model.unwrap_or_default());
        self.put_own_headers(request.headers_mut(), false, &options, key.as_ref())?;
        request.headers_mut().remove(http::header::CONTENT_TYPE);
        let (head, body) = self.send(&request, connect).await?.into_parts();
        if head.status.is_success() {
            return body
                .collect(&head.headers, self.limits().max_answer_bytes)
                .await;
        }
        let body = body.collect_error(&head.headers).await;
        let reply = Reply::new(self.server(), head.status.as_u16(), &body)
            .with_headers(&head.headers)
            .with_key(key.as_ref());
        Err(classify(&reply))
    }

    fn listing_uri(&self, model: Option<&str>, page: Option<&str>) -> Result<Uri, Failure> {
        let endpoint = self.endpoint();
        if endpoint.is_vertex() || endpoint.names_model() {
            let message = "this endpoint has no list of its models that could be asked for";
            return Err(Failure::new(Class::BadRequest, message));
        }
        let query = match (self.dialect(), model) {
            (Dialect::Anthropic, None) => Some(("limit=1000", "after_id")),
            (Dialect::Gemini, None) => Some(("pageSize=1000", "pageToken")),
            _ => None,
        };
        endpoint.listing(model, query, page)
    }

    fn next_page(&self, body: &[u8]) -> Option<String> {
        let list: Value = serde_json::from_slice(body).ok()?;
        let next = match self.dialect() {
            Dialect::Anthropic if list["has_more"] == true => list.get("last_id"),
            Dialect::Gemini => list.get("nextPageToken"),
            Dialect::OpenAi | Dialect::Anthropic | Dialect::Mistral => None,
        };
        let next = next?.as_str()?;
        (!next.is_empty()).then(|| next.to_owned())
    }

    fn read_listing(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        let reply = Reply::in_answer(self.server(), body);
        Ok(match self.dialect() {
            Dialect::OpenAi | Dialect::Mistral => {
                let models = openai::decode_models(&reply)?.into_iter();
                models.map(ListedModel::from).collect()
            }
            Dialect::Anthropic => {
                let models = anthropic::decode_models(&reply)?.into_iter();
                models.map(ListedModel::from).collect()
            }
            Dialect::Gemini => {
                let models = gemini::decode_models(&reply)?.into_iter();
                models.map(ListedModel::from).collect()
            }
        })
    }
}

impl From<openai::ModelEntry> for ListedModel {
    fn from(entry: openai::ModelEntry) -> Self {
        let last_day = entry.shutdown_date.as_deref().and_then(day);
        Self {
            id: entry.id,
            lifecycle: match last_day {
                Some(_) => Lifecycle::Deprecated,
                None => Lifecycle::Active,
            },
            last_day,
        }
    }
}

impl From<anthropic::ModelCard> for ListedModel {
    /// The lifecycle is the signal; a date that has passed is only overdue.
    fn from(card: anthropic::ModelCard) -> Self {
        Self {
            id: card.id,
            lifecycle: match card.lifecycle.as_deref() {
                Some("retired") => Lifecycle::Retired,
                Some("deprecated") => Lifecycle::Deprecated,
                _ => Lifecycle::Active,
            },
            last_day: card.retires_at.as_deref().and_then(day),
        }
    }
}

impl From<gemini::ModelLimits> for ListedModel {
    /// The list says that it is served; when it will not be is in answers alone.
    fn from(limits: gemini::ModelLimits) -> Self {
        Self {
            id: limits.model,
            lifecycle: Lifecycle::Active,
            last_day: None,
        }
    }
}

/// The day of a date that may have a time behind it.
fn day(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}
