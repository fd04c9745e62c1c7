//! What is left of many numbers: medians with a spread, means with a deviation.

/// Measurements of one thing, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Takes one more.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Returns all of them, in the order in which they were made.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the middle one, or the mean of the two in the middle; 0 where there is none.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns what a quarter of them do not reach; 0 where there is none.
    pub fn lower_quartile(&self) -> f64 {
        self.quantile(0.25)
    }

    /// Returns what a quarter of them exceed; 0 where there is none.
    pub fn upper_quartile(&self) -> f64 {
        self.quantile(0.75)
    }

    /// Between two samples it is in proportion.
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

/// What the sizes of chunks are like. The last of a stream counts as any other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkSizes {
    /// How many chunks there are.
    pub count: usize,
    /// Their mean size in bytes; 0 where there is none.
    pub mean: f64,
    /// The standard deviation of their sizes in bytes.
    pub deviation: f64,
}

impl ChunkSizes {
    /// Returns it of a stream's cut-points: exclusive ends, rising.
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
    fn quantiles_of_few() {
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
    fn sizes_of_chunks() {
        assert_eq!(ChunkSizes::of(&[]), ChunkSizes::default(), "no chunk");
        let sizes = ChunkSizes::of(&[2, 8]);
        assert_eq!(sizes, ChunkSizes { count: 2, mean: 4.0, deviation: 2.0 }, "2 and 6");
    }
}
