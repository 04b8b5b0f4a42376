//! The states, and the atomic word that holds one.

use std::fmt::{self, Display, Formatter};

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls flow and are counted.
    Closed,
    /// Calls are refused until a known time.
    Open,
    /// A few trial calls at a time decide.
    HalfOpen,
    /// An operator refuses all calls.
    ForcedOpen,
    /// An operator lets all calls through, uncounted.
    Disabled,
}

impl State {
    /// `closed`, `open`, `half_open`, `forced_open` or `disabled`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::ForcedOpen => "forced_open",
            Self::Disabled => "disabled",
        }
    }
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A state with its generation in 64 bits: 61 of generation, 3 of state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    const STATE_BITS: u32 = 3;

    /// Generation 0, closed.
    pub(crate) const FIRST: Self = Self(0);

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        self.0 >> Self::STATE_BITS
    }

    #[inline]
    pub(crate) const fn state(self) -> State {
        match self.0 & 7 {
            0 => State::Closed,
            1 => State::Open,
            2 => State::HalfOpen,
            3 => State::ForcedOpen,
            _ => State::Disabled,
        }
    }

    /// The next generation, in `state`.
    pub(crate) const fn then(self, state: State) -> Self {
        let code = match state {
            State::Closed => 0,
            State::Open => 1,
            State::HalfOpen => 2,
            State::ForcedOpen => 3,
            State::Disabled => 4,
        };
        Self(((self.generation() + 1) << Self::STATE_BITS) | code)
    }
}
