//! For which call a breaker changes its state: its listener hears of the change alone.

use evenkeel_core::{CallId, Class};
use std::cell::Cell;

/// A call, and the class of the failure that is being counted, if it is one.
pub(crate) type Acting = (CallId, Option<Class>);

thread_local! {
    static ACTING: Cell<Option<Acting>> = const { Cell::new(None) };
}

/// Does `act`, which asks or tells breakers for a call. Not across an await.
pub(crate) fn on_behalf<T>(acting: Acting, act: impl FnOnce() -> T) -> T {
    let _over = Over(ACTING.replace(Some(acting)));
    act()
}

/// For whom this thread asks or tells a breaker just now.
pub(crate) fn acting() -> Option<Acting> {
    ACTING.get()
}

/// Puts back what was there before, also where a listener panics.
struct Over(Option<Acting>);

impl Drop for Over {
    fn drop(&mut self) {
        ACTING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_with_the_act_and_one_in_another_gives_it_back() {
        let (one, two) = (CallId::next(), CallId::next());
        assert_eq!(acting(), None);
        on_behalf((one, None), || {
            on_behalf((two, Some(Class::Timeout)), || {
                assert_eq!(acting(), Some((two, Some(Class::Timeout))));
            });
            assert_eq!(acting(), Some((one, None)));
        });
        assert_eq!(acting(), None);
    }
}
