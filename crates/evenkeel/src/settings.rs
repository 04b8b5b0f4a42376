//! From files to a router.

use crate::{RouterError, SettingsError, endpoints, files};
use evenkeel_core::{Clock, ModelId, Observer, PolicyStamp, SystemClock};
use evenkeel_prompts::{PromptSet, Sources, Unreadable};
use evenkeel_providers::Client;
use evenkeel_roster::{CandidatesByRole, Config, Dialect, Loaded, Problem, Problems, SourceFile};
use evenkeel_router::{Replaced, Router, RouterBuilder};
use jiff::civil::Date;
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What makes a configuration of its files.
type Load<'l> =
    &'l dyn Fn(&[SourceFile], &dyn Fn(&str) -> Option<String>, Date) -> Result<Loaded, Problems>;

/// A configuration that has been read and found good.
///
/// This is the place where files and the environment are read; everything
/// below takes values.
#[derive(Debug, Clone)]
pub struct Settings {
    config: Config,
    prompts: PromptSet,
    warnings: Vec<Problem>,
    folder: PathBuf,
    as_of: Date,
    hash: String,
    /// Of each provider with certificates of its own: what they were.
    certificates: BTreeMap<String, Vec<u8>>,
}

impl Settings {
    /// Reads a config folder, or one `evenkeel.toml` that holds all tables.
    /// `${NAME}` in it is taken from the process environment.
    ///
    /// # Errors
    /// [`SettingsError::Problems`] says everything that is wrong, with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        Self::read(path.as_ref(), &evenkeel_roster::load)
    }

    /// As [`Settings::load`], for measuring `candidates` instead of serving: see
    /// [`evenkeel_roster::load_to_measure`]. Their prompts are those that their roles
    /// would give them.
    ///
    /// # Errors
    /// As [`Settings::load`], and a role to be measured that is not there.
    pub fn load_to_measure(
        path: impl AsRef<Path>,
        candidates: &CandidatesByRole,
    ) -> Result<Self, SettingsError> {
        Self::read(path.as_ref(), &|files, env, today| {
            evenkeel_roster::load_to_measure(files, candidates, env, today)
        })
    }

    fn read(path: &Path, load: Load<'_>) -> Result<Self, SettingsError> {
        let (sources, folder) = files::read(path)?;
        let environment = |name: &str| {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one place that reads the environment"
            )]
            std::env::var(name).ok()
        };
        let now = jiff::Timestamp::try_from(SystemClock.now()).unwrap_or(jiff::Timestamp::MAX);
        let today = jiff::tz::Offset::UTC.to_datetime(now).date();
        let loaded = load(&sources, &environment, today)?;
        let contents = Contents::default();
        for file in &sources {
            let name = Path::new(&file.name).file_name().unwrap_or_default();
            contents.add(&name.to_string_lossy(), file.text.as_bytes());
        }
        let prompts = prompts(&sources, &loaded.config, &environment, &|path| {
            let bytes = files::read_prompt(&folder, path)?;
            contents.add(path, &bytes);
            Ok(bytes)
        })?;
        let mut config = loaded.config;
        let hash = contents.hash();
        // What calls are told to be answered by is what operators are shown.
        config.stamp = config.stamp.map(|stamp| {
            Arc::new(PolicyStamp {
                version: stamp.version.clone(),
                sha256: hash.as_str().into(),
            })
        });
        let providers = config.providers.values();
        let certificates =
            providers.filter_map(|p| Some((p.name.clone(), endpoints::certificates(p, &folder)?)));
        Ok(Self {
            certificates: certificates.collect(),
            config,
            prompts,
            warnings: loaded.warnings,
            folder,
            as_of: today,
            hash,
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

    /// SHA-256 of all files, prompts included, in hexadecimal: the same files
    /// have the same one, whatever the environment gives for their `${NAME}`s.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What someone should look at.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The day (UTC) as of which the configuration was checked: when it was read.
    pub fn as_of(&self) -> Date {
        self.as_of
    }

    /// The folder that paths in the configuration count from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Another configuration over the same files: with the same prompts and
    /// credentials, for a router that is asked for a part of what they say.
    #[must_use]
    pub fn with_config(&self, config: Config) -> Self {
        Self {
            config,
            ..self.clone()
        }
    }

    /// The folder of what must outlive the process (`server.state_dir`).
    pub fn state_dir(&self) -> Option<PathBuf> {
        let folder = self.config.server.state_dir.as_ref()?;
        Some(self.folder.join(folder))
    }

    /// The folder of the audit log, where one is written (`[audit]`).
    pub fn audit_dir(&self) -> Option<PathBuf> {
        let audit = self.config.audit.as_ref()?;
        Some(self.state_dir()?.join(&audit.path))
    }

    /// A router over the configured providers that tells `observer` what
    /// happens. Must be called in a tokio runtime, which the prober runs in.
    /// A configuration with roles that keep calls needs a place for them:
    /// [`Settings::router_builder`].
    ///
    /// # Errors
    /// A provider whose client cannot be made, or whatever the router refuses.
    pub fn router(&self, observer: Arc<dyn Observer>) -> Result<Router, RouterError> {
        Ok(self.router_builder(observer)?.build()?)
    }

    /// The same, before it is built: with the configured providers and prompts,
    /// without a ticket store.
    ///
    /// # Errors
    /// A provider whose client cannot be made.
    pub fn router_builder(
        &self,
        observer: Arc<dyn Observer>,
    ) -> Result<RouterBuilder<'_>, RouterError> {
        let mut builder = Router::builder(&self.config)
            .observer(observer)
            .prompts(self.prompts.clone())
            .seed(fastrand::u64(..));
        for provider in self.config.providers.values() {
            let made = endpoints::provider(provider, &self.config, &self.folder)?;
            builder = builder.provider(&provider.name, made);
        }
        Ok(builder)
    }

    /// The client of a configured provider, to ask for its models; none where it is
    /// simulated, or not configured.
    ///
    /// # Errors
    /// A client that cannot be made.
    pub fn client(&self, provider: &str) -> Result<Option<Client>, RouterError> {
        let config = self.config.providers.get(provider);
        let spoken = config.filter(|config| config.dialect != Dialect::Simulated);
        let made = spoken.map(|config| endpoints::client(config, &self.config, &self.folder));
        made.transpose()
    }

    /// Puts these settings in the place of those that `router` runs on, which
    /// are `before`. Clients, with their connections, whose settings are the
    /// same stay, and with them goes what is known of their health; see
    /// [`RouterBuilder::replace`](evenkeel_router::RouterBuilder::replace).
    ///
    /// # Errors
    /// As [`Settings::router`]; the router runs on unchanged then.
    pub fn replace(&self, before: &Self, router: &Router) -> Result<Replaced, RouterError> {
        let mut builder = Router::builder(&self.config).prompts(self.prompts.clone());
        for provider in self.config.providers.values() {
            let name = &provider.name;
            let old = before.config.providers.get(name);
            let same_client = |old| {
                endpoints::is_same_client((provider, &self.config), (old, &before.config))
                    && self.certificates.get(name) == before.certificates.get(name)
            };
            let kept = router.provider(name);
            let client = match kept.filter(|_| old.is_some_and(same_client)) {
                Some(kept) => kept,
                None => endpoints::provider(provider, &self.config, &self.folder)?,
            };
            builder = builder.provider(name, client);
            if old.is_some_and(|old| provider.has_endpoint_of(old)) {
                builder = builder.same_endpoint(name);
            }
        }
        Ok(builder.replace(router)?)
    }
}

/// The contents of files, as they are read.
#[derive(Default)]
struct Contents(RefCell<Sha256>);

impl Contents {
    fn add(&self, name: &str, bytes: &[u8]) {
        let mut hasher = self.0.borrow_mut();
        for part in [name.as_bytes(), bytes] {
            // With their lengths: no two lists of files are the same bytes.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }

    fn hash(self) -> String {
        let digest = self.0.into_inner().finalize();
        digest.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// The prompts of all roles, from the files beside the configuration.
fn prompts(
    sources: &[SourceFile],
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> Result<Vec<u8>, Unreadable>,
) -> Result<PromptSet, SettingsError> {
    let roster = |role: &evenkeel_roster::RoleConfig| -> Vec<ModelId> {
        let rungs = role.rungs.iter().map(|rung| &rung.model);
        rungs.chain(&role.policy.shadow.model).cloned().collect()
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
        read,
    })?;
    Ok(prompts)
}
