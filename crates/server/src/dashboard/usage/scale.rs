//! The scale of a plot: round numbers up to the highest value.

/// The approximate number of ticks.
const ABOUT: f64 = 5.0;

/// Ticks from 0 to at least `most`, in steps of 1, 2 or 5 times a power of ten.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / ABOUT;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999_999).unwrap_or(power * 10.0);
    let mut all = vec![0.0];
    let mut tick = 0.0;
    // There are only a few: a step is at least a fifth of the range.
    while tick < most && all.len() < 10 {
        tick = step * count(all.len());
        all.push(tick);
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn count(number: usize) -> f64 {
    number as f64
}

/// How many days share a bar, so that there are at most about sixty bars.
pub(super) fn days_each(days: usize) -> usize {
    [1, 7, 28, 91, 182].into_iter().find(|each| days.div_ceil(*each) <= 62).unwrap_or(365)
}

/// Every how many bars a label fits.
pub(super) fn labelled(bars: usize, most: usize) -> usize {
    bars.div_ceil(most.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(most: f64, expected: &[f64]) {
        let found = ticks(most);
        assert_eq!(found.len(), expected.len(), "{most}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= expected * 1e-9, "{most}: {found} {expected}");
        }
    }

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        check(10.0, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        check(1.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(7.0, &[0.0, 2.0, 4.0, 6.0, 8.0]);
        check(123_456.0, &[0.0, 50_000.0, 100_000.0, 150_000.0]);
        check(0.003, &[0.0, 0.001, 0.002, 0.003]);
    }

    #[test]
    fn whatever_the_value_there_is_a_scale() {
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ticks(most), [0.0, 1.0]);
        }
        let mut most = 1e-9;
        while most < 1e15 {
            let all = ticks(most);
            assert!((3..=8).contains(&all.len()), "{most}: {all:?}");
            assert!(all.last().is_some_and(|top| *top >= most * 0.999_999), "{most}: {all:?}");
            assert!(all.is_sorted());
            most *= 1.37;
        }
    }

    #[test]
    fn bars_stay_wide_enough() {
        for (days, each) in
            [(1, 1), (30, 1), (62, 1), (63, 7), (365, 7), (3_660, 91), (40_000, 365)]
        {
            assert_eq!(days_each(days), each, "{days}");
        }
        assert_eq!(labelled(30, 8), 4);
        assert_eq!(labelled(0, 8), 1);
        assert_eq!(labelled(8, 8), 1);
    }
}
