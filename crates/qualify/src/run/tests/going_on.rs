//! Runs that are broken off, and go on.

use super::super::manifest::Manifest;
use super::super::{Plan, RunError, Stop};
use super::world::{ROLE, Scripted, World, failed, items, model, read, right};
use crate::outcome::OutcomeKind;
use evenkeel::Settings;
use evenkeel_core::{Class, Failure};
use evenkeel_roster::{Config, HttpValidatorConfig, RoleConfig, ValidatorConfig};
use evenkeel_validators::BuiltIn;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

fn slow() -> std::sync::Arc<Scripted> {
    Scripted::new(|_, question| right(question).after_ms(100))
}

/// Stops a run of `world` after so long.
async fn broken_off(world: &World, after: Duration) -> super::world::Heard {
    let stop = CancellationToken::new();
    let stops = async {
        sleep(after).await;
        stop.cancel();
    };
    let (heard, ()) = tokio::join!(world.put(false, stop.clone()), stops);
    heard.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_keeps_what_it_heard_and_asks_the_rest_only() {
    let (primary, candidate) = (slow(), slow());
    let world = World::new(&items(40), primary.clone(), candidate.clone());
    let began = Instant::now();
    let heard = broken_off(&world, Duration::from_millis(250)).await;
    assert!(
        began.elapsed() < Duration::from_millis(260),
        "it does not wait for answers"
    );
    assert_eq!(heard.ended.stopped, Some(Stop::Cancelled));
    assert_eq!(heard.outcomes.len(), 16, "two rounds of four at two models");
    assert_eq!(world.journal().lines().count(), 16);
    let rest = world.put(true, CancellationToken::new()).await.unwrap();
    assert_eq!(rest.ended.stopped, None);
    assert_eq!(rest.outcomes.len(), 80, "the first ones are told again");
    let questions = rest.outcomes.iter().map(|o| (o.candidate.clone(), o.index));
    assert_eq!(questions.collect::<BTreeSet<_>>().len(), 80);
    // Eight were given up in mid-answer and asked again.
    assert_eq!(primary.asked() + candidate.asked(), 88);
    assert_eq!(
        rest.shown.0[..2],
        [
            "north/big 8 of 40, score 1.000",
            "south/small 8 of 40, score 1.000"
        ]
    );
    assert!(
        rest.outcomes
            .iter()
            .all(|o| o.kind == OutcomeKind::Answered(1.0))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_broken_off_is_not_begun_anew_in_silence() {
    let world = World::new(&items(40), slow(), slow());
    broken_off(&world, Duration::from_millis(250)).await;
    let refused = world.put(false, CancellationToken::new()).await;
    let error = refused.err().expect("it is refused").to_string();
    assert!(
        error.contains("journal.jsonl") && error.contains("--resume"),
        "{error}"
    );
    assert_eq!(world.journal().lines().count(), 16, "nothing is lost");
    world.put(true, CancellationToken::new()).await.unwrap();
    let anew = world.put(false, CancellationToken::new()).await.unwrap();
    assert_eq!(anew.outcomes.len(), 80, "what is finished may be made anew");
    assert_eq!(world.journal().lines().count(), 80);
}

#[tokio::test(start_paused = true)]
async fn another_run_does_not_go_on_with_this_one() {
    let mut world = World::new(&items(40), slow(), slow());
    broken_off(&world, Duration::from_millis(250)).await;
    world.options.repeat = 2;
    world.options.seed = 9;
    let refused = world.put(true, CancellationToken::new()).await;
    let error = refused.err().expect("it is refused").to_string();
    assert!(
        error.contains("repeat was 1, is 2; seed was 1, is 9"),
        "{error}"
    );
    world.options.repeat = 1;
    world.options.seed = 1;
    std::fs::write(world.golden.path(), items(41)).unwrap();
    world.golden = std::sync::Arc::new(crate::Golden::open(world.golden.path()).unwrap());
    let refused = world.put(true, CancellationToken::new()).await;
    let error = refused.err().expect("it is refused").to_string();
    assert!(
        error.contains("dataset_sha256 was") && error.contains("items was 40, is 41"),
        "{error}"
    );
}

/// What someone does to a configuration.
type Change = Box<dyn Fn(&mut Config)>;

/// What decides about answers and scores, beside what is asked.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_asked_otherwise_is_another_run() {
    let judged = (0..40).fold(String::new(), |all, n| {
        all + &format!(
            r#"{{"id":"i{n}","prompt":"say {n}","scorers":[{{"kind":"judge","role":"critic","rubric":"good?"}}]}}"#
        ) + "\n"
    });
    let plain = World::new(&judged, slow(), slow());
    let mut base = plain.settings.config().clone();
    let mut critic = base.roles["clerk"].clone();
    critic.name = "critic".to_owned();
    base.roles.insert("critic".to_owned(), critic);
    let settings = |change: &dyn Fn(&mut Config)| {
        let mut config = base.clone();
        change(&mut config);
        plain.settings.with_config(config)
    };
    let manifest = |settings: &Settings| {
        let (golden, options) = (plain.golden.clone(), plain.options.clone());
        let asked = Plan::new(settings, ROLE, None, golden, options).unwrap();
        Manifest::of(&asked, settings, jiff::Timestamp::UNIX_EPOCH)
    };
    let before = manifest(&settings(&|_| {}));
    let of = |name: &'static str, what: fn(&mut RoleConfig)| {
        move |config: &mut Config| what(config.roles.get_mut(name).unwrap())
    };
    let changes: [(&str, Change); 7] = [
        (
            "judge critic was",
            Box::new(of("critic", |role| role.rungs.swap(0, 1))),
        ),
        (
            "judge critic was",
            Box::new(of("critic", |role| role.policy.retry.semantic = 3)),
        ),
        (
            "retry was",
            Box::new(of(ROLE, |role| role.policy.retry.malformed = 0)),
        ),
        (
            "validators was",
            Box::new(of(ROLE, |role| {
                role.policy
                    .validators
                    .push(ValidatorConfig::BuiltIn(BuiltIn::Refusal));
            })),
        ),
        (
            "validators was",
            Box::new(of(ROLE, |role| {
                let service = HttpValidatorConfig::new("http://validator.test/secret");
                role.policy.validators.push(ValidatorConfig::Http(service));
            })),
        ),
        (
            "model south/small was",
            Box::new(|config| {
                let provider = config.providers.get_mut("south").unwrap();
                provider.base_url = Some("https://other.test/v1".to_owned());
            }),
        ),
        (
            "model south/small was",
            Box::new(|config| {
                let model = config.models.values_mut().find(|m| m.id.model() == "small");
                model.unwrap().json_schema = Some(true);
            }),
        ),
    ];
    for (words, change) in changes {
        let found = before.differences(&manifest(&settings(&*change)));
        assert_eq!(found.len(), 1, "{words}: {found:?}");
        assert!(found[0].starts_with(words), "{found:?}");
        assert!(!found[0].contains("secret"), "{found:?}");
    }
    // What the gate makes of it is not what it is made of.
    let gate = manifest(&settings(&of(ROLE, |role| {
        role.policy.quality_budget = 0.5;
    })));
    assert_eq!(before.differences(&gate), [""; 0]);
}

/// What the primary could not be asked is asked again, and counts once.
#[tokio::test(start_paused = true)]
async fn a_primary_that_was_away_is_asked_again() {
    let away = |n: usize, question: &str| match n {
        5.. => failed(Failure::new(Class::Unreachable, "away")),
        _ => right(question),
    };
    let (primary, candidate) = (Scripted::new(away), Scripted::new(|_, q| right(q)));
    let mut world = World::new(&items(40), primary, candidate.clone());
    let heard = world.run().await;
    assert_eq!(heard.ended.halted.len(), 1);
    assert!(heard.of("north/big").len() >= 25);
    let back = Scripted::new(|_, question| right(question));
    world.models.insert(model("north/big"), back.clone());
    let rest = world.put(true, CancellationToken::new()).await.unwrap();
    assert_eq!(back.asked(), 35);
    assert_eq!(candidate.asked(), 40, "a candidate has to answer for it");
    assert_eq!(rest.of("north/big").len(), 40);
    assert!(
        rest.outcomes
            .iter()
            .all(|o| o.kind == OutcomeKind::Answered(1.0))
    );
}

#[tokio::test(start_paused = true)]
async fn there_has_to_be_a_run_to_go_on_with() {
    let world = World::new(&items(2), slow(), slow());
    let refused = world.put(true, CancellationToken::new()).await;
    assert!(matches!(refused, Err(RunError::NothingToResume { .. })));
    let heard = world.run().await;
    let again = world.put(true, CancellationToken::new()).await.unwrap();
    assert_eq!(again.outcomes, heard.outcomes, "nothing is left to ask");
}

#[tokio::test(start_paused = true)]
async fn files_that_are_none_of_ours_are_told_with_their_place() {
    let world = World::new(&items(2), slow(), slow());
    world.run().await;
    let manifest = world.report().manifest();
    let text = read(&manifest);
    std::fs::write(&manifest, text.replace("\"format\": 1", "\"format\": 7")).unwrap();
    let refused = world.put(true, CancellationToken::new()).await;
    let error = refused.err().expect("it is refused").to_string();
    assert!(error.contains("format is 7, expected 1"), "{error}");
    std::fs::write(&manifest, text).unwrap();
    let journal = world.journal().replace("south/small", "south/other");
    std::fs::write(world.report().journal(), journal).unwrap();
    let refused = world.put(true, CancellationToken::new()).await;
    let error = refused.err().expect("it is refused").to_string();
    assert!(
        error.contains("of `south/other` is no question of this run"),
        "{error}"
    );
}

/// Nobody is asked where nothing could be written down.
#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_written_to_is_told_before_anybody_is_asked() {
    let primary = slow();
    let world = World::new(&items(2), primary.clone(), slow());
    let report = world.folder.path().join("report");
    std::fs::write(&report, "a file, not a folder").unwrap();
    let error = world.put(false, CancellationToken::new()).await;
    let error = error.err().expect("it is refused").to_string();
    assert!(
        error.contains("report") && error.contains("cannot be written"),
        "{error}"
    );
    assert_eq!(primary.asked(), 0);
    std::fs::remove_file(&report).unwrap();
    std::fs::create_dir_all(world.report().journal()).unwrap();
    let error = world.put(false, CancellationToken::new()).await;
    let error = error.err().expect("it is refused").to_string();
    assert!(
        error.contains("journal.jsonl: cannot be written"),
        "{error}"
    );
    assert_eq!(primary.asked(), 0);
}
