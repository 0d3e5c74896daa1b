//! Logarithms and powers in fixed point.
//!
//! A simulated run must be the same on every machine. The C library's `ln` and `pow` are not,
//! because they differ in the last bit between versions. The functions of this module are exact
//! integer arithmetic. Their error is about one part in 100,000, far below the accuracy of a think
//! time or a popularity. Tested below against the floating-point functions.

/// Bits after the point.
const FRACTION_BITS: u32 = 32;
/// The number 1 in fixed point.
pub(crate) const ONE: u64 = 1 << FRACTION_BITS;
/// ln 2 in fixed point.
const LN_2: u64 = 2_977_044_472;
/// Steps of the tables, as a power of two.
const TABLE_BITS: u32 = 10;

/// log2(1 + i / 1024) in fixed point.
static LOG2: [u64; (1 << TABLE_BITS) + 1] = log2_table();
/// 2^(i / 1024) in fixed point.
static EXP2: [u64; (1 << TABLE_BITS) + 1] = exp2_table();

/// `all` times `part`, divided by `of`, which is not zero. The product may need more than 64 bits,
/// but rarely does.
pub(crate) fn share(all: u64, part: u64, of: u64) -> u64 {
    match all.checked_mul(part) {
        Some(product) => product / of,
        None => (u128::from(all) * u128::from(part) / u128::from(of)) as u64,
    }
}

/// The binary logarithm of `value`, at least 1, in fixed point.
pub(crate) fn log2(value: u64) -> u64 {
    let whole = value.max(1).ilog2();
    // The digits after the leading digit, as a fraction of 2^32.
    let rest = (u128::from(value.max(1)) << FRACTION_BITS >> whole) as u64 - ONE;
    (u64::from(whole) << FRACTION_BITS) + interpolate(&LOG2, rest)
}

/// -ln(u) for a `u` that is uniform in (0, 1], given as `random / 2^64`. The result is an
/// exponential variate with mean 1, in fixed point.
pub(crate) fn exponential(random: u64) -> u64 {
    let log = log2(random.max(1));
    let minus_log2 = (64 << FRACTION_BITS) - log;
    ((u128::from(minus_log2) * u128::from(LN_2)) >> FRACTION_BITS) as u64
}

/// `base` to the power of minus `exponent` (in thousandths), in fixed point.
pub(crate) fn power_below_one(base: u64, exponent_milli: u64) -> u64 {
    let log = u128::from(log2(base)) * u128::from(exponent_milli) / 1000;
    exp2_negative(log.min(u128::from(u64::MAX)) as u64)
}

/// 2 to the power of minus `value`, both in fixed point.
fn exp2_negative(value: u64) -> u64 {
    let whole = (value >> FRACTION_BITS) as u32;
    let rest = value & (ONE - 1);
    if rest == 0 {
        return ONE.checked_shr(whole).unwrap_or(0);
    }
    // 2^-(w + r) = 2^(1 - r) / 2^(w + 1).
    interpolate(&EXP2, ONE - rest).checked_shr(whole + 1).unwrap_or(0)
}

/// The table's value at `fraction`, which is less than 1.
fn interpolate(table: &[u64], fraction: u64) -> u64 {
    let step_bits = FRACTION_BITS - TABLE_BITS;
    let index = (fraction >> step_bits) as usize;
    let within = fraction & ((1 << step_bits) - 1);
    if index + 1 >= table.len() {
        return table[table.len() - 1];
    }
    table[index] + (((table[index + 1] - table[index]) * within) >> step_bits)
}

/// By repeated squaring, because each square doubles the logarithm, and the whole part is the next
/// digit.
const fn log2_table() -> [u64; (1 << TABLE_BITS) + 1] {
    let mut table = [0; (1 << TABLE_BITS) + 1];
    let mut index = 0;
    while index < 1 << TABLE_BITS {
        let mut value = ((1u128 << TABLE_BITS) + index as u128) << (62 - TABLE_BITS);
        let (mut log, mut bit) = (0, ONE >> 1);
        while bit > 0 {
            value = (value * value) >> 62;
            if value >= 2 << 62 {
                value >>= 1;
                log += bit;
            }
            bit >>= 1;
        }
        table[index] = log;
        index += 1;
    }
    table[1 << TABLE_BITS] = ONE;
    table
}

/// Powers of the 1024th root of two. The computation has 30 bits more than the result.
const fn exp2_table() -> [u64; (1 << TABLE_BITS) + 1] {
    // Ten square roots of two, by Newton's method on integers with 62 bits after the point.
    let mut root: u128 = 2 << 62;
    let mut turn = 0;
    while turn < TABLE_BITS {
        root = square_root(root << 62);
        turn += 1;
    }
    let mut table = [0; (1 << TABLE_BITS) + 1];
    let mut power: u128 = 1 << 62;
    let mut index = 0;
    while index <= 1 << TABLE_BITS {
        table[index] = (power >> (62 - FRACTION_BITS)) as u64;
        power = (power * root) >> 62;
        index += 1;
    }
    table[1 << TABLE_BITS] = 2 * ONE;
    table
}

const fn square_root(value: u128) -> u128 {
    let mut guess: u128 = 1 << 64;
    loop {
        let better = (guess + value / guess) >> 1;
        if better >= guess {
            return guess;
        }
        guess = better;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(fixed: u64) -> f64 {
        fixed as f64 / ONE as f64
    }

    #[test]
    fn logarithms_agree_with_floating_point() {
        for value in [1, 2, 3, 7, 1000, 1 << 40, (1 << 40) + 12345, u64::MAX] {
            assert!((float(log2(value)) - (value as f64).log2()).abs() < 1e-5, "{value}");
        }
    }

    #[test]
    fn powers_agree_with_floating_point() {
        for base in [1, 2, 10, 977, 100_000] {
            for exponent in [0, 500, 990, 1000, 1250] {
                let (ours, theirs) =
                    (float(power_below_one(base, exponent)), (base as f64).powf(-(exponent as f64) / 1000.0));
                assert!((ours - theirs).abs() < 1e-5, "{base}^-{exponent}: {ours} {theirs}");
            }
        }
    }

    #[test]
    fn exponential_variates_agree_with_floating_point() {
        for random in [1, 1 << 20, 1 << 63, u64::MAX - 1] {
            let theirs = -(random as f64 / 2f64.powi(64)).ln();
            assert!((float(exponential(random)) - theirs).abs() < 1e-4, "{random}");
        }
    }
}
