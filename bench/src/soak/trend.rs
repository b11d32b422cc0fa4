//! Samples over time and whether they grow.

/// The growth per second of a straight line through the samples (seconds, value).
pub(crate) fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len() as f64;
    let (mean_x, mean_y) = mean(samples);
    let spread: f64 = samples.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if count < 2.0 || spread == 0.0 {
        return 0.0;
    }
    samples.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread
}

pub(crate) fn mean(samples: &[(f64, f64)]) -> (f64, f64) {
    let count = samples.len().max(1) as f64;
    let sum = samples.iter().fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x, sum.1 + y));
    (sum.0 / count, sum.1 / count)
}

/// What the line through the second half of the samples gains from its begin to its end.
pub(crate) struct Growth {
    pub(crate) mean: f64,
    pub(crate) per_hour: f64,
    pub(crate) gained: f64,
}

impl Growth {
    pub(crate) fn of_second_half(samples: &[(f64, f64)]) -> Self {
        let half = &samples[samples.len() / 2..];
        let seconds = half.last().zip(half.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        let slope = slope(half);
        Self { mean: mean(half).1, per_hour: slope * 3600.0, gained: slope * seconds }
    }

    /// Load goes up and down by chance: only more than a share of the mean and a fixed part is growth.
    pub(crate) fn is_flat(&self, share: f64, fixed: f64) -> bool {
        self.gained <= share * self.mean + fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(value: impl Fn(f64) -> f64) -> Growth {
        let samples: Vec<_> = (0..180).map(|i| (f64::from(i) * 10.0, value(f64::from(i)))).collect();
        Growth::of_second_half(&samples)
    }

    #[test]
    fn noise_and_a_slow_begin_are_flat_and_a_leak_is_not() {
        let noisy = growth(|i| if i < 60.0 { i } else { 100.0 + (i * 7.0) % 5.0 });
        assert!(noisy.is_flat(0.03, 1.0), "{}", noisy.gained);
        let leak = growth(|i| 100.0 + i * 0.1 + (i * 7.0) % 5.0);
        assert!(!leak.is_flat(0.03, 1.0), "{}", leak.gained);
        assert!((leak.per_hour - 36.0).abs() < 2.0, "{}", leak.per_hour);
    }

    #[test]
    fn few_samples_have_no_slope() {
        assert!(Growth::of_second_half(&[]).is_flat(0.0, 0.0));
        assert!(Growth::of_second_half(&[(1.0, 2.0)]).is_flat(0.0, 0.0));
    }
}
