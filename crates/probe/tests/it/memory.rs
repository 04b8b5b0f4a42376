//! Memory (invariant 34): bounded, and none taken while recording.

use evenkeel_probe::LatencyWindow;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::window_machine::{Op, Window, config, op};
use crate::{at, ms, t0};

proptest! {
    #[test]
    fn inv34_whatever_is_recorded_allocates_nothing(ops in vec(op(), 0..200)) {
        let mut probe = Window::new(LatencyWindow::new(config(), t0()));
        let mut now = 0;
        let used = allocation_counter::measure(|| {
            for op in &ops {
                if let Op::Pass(millis) = op {
                    now += millis;
                }
                probe.apply(op, now);
            }
        });
        prop_assert_eq!(used.count_total, 0);
    }
}

#[test]
fn inv34_a_window_takes_at_most_16_kib() {
    let config = config();
    let mut kept = Vec::with_capacity(1);
    let made = allocation_counter::measure(|| kept.push(LatencyWindow::new(config.clone(), t0())));
    let bytes = size_of::<LatencyWindow>() + usize::try_from(made.bytes_current).unwrap();
    assert!(bytes <= 16 * 1024, "{bytes} bytes");
}

#[test]
fn inv34_recording_and_judging_allocate_nothing() {
    let probe = LatencyWindow::new(config(), t0());
    let used = allocation_counter::measure(|| {
        for i in 0..5_000 {
            let now = at(i);
            let mut obs = probe.begin(now);
            probe.overdue(&mut obs, now + ms(i % 300));
            probe.finish(obs, now + ms(i % 300));
            probe.cancel(probe.begin(now), now + ms(150));
            let _ = probe.judge(now);
            let _ = (
                probe.counts(now),
                probe.report(now),
                probe.p95_since_run(now),
            );
            if i % 500 == 0 {
                probe.restart(now);
            }
        }
    });
    assert_eq!(used.count_total, 0);
}

#[test]
fn inv34_after_ten_million_records_in_one_slice_counts_stand_still_at_their_end() {
    let probe = LatencyWindow::new(config(), t0());
    let last = (1 << 20) - 1;
    for _ in 0..10_000_000 {
        probe.record(ms(0), t0());
    }
    let counts = probe.counts(t0());
    assert_eq!((counts.n95, counts.over95, counts.n99), (last, 0, last));
    // The next slice counts on.
    probe.record(ms(0), at(100));
    assert_eq!(probe.counts(at(100)).n95, last + 1);
}
