//! From values to places on a chart, and what is written beside them.

/// An axis of a [`Chart`](super::Chart): what it shows, and how values are spread along it. Its range has the chart's values, with a margin or up to whole powers of ten.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    scale: Scale,
    written: fn(f64) -> String,
    /// Values that are always on it.
    including: Vec<f64>,
    /// Whether the values beside it are whole numbers.
    is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    Log,
    /// From 0 to 1, with as much space for 0.9 to 0.99 as for 0 to 0.9.
    Quantiles,
}

/// The smallest and the largest of some values, as the axis spreads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            written: plain,
            including: Vec::new(),
            is_whole: false,
        }
    }

    /// An axis on which equal distances are equal ratios. Values below 1 are shown as 1.
    pub fn log(label: &str) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// An axis of quantiles from 0 to 1. Each further nine takes equal space, as in the plots of HdrHistogram: 0 to 0.9, 0.9 to 0.99. Values
    /// are written as percents.
    pub fn quantiles(label: &str) -> Axis {
        let written = |quantile: f64| format!("{} %", plain(quantile * 100.0));
        Axis { scale: Scale::Quantiles, written, ..Axis::linear(label) }
    }

    /// Sets how values are written beside the axis.
    #[must_use]
    pub fn written(self, written: fn(f64) -> String) -> Axis {
        Axis { written, ..self }
    }

    /// Writes whole numbers only beside the axis.
    #[must_use]
    pub fn whole(self) -> Axis {
        Axis { is_whole: true, ..self }
    }

    /// Extends the axis to these values, so that several charts have the same one, or that one begins at 0.
    #[must_use]
    pub fn including(self, values: impl IntoIterator<Item = f64>) -> Axis {
        let including = self.including.into_iter().chain(values).collect();
        Axis { including, ..self }
    }

    /// Returns a value as this axis spreads it.
    fn spread(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(1.0).log10(),
            Scale::Quantiles => -(1.0 - value.clamp(0.0, 1.0 - 1e-9)).log10(),
        }
    }

    /// Returns the range of these values. Without any, and where all are equal, there is still some space.
    pub(crate) fn range(&self, values: impl Iterator<Item = f64>) -> Range {
        let finite = values
            .chain(self.including.iter().copied())
            .filter(|value| value.is_finite())
            .map(|value| self.spread(value));
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        match self.scale {
            _ if low > high => Range { low: 0.0, high: 1.0 },
            Scale::Quantiles => Range { low: 0.0, high: high.max(1.0) },
            // Whole powers of ten if there are several.
            Scale::Log if high - low > 1.0 => Range { low: low.floor(), high: high.ceil() },
            _ if high > low => {
                let space = (high - low) * 0.05;
                Range { low: low - space, high: high + space }
            }
            _ => Range { low: low - 0.5, high: high + 0.5 },
        }
    }

    /// Returns the range from 0 to this value.
    pub(crate) fn range_to(&self, high: f64) -> Range {
        let high = self.spread(high);
        Range { low: self.spread(0.0), high: if high > 0.0 { high } else { 1.0 } }
    }

    /// Returns where a value is: 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn place(&self, range: Range, value: f64) -> f64 {
        let place = (self.spread(value) - range.low) / (range.high - range.low);
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Returns the values that are written beside the axis, with their texts.
    pub(crate) fn ticks(&self, range: Range) -> Vec<(f64, String)> {
        let Range { low, high } = range;
        let values: Vec<f64> = match self.scale {
            Scale::Linear => steps(low, high, self.is_whole),
            // Powers of ten, or round values if there are fewer than two.
            Scale::Log if high - low > 1.5 => {
                (low.ceil() as i32..=high.floor() as i32).map(|power| 10_f64.powi(power)).collect()
            }
            Scale::Log => steps(10_f64.powf(low), 10_f64.powf(high), self.is_whole),
            Scale::Quantiles => {
                let nines =
                    (1..=high.ceil().min(8.0) as i32).map(|nines| 1.0 - 10_f64.powi(-nines));
                [0.0, 0.5].into_iter().chain(nines).collect()
            }
        };
        let is_shown = |value: &f64| (low - 1e-9..=high + 1e-9).contains(&self.spread(*value));
        let values = values.into_iter().filter(is_shown);
        let mut ticks: Vec<(f64, String)> =
            values.map(|value| (value, (self.written)(value))).collect();
        // Ticks with equal labels are left out.
        ticks.dedup_by(|one, other| one.1 == other.1);
        ticks
    }
}

/// Returns about five round values from `low` to `high`.
fn steps(low: f64, high: f64, are_whole: bool) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors.iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0).max(if are_whole { 1.0 } else { 0.0 });
    let first = (low / step).ceil();
    (0..=10).map(|n| (first + f64::from(n)) * step).take_while(|value| *value <= high).collect()
}

/// Returns a number without zeros at its end.
fn plain(value: f64) -> String {
    let text = format!("{value:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: &Axis, values: &[f64]) -> Vec<String> {
        let range = axis.range(values.iter().copied());
        axis.ticks(range).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn ticks_are_round() {
        assert_eq!(written(&Axis::linear(""), &[0.0, 10.0]), ["0", "5", "10"]);
        assert_eq!(
            written(&Axis::linear(""), &[0.0123, 0.0187]),
            ["0.012", "0.014", "0.016", "0.018"]
        );
        assert_eq!(written(&Axis::log(""), &[3.0, 4_700.0]), ["1", "10", "100", "1000", "10000"]);
        assert_eq!(
            written(&Axis::quantiles(""), &[0.0, 0.999]),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %"]
        );
        // One value, none, and such that are no numbers.
        assert_eq!(written(&Axis::linear(""), &[7.0]), ["6.6", "6.8", "7", "7.2", "7.4"]);
        assert!(!written(&Axis::log(""), &[]).is_empty());
        assert!(!written(&Axis::linear(""), &[f64::NAN, f64::INFINITY, 1e300, -1e300]).is_empty());
    }

    #[test]
    fn places_are_in_order() {
        for axis in [Axis::linear(""), Axis::log(""), Axis::quantiles("")] {
            let values = [0.0, 0.5, 0.9, 0.99];
            let range = axis.range(values.into_iter());
            let places: Vec<f64> = values.iter().map(|it| axis.place(range, *it)).collect();
            assert!(places.is_sorted() && places.iter().all(|it| (0.0..=1.0).contains(it)));
        }
        let axis = Axis::quantiles("");
        let range = axis.range([0.99].into_iter());
        assert!((axis.place(range, 0.9) - 0.5).abs() < 1e-9);
    }
}
