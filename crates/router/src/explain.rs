//! What the router would do now, in words.

use crate::state::RoleState;
use evenkeel_core::Refusal;
use std::fmt;

impl RoleState {
    /// The rung a new request goes to: the active one (or the first that the
    /// caller has pinned), else the best that can be asked, else a benched one.
    pub fn goes_to(&self) -> Option<usize> {
        let usable = |i: &usize| self.rungs[*i].refusal.is_none();
        let all = || self.order.iter().copied();
        Some(self.wanted.unwrap_or(self.active))
            .filter(usable)
            .or_else(|| all().find(|i| usable(i) && !self.rungs[*i].is_benched()))
            .or_else(|| all().find(usable))
    }
}

impl fmt::Display for RoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goes = self.goes_to();
        f.write_str(&self.role)?;
        if let Some(task) = &self.task {
            write!(f, ", task {task}")?;
        }
        match goes {
            Some(rung) => writeln!(
                f,
                ": a request goes to rung {rung}, {}",
                self.rungs[rung].model
            )?,
            None => writeln!(f, ": no rung can be asked now")?,
        }
        for (index, rung) in self.rungs.iter().enumerate() {
            write!(f, "  {index} {}: ", rung.model)?;
            match rung.refusal {
                Some(refusal) => {
                    write!(f, "refused, {}", refusal.as_str())?;
                    if let Refusal::BelowCapability { capability, least } = refusal {
                        write!(f, " ({capability} of {least})")?;
                    }
                    if let Some(left) = refusal.retry_in() {
                        write!(f, " for {:.1} s", left.as_secs_f64())?;
                    }
                }
                None if goes == Some(index) => f.write_str("takes the request")?,
                None if rung.is_benched() => {
                    f.write_str("benched: it was too slow, and is being probed")?;
                }
                None => f.write_str("ready, ranked lower")?,
            }
            let share = rung.recovery.share;
            if share > 0.0 {
                write!(f, "; takes {:.0}% of sessions", share * 100.0)?;
            }
            writeln!(f, "; breaker {}", rung.health.breaker.state)?;
        }
        Ok(())
    }
}
