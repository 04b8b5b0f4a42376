//! From files to a router.

use crate::{RouterError, SettingsError, endpoints, files};
use evenkeel_core::{Clock, ModelId, Observer, SystemClock};
use evenkeel_prompts::{PromptSet, Sources};
use evenkeel_roster::{Config, Problem, SourceFile};
use evenkeel_router::Router;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration that has been read and found good.
///
/// This is the place where files and the environment are read; everything
/// below takes values.
#[derive(Debug)]
pub struct Settings {
    config: Config,
    prompts: PromptSet,
    warnings: Vec<Problem>,
    folder: PathBuf,
}

impl Settings {
    /// Reads a config folder, or one `evenkeel.toml` that holds all tables.
    /// `${NAME}` in it is taken from the process environment.
    ///
    /// # Errors
    /// [`SettingsError::Problems`] says everything that is wrong, with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let (sources, folder) = files::read(path.as_ref())?;
        let environment = |name: &str| {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one place that reads the environment"
            )]
            std::env::var(name).ok()
        };
        let now = jiff::Timestamp::try_from(SystemClock.now()).unwrap_or(jiff::Timestamp::MAX);
        let today = jiff::tz::Offset::UTC.to_datetime(now).date();
        let loaded = evenkeel_roster::load(&sources, &environment, today)?;
        let prompts = prompts(&sources, &loaded.config, &environment, &folder)?;
        Ok(Self {
            config: loaded.config,
            prompts,
            warnings: loaded.warnings,
            folder,
        })
    }

    /// What the files say.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The roles' prompts.
    pub fn prompts(&self) -> &PromptSet {
        &self.prompts
    }

    /// What someone should look at.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// A router over the configured providers that tells `observer` what
    /// happens. Must be called in a tokio runtime, which the prober runs in.
    ///
    /// # Errors
    /// A provider whose client cannot be made, or whatever the router refuses.
    pub fn router(&self, observer: Arc<dyn Observer>) -> Result<Router, RouterError> {
        let mut builder = Router::builder(&self.config)
            .observer(observer)
            .prompts(self.prompts.clone())
            .seed(fastrand::u64(..));
        for provider in self.config.providers.values() {
            let made = endpoints::provider(provider, &self.config, &self.folder)?;
            builder = builder.provider(&provider.name, made);
        }
        Ok(builder.build()?)
    }
}

/// The prompts of all roles, from the files beside the configuration.
fn prompts(
    sources: &[SourceFile],
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
) -> Result<PromptSet, SettingsError> {
    let roster = |role: &evenkeel_roster::RoleConfig| -> Vec<ModelId> {
        role.rungs.iter().map(|rung| rung.model.clone()).collect()
    };
    let rosters = config
        .roles
        .iter()
        .map(|(name, role)| (name.clone(), roster(role)))
        .collect::<BTreeMap<_, _>>();
    let prompts = evenkeel_prompts::load(&Sources {
        files: sources,
        rosters: &rosters,
        env,
        read: &|path| files::read_prompt(folder, path),
    })?;
    Ok(prompts)
}
