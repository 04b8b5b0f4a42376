//! The window as an SLO alarm: twenty minutes of calls on simulated time, of which two are slow.
//!
//! The alarm is the window's breach. The all-clear asks for more than its end, lest the alarm flap while the
//! slow calls leave the window: the exceedance rate must be below 5% with confidence 0.95.
//!
//! `cargo run -p evenkeel-probe --example slo_alarm`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::{Duration, Instant};

use evenkeel_probe::{ConfigError, LatencyWindow, Verdict, WindowConfig, clears};

fn main() -> Result<(), ConfigError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "any instant will do as the start of simulated time"
    )]
    let start = Instant::now();
    let ms = Duration::from_millis;
    let config = WindowConfig::new(ms(300), ms(800), Duration::from_secs(60))?;
    let window = LatencyWindow::new(config, start);

    let mut is_alarmed = false;
    let mut dice = 1_u64;
    for call in 0_u64..12_000 {
        let at = ms(call * 100);
        let is_slow_spell = (600..720).contains(&at.as_secs());
        // 2% of calls are over the limit in good times, 40% in the slow spell.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let is_over = dice >> 32 < if is_slow_spell { 40 } else { 2 } * (u64::from(u32::MAX) / 100);
        window.record(ms(if is_over { 450 } else { 120 }), start + at);

        let seconds = at.as_secs();
        let counts = window.counts(start + at);
        match window.verdict(start + at) {
            Verdict::Breached(breach) if !is_alarmed => {
                is_alarmed = true;
                println!(
                    "{seconds:>4} s  ALARM by {}: {} of {} calls over {:?}",
                    breach.detector, breach.exceedances, breach.samples, breach.limit,
                );
            }
            Verdict::Unknown | Verdict::Healthy
                if is_alarmed && clears(counts.n95, counts.over95, 0.05) =>
            {
                is_alarmed = false;
                println!("{seconds:>4} s  all clear");
            }
            _ => {}
        }
    }
    println!("{:?}", window.report(start + ms(1_199_900)));
    Ok(())
}
