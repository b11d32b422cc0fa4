//! Many measurements of one thing, and the figures that stand for them.

/// Measurements of one thing, in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The mean of the two samples in the middle, or the one: fair where there are few.
    pub(crate) fn middle(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        if sorted.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
    }

    /// The smallest sample that at least this share of all samples does not exceed; zero without samples.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_that_occurred() {
        let samples: Samples = (1..=100).rev().map(f64::from).collect();
        assert!((samples.median() - 50.0).abs() < f64::EPSILON);
        assert!((samples.quantile(0.99) - 99.0).abs() < f64::EPSILON);
        assert!((samples.quantile(1.0) - 100.0).abs() < f64::EPSILON);
        assert!(Samples::default().median().abs() < f64::EPSILON);
    }

    #[test]
    fn the_middle_of_two_lies_between_them() {
        let middle = |values: &[f64]| values.iter().copied().collect::<Samples>().middle();
        assert!((middle(&[3.0, 1.0]) - 2.0).abs() < f64::EPSILON);
        assert!((middle(&[9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(middle(&[]).abs() < f64::EPSILON);
    }
}
