//! Statistics of samples: medians with a spread, means with a deviation.

/// The measurements of one quantity, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Returns all measurements, in the order in which they were made.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns the number of measurements.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the median, or 0 if there are no measurements. The median of an even number of
    /// measurements is the mean of the middle two.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the lower quartile, or 0 if there are no measurements.
    pub fn lower_quartile(&self) -> f64 {
        self.quantile(0.25)
    }

    /// Returns the upper quartile, or 0 if there are no measurements.
    pub fn upper_quartile(&self) -> f64 {
        self.quantile(0.75)
    }

    /// Returns a quantile, with linear interpolation between two measurements.
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
        let place = last as f64 * share;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most `last`")]
        let below = place as usize;
        let above = (below + 1).min(last);
        sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
    }
}

/// The number, mean and deviation of chunk sizes. The last chunk of a stream counts like any other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkSizes {
    /// The number of chunks.
    pub count: usize,
    /// The mean size in bytes, or 0 if there are no chunks.
    pub mean: f64,
    /// The standard deviation of the sizes in bytes.
    pub deviation: f64,
}

impl ChunkSizes {
    /// Returns the sizes for the cut-points of a stream, which are exclusive ends in rising order.
    pub fn of(ends: &[usize]) -> ChunkSizes {
        let count = ends.len();
        let (Some(last), true) = (ends.last(), count > 0) else { return ChunkSizes::default() };
        let mean = *last as f64 / count as f64;
        let starts = std::iter::once(&0).chain(ends);
        let squares = starts.zip(ends).map(|(start, end)| ((end - start) as f64 - mean).powi(2));
        ChunkSizes { count, mean, deviation: (squares.sum::<f64>() / count as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_samples_are_interpolated() {
        let samples = |values: &[f64]| Samples(values.to_vec());
        assert_eq!(samples(&[]).median(), 0.0, "of none");
        assert_eq!(samples(&[3.0]).upper_quartile(), 3.0, "of one");
        assert_eq!(samples(&[4.0, 1.0]).median(), 2.5, "of two");
        let five = samples(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(
            (five.lower_quartile(), five.median(), five.upper_quartile()),
            (2.0, 3.0, 4.0),
            "of five"
        );
    }

    #[test]
    fn chunk_sizes_have_mean_and_deviation() {
        assert_eq!(ChunkSizes::of(&[]), ChunkSizes::default(), "no chunk");
        let sizes = ChunkSizes::of(&[2, 8]);
        assert_eq!(sizes, ChunkSizes { count: 2, mean: 4.0, deviation: 2.0 }, "2 and 6");
    }
}
