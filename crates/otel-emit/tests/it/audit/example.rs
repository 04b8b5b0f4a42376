//! The example's known answers.

use super::{faults, fixture, schema, verify};
use evenkeel_otel_emit::audit::{Checkpoint, FaultKind, Hash, Start, Verifier};

const FIRST: &str = "e3ae746d081ccdfd91d6a5c7f5b8cdbed02169c3739710187f93f1e25fa12514";
const LAST: &str = "39fe3516e7e2b1f5568cb6682879c4427698c11667ce5ad9fe537b8847e83b6a";

fn hash(text: &str) -> Hash {
    text.parse().unwrap()
}

#[test]
fn the_example_s_hashes_are_reproduced() {
    let example = fixture("audit-example.jsonl");
    let verdict = verify(&[&example]);
    assert!(verdict.is_sound(), "{:?}", verdict.faults);
    assert_eq!(verdict.records, 10);
    assert_eq!(verdict.start, Some(Start::Beginning));
    let last = Checkpoint {
        seq: 9,
        hash: hash(LAST),
    };
    assert_eq!(verdict.last, Some(last));
    let first = example.lines().next().unwrap();
    assert_eq!(verify(&[first]).last.unwrap().hash, hash(FIRST));
    let schema = schema();
    for line in example.lines() {
        assert!(
            schema.is_valid(&serde_json::from_str(line).unwrap()),
            "{line}"
        );
    }
}

#[test]
fn the_example_cut_at_any_line_is_a_log_of_two_files() {
    let example = fixture("audit-example.jsonl");
    let ends = example.match_indices('\n').map(|(at, _)| at + 1);
    for end in ends {
        let (one, two) = example.split_at(end);
        let verdict = verify(&[one, two]);
        assert!(verdict.is_sound() && verdict.records == 10, "{end}");
        if two.is_empty() {
            continue;
        }
        // The later one alone says where it begins.
        let later = verify(&[two]);
        assert!(later.is_sound());
        let Some(Start::Later { seq, prev }) = later.start else {
            panic!("{:?}", later.start);
        };
        let before = verify(&[one]).last.unwrap();
        assert_eq!((seq, prev), (before.seq + 1, Some(before.hash)));
    }
}

#[test]
fn a_checkpoint_finds_a_log_that_was_cut_short() {
    let example = fixture("audit-example.jsonl");
    let checkpoint: Checkpoint = format!("9:{LAST}").parse().unwrap();
    let read = |text: &str, checkpoint| {
        let mut verifier = Verifier::with_checkpoint(checkpoint);
        verifier.read("log", text.as_bytes()).unwrap();
        let faults = verifier.finish().faults;
        faults.iter().map(|f| f.kind).collect::<Vec<_>>()
    };
    assert_eq!(read(&example, checkpoint), []);
    let lines: Vec<&str> = example.split_inclusive('\n').collect();
    let cut = lines[..9].concat();
    assert!(faults(&[&cut]).is_empty(), "a chain alone does not tell");
    assert_eq!(read(&cut, checkpoint), [FaultKind::NotReached { seq: 9 }]);
    let other = Checkpoint {
        hash: hash(FIRST),
        ..checkpoint
    };
    let expected = [FaultKind::OtherThanPublished { seq: 9 }];
    assert_eq!(read(&example, other), expected);
    for bad in ["9", "9:", "x:00", ":", "9:zz"] {
        assert!(bad.parse::<Checkpoint>().is_err(), "{bad}");
    }
}
