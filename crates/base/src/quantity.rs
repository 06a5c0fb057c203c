//! Quantities as users write them: `3GHz`, `64KiB`, `100Gbps`, `250ns`. Types that do not mix.

use crate::Ps;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::{borrow::Cow, fmt, str::FromStr};

/// Why a quantity could not be read: of what kind it was to be, and its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum QuantityError {
    #[error("{what} {text:?} has no unit; allowed: {allowed}")]
    NoUnit { what: &'static str, text: String, allowed: String },
    #[error("{what} {text:?} has an unknown unit {unit:?}; allowed: {allowed}")]
    UnknownUnit { what: &'static str, text: String, unit: String, allowed: String },
    #[error("{what} {text:?} is not a number with a unit ({allowed})")]
    NoNumber { what: &'static str, text: String, allowed: String },
    #[error("{what} {text:?} is finer than the smallest unit")]
    TooFine { what: &'static str, text: String },
    #[error("{what} {text:?} is too large")]
    TooLarge { what: &'static str, text: String },
    #[error("{what} {text:?} must be above zero")]
    Zero { what: &'static str, text: String },
}

struct Unit {
    name: &'static str,
    scale: u64,
}

/// Splits `12.5GHz` into digits and unit and scales exactly (no floating point).
fn parse(text: &str, what: &'static str, units: &[Unit]) -> Result<u64, QuantityError> {
    let allowed = || units.iter().map(|u| u.name).collect::<Vec<_>>().join(", ");
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = (&text[..split], text[split..].trim());
    if unit.is_empty() {
        return Err(QuantityError::NoUnit { what, text: text.to_owned(), allowed: allowed() });
    }
    let Some(unit) = units.iter().find(|u| u.name.eq_ignore_ascii_case(unit)) else {
        let (text, unit) = (text.to_owned(), unit.to_owned());
        return Err(QuantityError::UnknownUnit { what, text, unit, allowed: allowed() });
    };
    let bad = || QuantityError::NoNumber { what, text: text.to_owned(), allowed: allowed() };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || fraction.contains('.') || fraction.len() > 12 {
        return Err(bad());
    }
    let scale = u128::from(unit.scale);
    let mut value = whole.parse::<u64>().map_err(|_| bad())? as u128 * scale;
    if !fraction.is_empty() {
        let parts = fraction.parse::<u64>().map_err(|_| bad())? as u128 * scale;
        let power = 10u128.pow(fraction.len() as u32);
        if parts % power != 0 {
            return Err(QuantityError::TooFine { what, text: text.to_owned() });
        }
        value += parts / power;
    }
    u64::try_from(value).map_err(|_| QuantityError::TooLarge { what, text: text.to_owned() })
}

fn print(value: u64, units: &[Unit]) -> String {
    let unit = units.iter().filter(|u| value % u.scale == 0).max_by_key(|u| u.scale);
    let unit = if value == 0 { units.iter().min_by_key(|u| u.scale) } else { unit };
    unit.map_or_else(|| value.to_string(), |u| format!("{}{}", value / u.scale, u.name))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $vis:vis $getter:ident, $pattern:literal, zero: $zero:literal,
     [$($unit:literal = $scale:literal),+]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            const UNITS: &'static [Unit] = &[$(Unit { name: $unit, scale: $scale }),+];

            /// From the base unit. `None` where zero has no meaning.
            #[must_use]
            pub const fn new(value: u64) -> Option<Self> {
                if value == 0 && !$zero { None } else { Some(Self(value)) }
            }

            /// The value in the base unit.
            #[inline]
            #[must_use]
            $vis const fn $getter(self) -> u64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                let value = parse(text, $what, Self::UNITS)?;
                Self::new(value).ok_or_else(|| QuantityError::Zero { what: $what, text: text.to_owned() })
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&print(self.0, Self::UNITS))
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, concat!("a ", $what, " with a unit ({})"),
                            $name::UNITS.iter().map(|u| u.name).collect::<Vec<_>>().join(", "))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                d.deserialize_str(Text)
            }
        }
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "quantity": $what})
            }
        }
    };
}

quantity!(
    /// A frequency in hertz; never zero.
    Frequency, "frequency", pub hz, r"^[0-9.]+ ?(Hz|kHz|MHz|GHz)$", zero: false,
    ["Hz" = 1, "kHz" = 1_000, "MHz" = 1_000_000, "GHz" = 1_000_000_000]
);
quantity!(
    /// A data rate in bits a second (decimal prefixes); never zero.
    BitRate, "rate", pub bits_per_second, r"^[0-9.]+ ?(bps|kbps|Mbps|Gbps|Tbps)$", zero: false,
    ["bps" = 1, "kbps" = 1_000, "Mbps" = 1_000_000, "Gbps" = 1_000_000_000, "Tbps" = 1_000_000_000_000]
);
quantity!(
    /// A size in bytes (binary prefixes).
    Bytes, "size", pub bytes, r"^[0-9.]+ ?(B|KiB|MiB|GiB)$", zero: true,
    ["B" = 1, "KiB" = 1_024, "MiB" = 1_048_576, "GiB" = 1_073_741_824]
);
quantity!(
    /// A span of time in picoseconds.
    Duration, "duration", picoseconds, r"^[0-9.]+ ?(ps|ns|us|ms|s)$", zero: true,
    ["ps" = 1, "ns" = 1_000, "us" = 1_000_000, "ms" = 1_000_000_000, "s" = 1_000_000_000_000]
);

impl Duration {
    /// From a span.
    #[must_use]
    pub const fn of(span: Ps) -> Self {
        Self(span.0)
    }

    /// The span itself.
    #[inline]
    #[must_use]
    pub const fn ps(self) -> Ps {
        Ps(self.picoseconds())
    }
}

impl BitRate {
    /// Time that `bytes` take at this rate, rounded up to a picosecond.
    #[inline]
    #[must_use]
    pub fn time_of(self, bytes: u64) -> Ps {
        const BYTE: u64 = 8 * Ps::from_s(1).0;
        match bytes.checked_mul(BYTE) {
            Some(bits_ps) => Ps(bits_ps.div_ceil(self.0)),
            None => Ps((u128::from(bytes) * u128::from(BYTE)).div_ceil(u128::from(self.0)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints() {
        assert_eq!("2.5GHz".parse::<Frequency>().unwrap().hz(), 2_500_000_000);
        assert_eq!("64KiB".parse::<Bytes>().unwrap().bytes(), 65_536);
        assert_eq!("1.68 ns".parse::<Duration>().unwrap().ps(), Ps(1_680));
        assert_eq!("40gbps".parse::<BitRate>().unwrap().to_string(), "40Gbps");
        assert_eq!("1536KiB".parse::<Bytes>().unwrap().to_string(), "1536KiB");
        assert_eq!("100Gbps".parse::<BitRate>().unwrap().time_of(64), Ps(5_120));
    }

    #[test]
    fn says_what_is_wrong() {
        let e = |t: &str| t.parse::<BitRate>().unwrap_err().to_string();
        assert_eq!(e("40"), "rate \"40\" has no unit; allowed: bps, kbps, Mbps, Gbps, Tbps");
        assert!(e("40furlongs").contains("unknown unit \"furlongs\""));
        assert!(e("0Gbps").contains("must be above zero"));
        assert!(e("-1Gbps").contains("unknown unit") || e("-1Gbps").contains("not a number"));
        assert!(e("1.2.3Gbps").contains("not a number"));
        assert!(e("99999999999999Tbps").contains("too large"));
        assert!("0.0001ps".parse::<Duration>().unwrap_err().to_string().contains("finer"));
    }

    proptest! {
        #[test]
        fn round_trips(v in 1u64..u64::MAX) {
            let b = Bytes::new(v).unwrap();
            prop_assert_eq!(b.to_string().parse::<Bytes>().unwrap(), b);
        }
        #[test]
        fn never_panics(text in ".*") {
            let _ = text.parse::<Duration>();
        }
    }
}
