//! `evenkeel demo`: two simulated models on loopback sockets, the gateway in
//! front of them, callers that send twenty requests a second, and something
//! that goes wrong. It needs no key and no network, and ends by itself.

mod lines;
mod load;
mod observe;
mod panel;
mod record;
mod reply;
mod report;
mod scenario;
mod settings;
mod stats;
mod verdict;
mod view;
mod words;
mod world;

use self::load::{Answer, Callers, Plan};
use self::observe::Tally;
use self::record::Record;
use self::scenario::{DRAIN, INTERVAL, Scenario, Stage};
use self::stats::{Answers, Moments};
use self::view::{Form, Snapshot, View};
use self::world::World;
use anyhow::Context;
use evenkeel_core::Event;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time between two drawings of the panel.
const FRAME: Duration = Duration::from_millis(200);
/// Drawings in a second.
const FRAMES_A_SECOND: u64 = 5;
/// What the live figures look back on.
const RECENT: Duration = Duration::from_secs(3);
/// Exit code of a program that was interrupted: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// What to show, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// What goes wrong
    #[arg(long, value_enum, default_value_t = Scenario::Spike)]
    scenario: Scenario,
    /// Print events as JSON lines and a summary as the last line, nothing else
    #[arg(long)]
    json: bool,
    /// Seed of the simulated models' latencies: another number, another draw
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Where the gateway listens, and shows `/metrics`; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Go on in good health after the report, until interrupted
    #[arg(long)]
    keep: bool,
}

/// Runs the demo on standard output. The exit code is 0 when the scenario
/// showed what it promises, 1 when it did not, 130 when it was interrupted.
///
/// Dropping the future ends the callers and the gateway with it; a terminal
/// may then be left without its cursor.
///
/// # Errors
/// When a socket cannot be opened or standard output cannot be written.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let form = if args.json { Form::Json } else { form() };
    let (observer, events) = observe::channel();
    let world = World::start(args.scenario, args.seed, args.listen, Arc::new(observer)).await?;
    let opening = report::opening(args.scenario, args.seed, world.address());
    let mut show = Show::new(args.scenario, world, events, form, io::stdout());
    show.view.text(&opening)?;
    let ended = show.play().await;
    // Whatever happened, the terminal is given back.
    show.view.close()?;
    match ended? {
        Ended::Played => show.judge(args.keep).await,
        Ended::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// A panel on a terminal that can draw one, else lines.
fn form() -> Form {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if io::stdout().is_terminal() && !dumb {
        Form::Panel {
            colours: !set("NO_COLOR"),
        }
    } else {
        Form::Lines
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Played,
    Interrupted,
}

/// A run under way.
struct Show<W> {
    scenario: Scenario,
    world: World,
    events: UnboundedReceiver<Event>,
    view: View<W>,
    stage: Stage,
    moments: Moments,
    answers: Answers,
    tally: Tally,
    stop: CancellationToken,
}

impl<W: Write> Show<W> {
    fn new(
        scenario: Scenario,
        world: World,
        events: UnboundedReceiver<Event>,
        form: Form,
        out: W,
    ) -> Self {
        let start = now();
        let models = [settings::PRIMARY, settings::FALLBACK];
        Self {
            scenario,
            world,
            events,
            view: View::new(out, form, scenario, start, models),
            stage: Stage::Healthy,
            moments: Moments {
                start,
                onset: None,
                healed: None,
            },
            answers: Answers::default(),
            tally: Tally::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Plays the scenario from its first request to its last answer.
    async fn play(&mut self) -> anyhow::Result<Ended> {
        self.view.stage(Stage::Healthy, self.moments.start)?;
        let (sender, mut answers) = mpsc::unbounded_channel();
        let callers = callers(&self.world);
        // A task of its own: what is drawn here never holds up a request.
        let mut tasks = JoinSet::new();
        tasks.spawn(callers.run(self.stop.clone(), sender));
        let mut interrupt = pin!(tokio::signal::ctrl_c());
        let mut frames = tokio::time::interval(FRAME);
        let mut drawn = 0;
        loop {
            let stage_ends = self.stage_ends();
            tokio::select! {
                answer = answers.recv() => match answer {
                    Some(answer) => self.answer(answer)?,
                    None => return Ok(Ended::Played),
                },
                Some(event) = self.events.recv() => self.event(&event)?,
                () = tokio::time::sleep_until(stage_ends.into()),
                    if !self.stop.is_cancelled() => self.advance()?,
                _ = frames.tick() => {
                    self.tick(drawn > 0 && drawn % FRAMES_A_SECOND == 0)?;
                    drawn += 1;
                }
                heard = &mut interrupt => {
                    heard.context("cannot listen for Ctrl-C")?;
                    return Ok(Ended::Interrupted);
                }
            }
        }
    }

    fn stage_ends(&self) -> Instant {
        let start = self.moments.start;
        let restored = self
            .tally
            .restored
            .filter(|at| self.moments.healed.is_some_and(|healed| *at >= healed))
            .map(|at| at.saturating_duration_since(start));
        start + self.scenario.course().ends(self.stage, restored)
    }

    /// The stage is over.
    fn advance(&mut self) -> io::Result<()> {
        let at = now();
        match self.stage {
            Stage::Healthy => {
                self.world.break_down(self.scenario);
                self.moments.onset = Some(at);
                self.stage = Stage::Fault;
            }
            Stage::Fault => {
                self.world.heal();
                self.moments.healed = Some(at);
                self.stage = Stage::Recovery;
            }
            Stage::Recovery => {
                self.stop.cancel();
                return Ok(());
            }
        }
        self.view.stage(self.stage, at)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.tally.count(event);
        self.view.event(event)
    }

    fn answer(&mut self, answer: Answer) -> io::Result<()> {
        self.view.answer(&answer)?;
        self.answers.push(answer);
        Ok(())
    }

    fn tick(&mut self, whole_second: bool) -> io::Result<()> {
        let at = now();
        let elapsed = at.saturating_duration_since(self.moments.start);
        let models = [settings::PRIMARY, settings::FALLBACK];
        // At the start there is less to look back on.
        let recent = |span: Duration| self.answers.recent(at, span.min(elapsed), &models);
        let snapshot = Snapshot {
            elapsed,
            stage: self.stage,
            requests: self.answers.len(),
            failed: self.answers.failed(),
            wrong: self.answers.wrong(),
            recent: recent(RECENT),
            second: recent(Duration::from_secs(1)),
        };
        self.view.tick(&snapshot, whole_second)
    }

    /// Says what was shown; with `keep` everything goes on then until it is interrupted.
    async fn judge(self, keep: bool) -> anyhow::Result<ExitCode> {
        let Self {
            scenario,
            world,
            mut events,
            mut view,
            moments,
            answers,
            mut tally,
            ..
        } = self;
        while let Ok(event) = events.try_recv() {
            tally.count(&event);
        }
        let record = Record {
            scenario,
            moments,
            answers,
            tally,
            upstream_calls: world.upstream_calls(),
            primary: settings::PRIMARY,
            fallback: settings::FALLBACK,
            patience: world.patience(),
        };
        let checks = verdict::checks(&record);
        view.text(&report::closing(&record, &checks))?;
        view.summary(&record.summary())?;
        if keep {
            linger(&world, events).await?;
        }
        world.stop().await;
        Ok(if checks.iter().all(|c| c.held) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The callers of a gateway.
fn callers(world: &World) -> Callers {
    Callers::new(Plan {
        url: world.url(),
        role: settings::ROLE,
        interval: INTERVAL,
        tokens: settings::TOKENS,
        drain: DRAIN,
    })
}

/// Goes on sending until it is interrupted; what comes of it is not kept.
async fn linger(world: &World, mut events: UnboundedReceiver<Event>) -> anyhow::Result<()> {
    let (sender, mut answers) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(callers(world).run(stop.clone(), sender));
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            Some(_) = answers.recv() => {}
            Some(_) = events.recv() => {}
            heard = &mut interrupt => {
                heard.context("cannot listen for Ctrl-C")?;
                break;
            }
        }
    }
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    Ok(())
}
