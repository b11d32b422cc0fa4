//! Kubernetes' amounts of resources such as `100m`, `1.5Gi` or `2e3`: exact to a billionth, compared by value and
//! written in the one form that Kubernetes returns.

const NANO: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// An amount and the style it was written in.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Binary,
    Decimal,
    Exponent,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads an amount; `None` when the text is none, or one beyond what fits.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (multiplier, divisor, style) = scale(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scaled = digits.checked_mul(NANO)?.checked_mul(multiplier)?;
        let divisor = divisor.checked_mul(10_i128.checked_pow(fraction.len() as u32)?)?;
        // What is finer than a billionth is rounded up.
        let nanos = scaled / divisor + i128::from(scaled % divisor != 0);
        Some(Self { nanos: if negative { -nanos } else { nanos }, style })
    }

    /// This many whole units.
    pub fn from_units(units: u64) -> Self {
        Self { nanos: i128::from(units) * NANO, style: Style::Decimal }
    }

    /// How many of `unit` it takes to hold this amount; `None` when the unit is not above zero.
    pub fn in_units_of(self, unit: Self) -> Option<i128> {
        (unit.nanos > 0).then(|| {
            let (quotient, rest) = (self.nanos.div_euclid(unit.nanos), self.nanos.rem_euclid(unit.nanos));
            quotient + i128::from(rest > 0)
        })
    }

    /// Whether there is nothing of it.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// What a suffix multiplies and divides by.
fn scale(suffix: &str) -> Option<(i128, i128, Style)> {
    if let Some(i) = BINARY.iter().position(|&b| b == suffix) {
        return Some((1 << (10 * (i + 1)), 1, Style::Binary));
    }
    let power = |exponent: i32| {
        let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
        Some(if exponent < 0 { (1, factor) } else { (factor, 1) })
    };
    if let Some(&(_, exponent)) = DECIMAL.iter().find(|(d, _)| *d == suffix) {
        let (multiplier, divisor) = power(exponent)?;
        return Some((multiplier, divisor, Style::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let (multiplier, divisor) = power(exponent)?;
    Some((multiplier, divisor, Style::Exponent))
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANO == 0;
        if self.style == Style::Binary && whole && self.nanos.abs() >= 1024 * NANO {
            let (mut amount, mut unit) = (self.nanos / NANO, 0);
            while unit < BINARY.len() && amount % 1024 == 0 {
                amount /= 1024;
                unit += 1;
            }
            return write!(f, "{amount}{}", if unit == 0 { "" } else { BINARY[unit - 1] });
        }
        let (mut amount, mut unit) = (self.nanos, 0);
        while unit + 1 < DECIMAL.len() && amount % 1000 == 0 {
            amount /= 1000;
            unit += 1;
        }
        let (suffix, exponent) = DECIMAL[unit];
        match self.style {
            Style::Exponent if exponent != 0 => write!(f, "{amount}e{exponent}"),
            _ => write!(f, "{amount}{suffix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn writes_the_canonical_form() {
        let cases = [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024", "1024"),
            ("512Mi", "512Mi"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("100000", "100k"),
            ("2e3", "2e3"),
            ("1E", "1E"),
            ("-100m", "-100m"),
            ("0.0000000001", "1n"),
        ];
        for (given, want) in cases {
            assert_eq!(Quantity::parse(given).unwrap().to_string(), want, "{given}");
        }
    }

    #[test]
    fn refuses_what_is_no_amount() {
        for text in ["", "m", "1Q", "1.2.3", "1 Gi", "one", "1KI", "--1"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn compares_by_value() {
        assert!(Quantity::parse("1Gi") > Quantity::parse("1G"));
        assert_eq!(Quantity::parse("1000m"), Quantity::parse("1"));
    }

    #[test]
    fn counts_units_and_rounds_up() {
        let quantity = |text| Quantity::parse(text).unwrap();
        for (amount, unit, count) in [
            ("1500m", "1", 2),
            ("2", "1", 2),
            ("1Gi", "1Mi", 1024),
            ("1", "1m", 1000),
            ("0", "1", 0),
            ("-1500m", "1", -1),
        ] {
            assert_eq!(quantity(amount).in_units_of(quantity(unit)), Some(count), "{amount} in {unit}");
        }
        assert_eq!(Quantity::from_units(1 << 30), quantity("1Gi"));
        assert_eq!(quantity("1").in_units_of(quantity("0")), None);
    }
}
