//! Medians and spreads.

/// The values of one figure over the repetitions.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the middle value; the lower of the two for an even number, so that it is one that
    /// was measured.
    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the least value that so many of a hundred are not above.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut samples = Self(values.into_iter().collect());
        samples.0.sort_by(f64::total_cmp);
        samples
    }
}

impl From<f64> for Samples {
    fn from(value: f64) -> Self {
        Self(vec![value])
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn the_median_of_an_even_number_is_one_that_was_measured() {
        let mut samples = Samples::default();
        for value in [4.0, 2.0, 8.0, 6.0] {
            samples.push(value);
        }
        assert!((samples.median() - 4.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_percentile_is_the_least_value_that_enough_are_not_above() {
        let samples: Samples = (1..=200).map(f64::from).collect();
        for (percent, value) in [(1, 2.0), (50, 100.0), (99, 198.0), (100, 200.0)] {
            assert!((samples.percentile(percent) - value).abs() < f64::EPSILON, "{percent}");
        }
        assert!(Samples::default().percentile(99).is_nan());
    }
}
