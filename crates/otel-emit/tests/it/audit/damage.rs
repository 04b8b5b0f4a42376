//! Whatever is done to a log behind its back is found, and said of what it is.

use super::{config, faults, record, texts, verify, verify_by, write};
use evenkeel_otel_emit::audit::{AuditFilter, Chain, FaultKind, Hash, Start, Verifier, query};
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::num::NonZeroU64;
use std::sync::OnceLock;

/// Twelve records, four in each of three files.
fn log() -> &'static [String] {
    static LOG: OnceLock<Vec<String>> = OnceLock::new();
    LOG.get_or_init(|| {
        let mut chain = Chain::new("gw-1", true);
        let line = |n| String::from_utf8(chain.seal(record(n)).unwrap().line).unwrap();
        let lines: Vec<String> = (0..12).map(line).collect();
        lines.chunks(4).map(<[String]>::concat).collect()
    })
}

/// All lines, and how many files they are cut into again.
fn with_lines(change: impl FnOnce(&mut Vec<&'static str>)) -> Vec<String> {
    let mut lines: Vec<&str> = log()
        .iter()
        .flat_map(|file| file.split_inclusive('\n'))
        .collect();
    change(&mut lines);
    lines.chunks(4).map(<[&str]>::concat).collect()
}

#[test]
fn each_kind_of_damage_has_its_name_and_place() {
    assert_eq!(faults(log()), [""; 0]);
    let dropped = with_lines(|lines| {
        lines.remove(5);
    });
    assert_eq!(faults(&dropped), ["file1:2: missing"]);
    let swapped = with_lines(|lines| lines.swap(5, 6));
    assert_eq!(faults(&swapped), ["file1:3: out_of_order"]);
    let twice = with_lines(|lines| lines.insert(5, lines[5]));
    assert_eq!(faults(&twice), ["file1:3: duplicate"]);
    let earlier = with_lines(|lines| lines.insert(7, lines[2]));
    assert_eq!(faults(&earlier), ["file1:4: out_of_order"]);
    let strange = with_lines(|lines| lines.insert(5, "what?\n"));
    assert_eq!(faults(&strange), ["file1:2: garbled"]);
    let middle = [&log()[0], &log()[2]];
    assert_eq!(faults(&middle), ["file1:1: missing"]);
    let turned = [&log()[1], &log()[0], &log()[2]];
    assert_eq!(faults(&turned)[0], "file1:1: out_of_order");
    let mut changed = log().to_vec();
    changed[1] = changed[1].replace("\"r5\"", "\"r6\"");
    assert_eq!(faults(&changed), ["file1:2: changed"]);
    // Nothing that parsing would pass over.
    for (written, forged) in [
        (
            "\"request_id\":",
            "\"request_id\":\"forged\",\"request_id\":",
        ),
        ("\"request_id\":", "\"request_id\": "),
        ("{\"v\":1,", "{\"v\":1, "),
        ("\"kind\"", "\"k\\u0069nd\""),
        ("\"seq\":5,", "\"seq\":5.0,"),
        ("\"seq\":5,", "\"seq\":05,"),
        ("\"instance\":\"gw-1\"", "\"instance\":\"gw\\u002d1\""),
    ] {
        let mut forgery = log().to_vec();
        let lines: Vec<&str> = log()[1].split_inclusive('\n').collect();
        let line = lines[1].replacen(written, forged, 1);
        assert_ne!(line, lines[1], "{written} is in it");
        forgery[1] = [lines[0], &line, lines[2], lines[3]].concat();
        assert_eq!(
            faults(&forgery),
            ["file1:2: garbled", "file1:3: missing"],
            "{forged}"
        );
    }
    // A number that says how many.
    let many = with_lines(|lines| drop(lines.drain(3..8)));
    let verdict = verify(&many);
    let said = verdict.faults[0].kind.to_string();
    assert_eq!(said, "records 3 to 7 are missing");
}

/// Whoever can compute a hash cannot make the next record have it.
#[test]
fn a_record_that_was_made_anew_is_not_linked() {
    let mut chain = Chain::new("gw-1", true);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut forged = Vec::new();
    for n in 0..4 {
        if n == 1 {
            forged = chain.clone().seal(record(99)).unwrap().line;
        }
        lines.push(chain.seal(record(n)).unwrap().line);
    }
    lines[1] = forged;
    assert_eq!(faults(&[lines.concat()]), ["file0:3: unlinked"]);
}

#[test]
fn hashes_that_were_taken_off_are_missed() {
    let mut unchained = Chain::new("gw-1", false);
    let loose: Vec<u8> = (0..4)
        .flat_map(|n| unchained.seal(record(n)).unwrap().line)
        .collect();
    assert_eq!(
        faults(&[&loose]),
        ["file0:1: unchained"],
        "once, and not sound"
    );
    let allowing = || Verifier::new().allowing_unchained();
    let verdict = verify_by(allowing(), &[&loose]);
    assert!(verdict.is_sound(), "a log that never had any is one");
    assert_eq!(verdict.unchained, 4);
    let lines: Vec<&[u8]> = loose.split_inclusive(|b| *b == b'\n').collect();
    let verdict = verify_by(allowing(), &[[lines[0], lines[2]].concat()]);
    assert_eq!(
        verdict.faults[0].kind,
        FaultKind::Missing { from: 1, to: 1 }
    );
    let stripped = [log()[0].as_bytes(), &unchained_from(4)].concat();
    assert_eq!(faults(&[stripped])[0], "file0:5: unchained");
}

/// A record's own hash is right, and what it stands behind it does not say.
#[test]
fn a_record_with_a_hash_has_that_of_the_record_before_it_too() {
    let lines: Vec<&str> = log()[0].split_inclusive('\n').collect();
    let unlinked = |line: &str| {
        let mut members: Map<String, Value> = serde_json::from_str(line).unwrap();
        members.shift_remove("prev");
        members.shift_remove("hash");
        let hash = Hash::of(&serde_json_canonicalizer::to_vec(&members).unwrap());
        members.insert("hash".to_owned(), hash.to_string().into());
        format!("{}\n", Value::Object(members))
    };
    let (first, second, later) = (unlinked(lines[0]), unlinked(lines[1]), unlinked(lines[3]));
    assert_eq!(faults(&[&first]), ["file0:1: unlinked"]);
    assert_eq!(
        faults(&[[lines[0], &second].concat()]),
        ["file0:2: unlinked"]
    );
    assert_eq!(faults(&[&later]), ["file0:1: unlinked"]);
}

#[test]
fn what_a_later_version_wrote_is_called_that() {
    let later = with_lines(|lines| lines.insert(12, "{\"v\":2,\"seq\":12,\"new\":true}\n"));
    assert_eq!(faults(&later), ["file3:1: later_version"]);
}

fn unchained_from(first: u64) -> Vec<u8> {
    let mut chain = Chain::new("gw-1", false).after(first - 1, "0".repeat(64).parse().unwrap());
    chain.seal(record(first)).unwrap().line
}

/// Hashing that is turned on later holds what was before, too.
#[test]
fn a_chain_may_begin_within_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.is_chained = false;
    write(&config, 0..3);
    config.is_chained = true;
    write(&config, 3..5);
    let mut text = texts(folder.path()).concat();
    let allowing = || Verifier::new().allowing_unchained();
    assert!(verify_by(allowing(), &[&text]).is_sound());
    text = text.replace("\"r2\"", "\"r9\"");
    let verdict = verify_by(allowing(), &[&text]);
    assert_eq!(verdict.faults[0].kind, FaultKind::Unlinked { seq: 3 });
}

#[test]
fn a_torn_line_is_explained_where_the_next_record_follows() {
    let torn = |keep: usize| {
        let mut lines: Vec<String> = log().concat().lines().map(|l| format!("{l}\n")).collect();
        let cut = format!("{}\n", &lines[5][..keep]);
        lines.insert(5, cut);
        lines.concat()
    };
    for keep in [1, 2, 30, 200] {
        let verdict = verify(&[torn(keep)]);
        assert!(verdict.is_sound(), "{:?}", verdict.faults);
        assert_eq!(verdict.torn[0].to_string(), "file0:6");
    }
    // At the end it has no newline yet.
    let text = log().concat();
    let end = &text[..text.len() - 40];
    let verdict = verify(&[end]);
    assert!(verdict.is_sound());
    assert_eq!((verdict.records, verdict.torn.len()), (11, 1));
    // With one, somebody else has been there.
    assert_eq!(faults(&[format!("{end}\n")]), ["file0:12: cut"]);
    // In the place of a record it is a loss.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let cut = format!("{}{{\"v\":1\n{}", lines[..5].concat(), lines[6..].concat());
    assert_eq!(faults(&[cut]), ["file0:7: missing", "file0:6: cut"]);
}

#[test]
fn a_first_line_that_cannot_be_read_is_not_taken_for_a_later_start() {
    let text = log().concat();
    let cut = format!("{{\"v\"\n{}", text.split_once('\n').unwrap().1);
    assert_eq!(faults(&[cut]), ["file0:1: cut"]);
    let torn = format!("{{\"v\"\n{text}");
    let verdict = verify(&[torn]);
    assert!(verdict.is_sound());
    assert_eq!(verdict.start, Some(Start::Beginning));
}

#[test]
fn a_log_without_its_last_newline_is_whole() {
    let text = log().concat();
    let verdict = verify(&[text.trim_end()]);
    assert!(verdict.is_sound() && verdict.torn.is_empty());
    assert_eq!(verdict.records, 12);
}

#[test]
fn faults_are_counted_beyond_those_that_are_told() {
    let verdict = verify(&["?\n".repeat(5_000)]);
    assert_eq!((verdict.fault_count, verdict.faults.len()), (5_000, 100));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_changed_byte_is_found(at in any::<prop::sample::Index>(), flip in 1_u8..=255) {
        let mut bytes = log().concat().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let verdict = verify(&[&bytes]);
        prop_assert!(!verdict.is_sound(), "{at} ^ {flip}");
    }

    #[test]
    fn any_drop_or_swap_of_lines_is_found(
        one in 0_usize..12,
        other in 0_usize..12,
        swap in any::<bool>(),
    ) {
        let files = with_lines(|lines| {
            if swap {
                lines.swap(one, other);
            } else {
                lines.remove(one);
            }
        });
        // The first or the last that is gone leaves a log that begins later or ends earlier.
        let is_end = if swap { one == other } else { one == 0 || one == 11 };
        prop_assert_eq!(verify(&files).is_sound(), is_end);
    }

    #[test]
    fn no_bytes_are_too_much(pieces in proptest::collection::vec(piece(), 0..20)) {
        let bytes = pieces.concat();
        let verdict = verify(&[&bytes]);
        prop_assert!(verdict.faults.len() as u64 <= verdict.fault_count);
        let mut filter = AuditFilter::default().of_role("r");
        filter.since = Some(jiff::Timestamp::UNIX_EPOCH);
        for filter in [AuditFilter::default(), filter] {
            let show = |_: &[u8], record: &evenkeel_otel_emit::audit::Stored| {
                let _ = evenkeel_otel_emit::audit::Row(record).to_string();
                Ok::<_, std::io::Error>(())
            };
            query(&bytes[..], &filter, show).unwrap();
        }
    }
}

/// Bytes of any kind, and what nearly is a record.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let lines = log().concat();
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        Just(b"\n".to_vec()),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(move |(a, b)| {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.as_bytes()[a.min(b)..a.max(b)].to_vec()
        }),
        Just(br#"{"v":1,"seq":18446744073709551615,"kind":7,"model":[],"attempts":{}}"#.to_vec()),
        Just(
            br#"{"v":1,"seq":3,"gap":{"records":9e99},"time":"9999-99-99T99:99:99.999Z"}"#.to_vec()
        ),
        Just(b"[".repeat(10_000)),
    ]
}

#[test]
fn a_file_size_is_a_number_of_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.rotate_bytes = NonZeroU64::new(1_000).unwrap();
    write(&config, 0..9);
    let files = texts(folder.path());
    assert!(files.len() > 3, "{}", files.len());
    assert!(files.iter().all(|f| f.len() <= 1_000 && f.ends_with('\n')));
    assert_eq!(faults(&files), [""; 0]);
    for missing in 1..files.len() - 1 {
        let mut rest = files.clone();
        rest.remove(missing);
        assert_eq!(faults(&rest), [format!("file{missing}:1: missing")]);
    }
}
