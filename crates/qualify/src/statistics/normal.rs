//! The standard normal distribution.

/// Probability below `z`.
pub(super) fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The value below which a share `p` lies, to 1e-15 (Wichura 1988, algorithm
/// AS 241, Appl. Statist. 37:477). `p` is taken within 1e-10 of 0 and 1, so that
/// the result is finite, and AS 241's branch for the far tails is not needed.
pub(super) fn quantile(p: f64) -> f64 {
    let p = p.clamp(1e-10, 1.0 - 1e-10);
    let from_middle = p - 0.5;
    if from_middle.abs() <= 0.425 {
        let r = 0.180_625 - from_middle * from_middle;
        return from_middle * polynomial(r, &CENTRE.0) / polynomial(r, &CENTRE.1);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt() - 1.6;
    let distance = polynomial(r, &TAIL.0) / polynomial(r, &TAIL.1);
    distance.copysign(from_middle)
}

/// Coefficients from the constant on.
fn polynomial(x: f64, coefficients: &[f64; 8]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE: ([f64; 8], [f64; 8]) = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
);

const TAIL: ([f64; 8], [f64; 8]) = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.95, 1.644_853_626_951_472_2),
            (0.001, -3.090_232_306_167_813_5),
            (1e-6, -4.753_424_308_822_899),
        ] {
            assert!((quantile(p) - z).abs() < 1e-12, "{p}: {}", quantile(p));
        }
    }

    #[test]
    fn a_quantile_undoes_a_probability_on_both_branches() {
        for step in -55..=55 {
            let z = f64::from(step) / 10.0;
            assert!((quantile(below(z)) - z).abs() < 1e-9, "{z}");
        }
    }

    #[test]
    fn the_ends_are_finite() {
        assert!(quantile(0.0).is_finite());
        assert!(quantile(1.0).is_finite());
    }
}
