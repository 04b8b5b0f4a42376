//! What providers say of their models, asked of them.

use crate::eol::ProviderWord;
use evenkeel::Settings;
use evenkeel_core::{Class, Failure, ModelId};
use evenkeel_providers::{Client, Lifecycle, ListedModel};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a provider may take to answer one question.
const ANSWER: Duration = Duration::from_secs(30);

/// Asks every configured provider for its models, all at once, and for those that its
/// list does not show by their names. Simulated providers say nothing of theirs.
///
/// Cancel safe: it only reads.
pub async fn ask_providers(
    settings: &Settings,
    models: impl IntoIterator<Item = ModelId>,
) -> Vec<(ModelId, ProviderWord)> {
    let mut by_provider: BTreeMap<String, BTreeSet<ModelId>> = BTreeMap::new();
    for model in models {
        let own = by_provider.entry(model.provider().to_owned()).or_default();
        own.insert(model);
    }
    let asked = by_provider
        .into_iter()
        .map(|(provider, models)| async move {
            match settings.client(&provider) {
                Ok(Some(client)) => ask(&client, models).await,
                Ok(None) => Vec::new(),
                Err(error) => {
                    let silent = ProviderWord::Silent(error.to_string());
                    models.into_iter().map(|m| (m, silent.clone())).collect()
                }
            }
        });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn ask(client: &Client, models: BTreeSet<ModelId>) -> Vec<(ModelId, ProviderWord)> {
    let listed = within(client.models(CONNECT)).await;
    let words = models.into_iter().map(|model| {
        let listed = &listed;
        async move {
            let word = match listed {
                Ok(all) => match all.iter().find(|listed| listed.id == model.model()) {
                    Some(found) => word(Ok(found.clone())),
                    None => word(within(client.describe(model.model(), CONNECT)).await),
                },
                Err(failure) => ProviderWord::Silent(failure.to_string()),
            };
            (model, word)
        }
    });
    join_all(words).await
}

async fn within<T>(answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = || {
        let message = format!("no answer within {} s", ANSWER.as_secs());
        Failure::new(Class::Timeout, message)
    };
    timeout(ANSWER, answer)
        .await
        .unwrap_or_else(|_| Err(late()))
}

fn word(said: Result<ListedModel, Failure>) -> ProviderWord {
    match said {
        Ok(model) if model.lifecycle == Lifecycle::Retired => ProviderWord::Gone,
        Ok(model) => ProviderWord::Served {
            last_day: model.last_day,
            is_deprecated: model.lifecycle == Lifecycle::Deprecated,
        },
        Err(failure) if failure.class == Class::ModelGone => ProviderWord::Gone,
        Err(failure) => ProviderWord::Silent(failure.to_string()),
    }
}
