//! Values of records that earlier versions wrote.

use serde::{Deserialize, Deserializer};

/// An optional time. Old records have zero in place of a missing time.
pub(crate) fn unless_zero<'de, D: Deserializer<'de>, T: Deserialize<'de> + Zero>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.filter(|times| !times.is_zero()))
}

/// A value that means a missing value in old records.
pub(crate) trait Zero {
    fn is_zero(&self) -> bool;
}

impl Zero for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl Zero for [Option<u64>; 5] {
    fn is_zero(&self) -> bool {
        self.iter().all(|time| time.is_none_or(|time| time == 0))
    }
}
