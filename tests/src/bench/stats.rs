//! Medians and spreads.

/// The values of one figure over the repetitions.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle value; the lower of the two for an even number, so that it is one that was measured.
    pub(super) fn median(&self) -> f64 {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
    }

    /// The least value that this part of all values do not exceed.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let count = f64::from(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        let enough = |index: usize| f64::from(u32::try_from(index + 1).unwrap_or(u32::MAX)) >= part * count;
        self.0.iter().enumerate().find(|(index, _)| enough(*index)).map_or(f64::NAN, |(_, value)| *value)
    }

    pub(super) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(super) fn max(&self) -> f64 {
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
    fn the_median_is_the_middle_value_whatever_the_order() {
        let samples: Samples = [5.0, 1.0, 9.0].into_iter().collect();
        assert!((samples.median() - 5.0).abs() < f64::EPSILON);
        assert!((samples.min() - 1.0).abs() < f64::EPSILON);
        assert!((samples.max() - 9.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_median_of_an_even_number_is_one_that_was_measured() {
        let mut samples = Samples::default();
        for value in [4.0, 2.0, 8.0, 6.0] {
            samples.push(value);
        }
        assert!((samples.median() - 4.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_quantile_is_the_least_value_that_so_many_do_not_exceed() {
        let samples: Samples = (1_u8..=100).map(f64::from).collect();
        for (part, value) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert!((samples.quantile(part) - value).abs() < f64::EPSILON, "{part}");
        }
        let few: Samples = (1_u8..=50).map(f64::from).collect();
        assert!((few.quantile(0.99) - 50.0).abs() < f64::EPSILON);
        assert!(Samples::default().quantile(0.99).is_nan());
    }

    #[test]
    fn nothing_has_no_median() {
        assert!(Samples::default().median().is_nan());
    }
}
