//! Many measurements of one thing, and the figures that stand for them.

/// Measurements of one thing, in any order.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The smallest sample that at least this share of all samples does not exceed; zero without samples.
    pub fn quantile(&self, share: f64) -> f64 {
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
}
