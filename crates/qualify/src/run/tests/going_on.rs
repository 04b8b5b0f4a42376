//! Runs that are broken off, and go on.

use super::super::{RunError, Stop};
use super::world::{Scripted, World, items, read, right};
use crate::outcome::OutcomeKind;
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
        ["north/big 8 of 40", "south/small 8 of 40"]
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
