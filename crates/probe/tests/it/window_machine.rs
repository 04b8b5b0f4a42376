//! The window as a state machine against the list that keeps everything (invariants 20, 22, 25-30, 33).

use evenkeel_probe::{Counts, Edge, LatencyWindow, Observation, Verdict, WindowConfig};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::model::{ListWindow, Rules, Said};
use crate::{at, ms, t0};

pub(crate) const T95: u64 = 100;
pub(crate) const T99: u64 = 250;
pub(crate) const WINDOW: u64 = 1_600;

/// Most attempts open at a time.
const MOST: usize = 8;

pub(crate) fn config() -> WindowConfig {
    WindowConfig::new(ms(T95), ms(T99), ms(WINDOW)).unwrap()
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Begin,
    Overdue(usize),
    Finish(usize),
    Cancel(usize),
    Record(u64),
    Pass(u64),
    Restart,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Begin),
        3 => (0..8_usize).prop_map(Op::Overdue),
        3 => (0..8_usize).prop_map(Op::Finish),
        2 => (0..8_usize).prop_map(Op::Cancel),
        6 => prop_oneof![0..99_u64, 99..102_u64, 101..249_u64, 249..252_u64, 250..900_u64]
            .prop_map(Op::Record),
        5 => prop_oneof![5 => 0..60_u64, 2 => 90..260_u64, 1 => 1_500..4_000_u64].prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let confidence = prop_oneof![Just(0.0), Just(0.9), Just(0.999)];
    (0..12_u64, confidence, any::<bool>()).prop_map(|(min_samples, confidence, spike)| Rules {
        min_samples,
        confidence,
        spike,
    })
}

/// An open attempt in the reference.
#[derive(Clone, Debug)]
struct Open {
    began: u64,
    counts: bool,
    at95: bool,
    at99: bool,
}

/// The reference: the list, what is open, what time it is.
#[derive(Clone, Debug)]
struct Listed {
    rules: Rules,
    list: ListWindow,
    open: Vec<Open>,
    now: u64,
}

impl Listed {
    /// What an open attempt's age has reached becomes an exceedance, once.
    fn pass_limits(&mut self, i: usize) {
        let open = &mut self.open[i];
        let age = self.now - open.began;
        if age >= T95 && !open.at95 {
            open.at95 = true;
            if open.counts {
                self.list.at95(ms(self.now), true);
            }
        }
        if age >= T99 && !open.at99 {
            open.at99 = true;
            if open.counts {
                self.list.at99(ms(self.now), true);
            }
        }
    }

    fn finish(&mut self, i: usize) {
        let open = self.open.swap_remove(i);
        let latency = self.now - open.began;
        if open.counts && !open.at95 {
            self.list.at95(ms(self.now), latency > T95);
        }
        if open.counts && !open.at99 {
            self.list.at99(ms(self.now), latency > T99);
        }
    }
}

impl ReferenceStateMachine for Listed {
    type State = Self;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Self> {
        rules()
            .prop_map(|rules| Self {
                rules,
                list: ListWindow::new(ms(WINDOW / 16), rules),
                open: Vec::new(),
                now: 0,
            })
            .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Op> {
        op().boxed()
    }

    fn apply(mut listed: Self, op: &Op) -> Self {
        match *op {
            Op::Begin => listed.open.push(Open {
                began: listed.now,
                counts: true,
                at95: false,
                at99: false,
            }),
            Op::Overdue(i) => listed.pass_limits(i),
            Op::Finish(i) => listed.finish(i),
            Op::Cancel(i) => {
                listed.pass_limits(i);
                listed.open.swap_remove(i);
            }
            Op::Record(latency) => {
                listed.list.at95(ms(listed.now), latency > T95);
                listed.list.at99(ms(listed.now), latency > T99);
            }
            Op::Pass(millis) => listed.now += millis,
            Op::Restart => {
                listed.list.restart();
                listed.open.iter_mut().for_each(|open| open.counts = false);
            }
        }
        listed
    }

    fn preconditions(listed: &Self, op: &Op) -> bool {
        match *op {
            Op::Begin => listed.open.len() < MOST,
            Op::Overdue(i) | Op::Finish(i) | Op::Cancel(i) => i < listed.open.len(),
            Op::Record(_) | Op::Pass(_) | Op::Restart => true,
        }
    }
}

/// The window under test, and what is open there.
pub(crate) struct Window {
    probe: LatencyWindow,
    open: Vec<Observation>,
    in_episode: bool,
}

impl Window {
    /// With room for the open attempts of a run of 200, so that nothing but the window could allocate.
    pub(crate) fn new(probe: LatencyWindow) -> Self {
        Self {
            probe,
            open: Vec::with_capacity(200),
            in_episode: false,
        }
    }

    /// An index of nothing is passed over.
    pub(crate) fn apply(&mut self, op: &Op, now: u64) {
        let now = at(now);
        match *op {
            Op::Begin => self.open.push(self.probe.begin(now)),
            Op::Overdue(i) => {
                if let Some(obs) = self.open.get_mut(i) {
                    self.probe.overdue(obs, now);
                }
            }
            Op::Finish(i) if i < self.open.len() => {
                self.probe.finish(self.open.swap_remove(i), now);
            }
            Op::Cancel(i) if i < self.open.len() => {
                self.probe.cancel(self.open.swap_remove(i), now);
            }
            Op::Finish(_) | Op::Cancel(_) | Op::Pass(_) => {}
            Op::Record(latency) => self.probe.record(ms(latency), now),
            Op::Restart => self.probe.restart(now),
        }
    }
}

fn said(verdict: Verdict) -> Said {
    match verdict {
        Verdict::Unknown => Said::Unknown,
        Verdict::Healthy => Said::Healthy,
        Verdict::Breached(breach) => Said::Breached(breach.detector),
    }
}

fn window_of(listed: &Listed) -> Window {
    let min_samples = u32::try_from(listed.rules.min_samples).unwrap();
    let config = config()
        .min_samples(min_samples)
        .confidence(listed.rules.confidence)
        .unwrap()
        .spike_detector(listed.rules.spike);
    Window::new(LatencyWindow::new(config, t0()))
}

/// Counts and verdict are the list's after every step.
struct Counting;

impl StateMachineTest for Counting {
    type SystemUnderTest = Window;
    type Reference = Listed;

    fn init_test(listed: &Listed) -> Window {
        window_of(listed)
    }

    fn apply(mut window: Window, listed: &Listed, op: Op) -> Window {
        window.apply(&op, listed.now);
        window
    }

    fn check_invariants(window: &Window, listed: &Listed) {
        let now = at(listed.now);
        let in_list = listed.list.counts(ms(listed.now));
        // T99 may be counted when T95 has left the window already: then shown at both.
        let shown = Counts {
            n95: in_list.n95.max(in_list.n99),
            over95: in_list.over95.max(in_list.over99),
            ..in_list
        };
        let counts = window.probe.counts(now);
        assert_eq!(counts, shown);
        assert!(counts.over99 <= counts.n99 && counts.n99 <= counts.n95);
        assert!(counts.over95 <= counts.n95);
        let verdict = window.probe.verdict(now);
        assert_eq!(said(verdict), listed.list.verdict(ms(listed.now)));
        if let Verdict::Breached(breach) = verdict {
            assert!(breach.exceedances <= breach.samples);
        }
    }
}

/// Edges come in turn, one for each change of the verdict, however often it is looked at.
struct Edges;

impl StateMachineTest for Edges {
    type SystemUnderTest = Window;
    type Reference = Listed;

    fn init_test(listed: &Listed) -> Window {
        window_of(listed)
    }

    fn apply(mut window: Window, listed: &Listed, op: Op) -> Window {
        window.apply(&op, listed.now);
        for look in 0..3 {
            let (verdict, edge) = window.probe.judge(at(listed.now));
            assert_eq!(said(verdict), listed.list.verdict(ms(listed.now)));
            match edge {
                Some(Edge::Breached(breach)) => {
                    assert!(!window.in_episode && look == 0);
                    assert_eq!(verdict, Verdict::Breached(breach));
                    window.in_episode = true;
                }
                Some(Edge::Cleared) => {
                    assert!(window.in_episode && look == 0);
                    window.in_episode = false;
                }
                None => {}
            }
            assert_eq!(window.in_episode, verdict.is_breached());
        }
        window
    }
}

prop_state_machine! {
    #[test]
    fn inv20_22_25_26_26a_26b_28_and_30_counts_and_verdict_are_those_of_a_plain_list(
        sequential 1..200 => Counting
    );

    #[test]
    fn inv33_each_episode_has_one_edge_at_its_beginning_and_one_at_its_end(
        sequential 1..150 => Edges
    );
}
