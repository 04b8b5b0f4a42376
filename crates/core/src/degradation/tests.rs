//! What holds of contexts, however they came about and whoever wrote the header.

use super::*;
use crate::Route;
use proptest::prelude::*;
use std::time::Duration;

fn meta(rung: usize, capability: f64, quality: f64) -> Meta {
    Meta {
        role: "planner".to_owned(),
        model_id: ModelId::new(&format!("p{rung}/m")).unwrap(),
        rung,
        route: Route::Fallback,
        primary: ModelId::new("p0/m").unwrap(),
        capability_score: capability,
        quality_ratio: quality,
        degraded: rung > 0,
        fallback_reason: (rung > 0).then_some("overloaded"),
        notice: None,
        attempts: 1,
        latency_added: Duration::ZERO,
        adapted: Vec::new(),
        cost_usd: None,
        added_cost_usd: None,
        cost_is_estimate: false,
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn of(header: &str) -> DegradationContext {
    Baggage::read([header]).degradation()
}

fn agents(context: &DegradationContext) -> Vec<&str> {
    context.degraded_agents().collect()
}

#[test]
fn a_degraded_step_adds_and_a_healthy_one_passes_on() {
    let mut context = DegradationContext::default();
    context.update("reader", &meta(0, 1.0, 1.0), at(10));
    assert_eq!(context, DegradationContext::default());
    context.update("planner", &meta(1, 0.9, 0.95), at(20));
    context.update("writer", &meta(2, 0.8, 0.9), at(30));
    let before = context.clone();
    context.update("checker", &meta(0, 1.0, 1.0), at(40));
    assert_eq!(context, before);
    assert_eq!(context.depth(), 2);
    assert_eq!(agents(&context), ["planner", "writer"]);
    assert!((context.min_capability_score() - 0.8).abs() < 1e-9);
    assert!((context.quality() - 0.855).abs() < 1e-9);
    assert_eq!(context.since(), Some(20));
    assert_eq!(context.active().unwrap().as_str(), "p2/m");
    assert_eq!(context.primary().unwrap().as_str(), "p0/m");
    assert_eq!(context.fallback_reason(), Some("overloaded"));
}

#[test]
fn an_agent_that_degrades_again_is_named_once_and_last() {
    let mut context = DegradationContext::default();
    for agent in ["a", "b", "a"] {
        context.update(agent, &meta(1, 0.9, 0.9), at(1));
    }
    assert_eq!(agents(&context), ["b", "a"]);
    assert_eq!(context.depth(), 3);
}

#[test]
fn the_header_is_written_as_agreed() {
    let mut context = DegradationContext::default();
    assert_eq!(Baggage::default().write(&context), None);
    context.set_workflow("run 7".into());
    assert_eq!(
        Baggage::default().write(&context).unwrap(),
        "evenkeel.degraded=0,evenkeel.workflow=run%207"
    );
    context.update("a|b;c", &meta(1, 0.9, 0.956), at(1_700_000_000));
    context.update("d_e.f:g/h@i-j", &meta(2, 0.85, 1.0), at(1_700_000_009));
    let header = Baggage::read([" vendor = x y;p=1 ,, "]).write(&context);
    assert_eq!(
        header.unwrap(),
        "evenkeel.degraded=1,evenkeel.depth=2,evenkeel.min_capability=0.85,evenkeel.quality=0.95,\
         evenkeel.since=1700000000,evenkeel.reason=overloaded,evenkeel.workflow=run%207,\
         evenkeel.role=planner,evenkeel.active=p2/m,evenkeel.primary=p0/m,\
         evenkeel.agents=a%257Cb%253Bc|d_e.f:g/h@i-j,vendor = x y;p=1"
    );
}

#[test]
fn an_agent_named_with_separators_comes_back_as_one_name() {
    let mut context = DegradationContext::default();
    context.update("a|b;c", &meta(1, 0.9, 0.9), at(1));
    let header = Baggage::default().write(&context).unwrap();
    assert_eq!(agents(&of(&header)), ["a|b;c"]);
    // A writer that encodes the bar too says the same.
    assert_eq!(agents(&of("evenkeel.agents=x%7Cy%257Cz")), ["x", "y|z"]);
}

#[test]
fn values_outside_the_grammar_are_dropped_and_not_bent() {
    for (key, good, bad) in [
        (
            "depth",
            &["0", "9", "99"][..],
            &["100", "-1", "+1", "07", "1.0", "", "9e9", "⁹"][..],
        ),
        (
            "min_capability",
            &[
                "0.00",
                "0.85",
                "1.00",
                "0",
                "1",
                "0.9",
                "0.855",
                "1.000",
                "0.123456789012345",
            ],
            &[
                "1.01",
                ".85",
                "1.",
                "00.5",
                "2",
                "NaN",
                "-0.10",
                "+0.1",
                "9e-1",
                "0.1234567890123456",
            ],
        ),
        (
            "since",
            &["0", "253402300799"],
            &["253402300800", "01", "x"],
        ),
        (
            "reason",
            &["latency_spike", "timeout", "manual"],
            &["because", "Timeout"],
        ),
        ("active", &["a/b", "a/b/c%20d"], &["a", "/b", "a/", "a%2"]),
        (
            "agents",
            &["a", "a|b"],
            &["", "a||b", "|", "a|a", "%250A", "a%25Z1", "%FF"],
        ),
        (
            "role",
            &["planner", "a%20b"],
            &["", "a b", "a\"b", "a\\b", "a%0Ab"],
        ),
    ] {
        let read = |value: &str| of(&format!("evenkeel.degraded=1,evenkeel.{key}={value}"));
        let nothing = of("evenkeel.degraded=1");
        for value in good {
            let same = read(value) == nothing;
            assert!(!same || *value == "0" || *value == "0.00", "{key}={value}");
        }
        for value in bad {
            assert_eq!(read(value), nothing, "{key}={value}");
        }
    }
    let many: Vec<String> = (0..17).map(|i| format!("a{i}")).collect();
    assert_eq!(
        agents(&of(&format!("evenkeel.agents={}", many[..16].join("|")))).len(),
        16
    );
    assert!(!of(&format!("evenkeel.agents={}", many.join("|"))).is_degraded());
    assert!(!of("evenkeel.degraded=true").is_degraded());
}

#[test]
fn what_a_degraded_context_leaves_out_is_taken_for_the_worst() {
    assert!(of("evenkeel.degraded=1").min_capability_score().abs() < 1e-9);
    assert!(
        (of("evenkeel.depth=1,evenkeel.quality=0.90").min_capability_score() - 0.9).abs() < 1e-9
    );
    // As a peer may write it that is not ours.
    for (written, quality) in [("0.9", 0.9), ("1", 1.0)] {
        let context = of(&format!("evenkeel.depth=1,evenkeel.quality={written}"));
        assert!((context.min_capability_score() - quality).abs() < 1e-9);
    }
    assert_eq!(of("evenkeel.agents=a").depth(), 1);
    assert!(of("evenkeel.degraded=0,evenkeel.depth=1").is_degraded());
    // And what is not degraded has lost nothing.
    let healthy = of("evenkeel.degraded=0,evenkeel.min_capability=0.10,evenkeel.role=x");
    assert_eq!(healthy, DegradationContext::default());
}

#[test]
fn the_last_of_two_members_counts_and_properties_do_not() {
    let context = of("evenkeel.depth=2,evenkeel.depth=3;ttl=4, evenkeel.depth = 5 ");
    assert_eq!(context.depth(), 5);
    assert_eq!(of("evenkeel.depth=3,evenkeel.depth=x").depth(), 3);
    assert_eq!(of("evenkeel.depth,evenkeel.,Evenkeel.depth=1").depth(), 0);
}

#[test]
fn a_header_past_the_limits_is_cut_where_they_say() {
    let member = |i: usize| format!("k{i}=v");
    let many: Vec<String> = (0..80).map(member).collect();
    let baggage = Baggage::read([many.join(",").as_str(), "evenkeel.depth=1"]);
    let written = baggage.write(&DegradationContext::default()).unwrap();
    assert_eq!(written, many[..64].join(","));
    let mut degraded = DegradationContext::default();
    degraded.update("a", &meta(1, 0.9, 0.9), at(1));
    let written = baggage.write(&degraded).unwrap();
    assert_eq!(written.split(',').count(), 64);
    assert!(written.ends_with(",k53=v"), "{written}");

    let long = format!("k={}", "v".repeat(LONGEST_FOREIGN));
    let baggage = Baggage::read([long.as_str()]);
    assert_eq!(
        baggage.write(&DegradationContext::default()).unwrap().len(),
        8_192
    );
    // Another's member that has no room beside ours is left out whole.
    assert!(!baggage.write(&degraded).unwrap().contains("k=v"));
    let longer = format!("{long}v");
    assert_eq!(Baggage::read([longer.as_str()]), Baggage::default());
    assert_eq!(Baggage::read([long.as_str(), "x=1"]), Baggage::default());
}

/// With `k=`, exactly as long as a header may be.
const LONGEST_FOREIGN: usize = 8_192 - 2;

#[test]
fn own_members_past_their_share_are_left_out() {
    let long = "x".repeat(250);
    let header = format!("evenkeel.role={long},evenkeel.workflow={long},evenkeel.depth=7,vendor=x");
    let context = of(&header);
    assert_eq!((context.depth(), context.role()), (0, None));
    assert_eq!(context.workflow(), None);
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_.:/@-]{1,12}",
        r"[ -~]{1,24}",
        r"\PC{1,40}",
        Just("a|b;c,d=\"e\" %41".to_owned()),
        ".{0,60}",
        "x{240,300}",
    ]
}

fn steps() -> impl Strategy<Value = Vec<(String, usize, f64, f64)>> {
    let step = (names(), 0..4_usize, 0.0..=1.0_f64, 0.0..=1.0_f64);
    prop::collection::vec(step, 0..24)
}

fn path(steps: &[(String, usize, f64, f64)], begun: u64) -> DegradationContext {
    let mut context = DegradationContext::default();
    for (i, (agent, rung, capability, quality)) in (begun..).zip(steps) {
        let mut meta = meta(*rung, *capability, *quality);
        meta.role.clone_from(agent);
        context.update(agent, &meta, at(i));
    }
    context
}

fn contexts() -> impl Strategy<Value = DegradationContext> {
    let workflow = prop::option::of(names());
    (steps(), 0..100_u64, workflow).prop_map(|(steps, begun, workflow)| {
        let mut context = path(&steps, begun);
        if let Some(workflow) = workflow {
            context.set_workflow(workflow.into());
        }
        context
    })
}

fn own_bytes(header: &str) -> usize {
    let own = header.split(',').filter(|m| m.starts_with("evenkeel."));
    own.map(|m| m.len() + 1).sum::<usize>().saturating_sub(1)
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(context in contexts()) {
        let header = Baggage::default().write(&context).unwrap_or_default();
        prop_assert!(own_bytes(&header) <= 512, "{}", header);
        prop_assert!(header.is_ascii());
        let read = of(&header);
        prop_assert_eq!(read.depth(), context.depth());
        prop_assert_eq!(read.since(), context.since());
        prop_assert_eq!(read.fallback_reason(), context.fallback_reason());
        let lost = context.min_capability_score() - read.min_capability_score();
        prop_assert!((-1e-6..0.01 + 1e-6).contains(&lost));
        let lost = context.quality() - read.quality();
        prop_assert!((-1e-6..0.01 + 1e-6).contains(&lost));
        // The newest agents that can be written at all.
        let named = |name: &&str| (1..=256).contains(&name.len()) && !name.chars().any(char::is_control);
        let all: Vec<&str> = context.degraded_agents().filter(named).collect();
        let kept = agents(&read);
        prop_assert!(all.ends_with(&kept), "{:?} of {:?}", kept, all);
        // And from then on nothing is lost.
        let again = Baggage::default().write(&read).unwrap_or_default();
        prop_assert_eq!(of(&again), read);
    }

    #[test]
    fn no_header_is_too_broken_to_read(
        headers in prop::collection::vec(prop_oneof![
            ".{0,200}",
            "((evenkeel\\.)?[a-z_]{0,9}[=;]?[ -~]{0,40},?){0,12}",
            "(evenkeel\\.(depth|agents|degraded|quality|min_capability|since|role|active|reason|workflow)=[%0-9A-Fa-f|./]{0,30},){0,9}",
        ], 0..5),
    ) {
        let baggage = Baggage::read(headers.iter().map(String::as_str));
        let context = baggage.degradation();
        prop_assert!(context.depth() <= 99);
        prop_assert!((0.0..=1.0).contains(&context.min_capability_score()));
        prop_assert!((0.0..=1.0).contains(&context.quality()));
        prop_assert!(context.degraded_agents().count() <= 16);
        prop_assert_eq!(context.is_degraded(), context.depth() > 0);
        if let Some(header) = baggage.write(&context) {
            prop_assert!(header.len() <= 8_192);
            prop_assert!(header.split(',').count() <= 64);
            // Whoever sent them: own members are never sent on as they came.
            let dropped = baggage.write(&DegradationContext::default()).unwrap_or_default();
            prop_assert_eq!(own_bytes(&dropped), 0);
        }
    }

    #[test]
    fn branches_merge_in_any_order_and_grouping(
        a in contexts(), b in contexts(), c in contexts(),
    ) {
        let merge = |x: &DegradationContext, y: &DegradationContext| {
            DegradationContext::merged([x, y])
        };
        prop_assert_eq!(merge(&a, &b), merge(&b, &a));
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        prop_assert_eq!(merge(&a, &a), a.clone());
        prop_assert_eq!(merge(&a, &DegradationContext::default()), a.clone());
        let all = DegradationContext::merged([&a, &b, &c]);
        prop_assert_eq!(all.depth(), a.depth().max(b.depth()).max(c.depth()));
        prop_assert_eq!(all.is_degraded(), [&a, &b, &c].iter().any(|x| x.is_degraded()));
        for branch in [&a, &b, &c] {
            prop_assert!(all.min_capability_score() <= branch.min_capability_score());
            prop_assert!(all.quality() <= branch.quality());
        }
    }

    /// Two branches of one path: what they share counts once.
    #[test]
    fn a_shared_beginning_counts_once(
        shared in steps(), left in steps(), right in steps(),
    ) {
        let walk = |own: &[(String, usize, f64, f64)]| {
            let steps: Vec<_> = shared.iter().chain(own).cloned().collect();
            path(&steps, 7)
        };
        let (left, right) = (walk(&left), walk(&right));
        let joined = DegradationContext::merged([&left, &right]);
        prop_assert_eq!(joined.depth(), left.depth().max(right.depth()));
        let before = path(&shared, 7);
        prop_assert_eq!(DegradationContext::merged([&joined, &before]), joined);
    }
}
