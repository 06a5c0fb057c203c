//! Statistics: declared once, beside the counter, with unit and meaning. Never reset: phases are snapshots.

use serde::Serialize;

/// One declared statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Name within its group.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Whether it is a level (a peak, a fill) rather than a count: a difference of two means nothing.
    pub gauge: bool,
    /// What it counts.
    pub meaning: &'static str,
}

/// A group of counters that can be listed and subtracted.
pub trait StatGroup: Clone + Default {
    /// The declarations, in order.
    const STATS: &'static [Stat];
    /// The values, in the order of the declarations.
    fn values(&self) -> Vec<u64>;
    /// Both together, counters and levels.
    #[must_use]
    fn plus(&self, other: &Self) -> Self;
    /// Counters as after so many times the same; gauges keep their value.
    #[must_use]
    fn times(&self, count: u64) -> Self;
    /// What happened between `earlier` and now; gauges keep their value.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;
}

/// Declares a struct of `u64` counters that implements [`StatGroup`]. `"unit" gauge` declares a level.
#[macro_export]
macro_rules! stats {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($field:ident : $unit:literal $($gauge:ident)?, $meaning:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, ::serde::Serialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $vis struct $name {
            $(
                #[doc = concat!($meaning, " (", $unit, ")")]
                #[schemars(description = $meaning, extend("unit" = $unit $(, "kind" = stringify!($gauge))?))]
                pub $field: u64,
            )+
        }
        impl $crate::stats::StatGroup for $name {
            const STATS: &'static [$crate::stats::Stat] =
                &[$($crate::stats::Stat {
                    name: stringify!($field),
                    unit: $unit,
                    gauge: false $(|| matches!(stringify!($gauge).as_bytes(), b"gauge"))?,
                    meaning: $meaning,
                }),+];
            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),+]
            }
            fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.wrapping_add(other.$field)),+ }
            }
            fn times(&self, count: u64) -> Self {
                let level = [$(false $(|| matches!(stringify!($gauge).as_bytes(), b"gauge"))?),+];
                let mut levels = level.into_iter();
                Self {
                    $($field: if levels.next() == Some(true) { self.$field } else { self.$field.wrapping_mul(count) }),+
                }
            }
            fn since(&self, earlier: &Self) -> Self {
                let level = [$(false $(|| matches!(stringify!($gauge).as_bytes(), b"gauge"))?),+];
                let mut levels = level.into_iter();
                Self {
                    $($field: if levels.next() == Some(true) {
                        self.$field
                    } else {
                        self.$field.wrapping_sub(earlier.$field)
                    }),+
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    stats! {
        /// Test group.
        struct Demo {
            hits: "count", "accesses that hit";
            bytes: "B", "bytes moved";
            peak: "B" gauge, "highest fill";
        }
    }

    #[test]
    fn lists_and_subtracts() {
        let a = Demo { hits: 1, bytes: 10, peak: 7 };
        let b = Demo { hits: 4, bytes: 11, peak: 9 };
        assert_eq!(b.since(&a).values(), [3, 1, 9]);
        assert_eq!(b.since(&a).times(5).values(), [15, 5, 9]);
        assert_eq!((Demo::STATS[1].unit, Demo::STATS[2].gauge), ("B", true));
    }
}
