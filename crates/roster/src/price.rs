//! What tokens cost.

use evenkeel_core::Usage;

use crate::model::ModelConfig;

impl ModelConfig {
    /// What `usage` costs, US dollars. `None` unless the prices of input and output
    /// are both known: half a cost would look like a whole one.
    ///
    /// Cached and cache-writing input is billed at its own price where it has one;
    /// more of it than there is input at all counts no further, nor does what nobody
    /// believes ([`Usage::believed`]).
    #[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
    pub fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let usage = usage.believed();
        let (input, output) = (self.input_usd_per_mtok?, self.output_usd_per_mtok?);
        let cached = usage.cached.unwrap_or(0).min(usage.input);
        let written = usage.cache_write.unwrap_or(0).min(usage.input - cached);
        let plain = usage.input - cached - written;
        let price = |tokens: u64, per_mtok: f64| tokens as f64 * per_mtok / 1e6;
        Some(
            price(plain, input)
                + price(cached, self.cached_input_usd_per_mtok.unwrap_or(input))
                + price(written, self.cache_write_usd_per_mtok.unwrap_or(input))
                + price(usage.output, output),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::ModelId;

    fn priced() -> ModelConfig {
        ModelConfig {
            input_usd_per_mtok: Some(2.0),
            output_usd_per_mtok: Some(10.0),
            ..ModelConfig::new(ModelId::new("acme/big").unwrap())
        }
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input,
            output,
            ..Usage::default()
        }
    }

    fn assert_usd(cost: Option<f64>, expected: f64) {
        let cost = cost.unwrap();
        assert!((cost - expected).abs() < 1e-12, "{cost}, not {expected}");
    }

    #[test]
    fn a_count_that_is_none_costs_no_more_than_the_largest_that_is_one() {
        let absurd = priced().cost_usd(&usage(0, u64::MAX));
        assert_eq!(absurd, priced().cost_usd(&usage(0, Usage::MOST)));
    }

    #[test]
    fn input_and_output_have_their_own_price() {
        assert_usd(priced().cost_usd(&usage(1_000_000, 100_000)), 3.0);
        assert_usd(priced().cost_usd(&usage(0, 0)), 0.0);
    }

    #[test]
    fn cached_input_costs_what_its_price_says_and_else_as_other_input() {
        let mut model = priced();
        let usage = Usage {
            cached: Some(600_000),
            cache_write: Some(100_000),
            ..usage(1_000_000, 0)
        };
        assert_usd(model.cost_usd(&usage), 2.0);
        model.cached_input_usd_per_mtok = Some(0.2);
        assert_usd(model.cost_usd(&usage), 0.12 + 0.2 + 0.6);
        model.cache_write_usd_per_mtok = Some(2.5);
        assert_usd(model.cost_usd(&usage), 0.12 + 0.25 + 0.6);
    }

    #[test]
    fn more_cached_input_than_input_counts_no_further() {
        let usage = Usage {
            cached: Some(u64::MAX),
            cache_write: Some(u64::MAX),
            ..usage(500_000, 0)
        };
        assert_usd(priced().cost_usd(&usage), 1.0);
    }

    #[test]
    fn half_a_price_is_no_price_and_zero_is_one() {
        let mut model = priced();
        model.output_usd_per_mtok = None;
        assert_eq!(model.cost_usd(&usage(10, 10)), None);
        model.output_usd_per_mtok = Some(0.0);
        model.input_usd_per_mtok = Some(0.0);
        assert_eq!(model.cost_usd(&usage(10, 10)), Some(0.0));
    }
}
