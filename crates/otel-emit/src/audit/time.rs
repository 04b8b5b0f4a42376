//! Times and durations as a record writes them.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::time::{Duration, SystemTime};

/// A time of the wall clock, written in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime(pub SystemTime);

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A clock that says a year past 9999 says nothing.
        let time = Timestamp::try_from(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        serializer.collect_str(&format_args!("{time:.3}"))
    }
}

/// A duration, written as whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeMs(pub Duration);

impl Serialize for WholeMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A duration, written as milliseconds with microseconds behind the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactMs(pub Duration);

impl Serialize for ExactMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((self.0.as_secs_f64() * 1e6).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: impl Serialize) -> String {
        serde_json::to_string(&value).unwrap()
    }

    #[test]
    fn times_are_milliseconds() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_331_200_910_999);
        assert_eq!(written(WallTime(at)), r#""2025-11-28T12:00:00.910Z""#);
        let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_331_200);
        assert_eq!(written(WallTime(whole)), r#""2025-11-28T12:00:00.000Z""#);
        let span = Duration::from_nanos(6_200_500_400);
        assert_eq!(written(WholeMs(span)), "6200");
        assert_eq!(written(ExactMs(span)), "6200.5");
    }
}
