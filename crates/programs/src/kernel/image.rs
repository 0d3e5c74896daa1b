//! Images and filters.
//!
//! A filter multiplies every pixel, adds a constant and takes the remainder to 256: a pass over
//! memory with almost no computing, like the filters in Genevès' thesis on placing handlers.
//! Filters compose to a filter of the same form, which serves to check results.

use std::time::Duration;

/// A pass: each pixel becomes `pixel * multiply + add`, modulo 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The factor; an odd factor loses no information.
    pub multiply: u8,
    /// The term.
    pub add: u8,
}

impl Filter {
    /// The filter of a pipeline's stage.
    pub fn of_stage(stage: usize) -> Self {
        Self { multiply: (2 * stage + 3) as u8, add: (5 * stage + 1) as u8 }
    }

    /// The composition of a row of stages.
    ///
    /// # Panics
    /// Without stages.
    pub fn of_row(stages: usize) -> Self {
        (0..stages).map(Self::of_stage).reduce(Self::then).expect("a row has a stage")
    }

    /// The new value of a pixel.
    pub fn pixel(self, pixel: u8) -> u8 {
        pixel.wrapping_mul(self.multiply).wrapping_add(self.add)
    }

    /// Passes over the image.
    pub fn pass(self, pixels: &mut [u8]) {
        for pixel in pixels {
            *pixel = self.pixel(*pixel);
        }
    }

    /// The composition of this filter and then `next`.
    pub fn then(self, next: Self) -> Self {
        Self { multiply: self.multiply.wrapping_mul(next.multiply), add: next.pixel(self.add) }
    }
}

/// Approximate time of a pass over an image, from a cache that all cores share: some 20 bytes per
/// nanosecond.
pub fn pass_cost(image_bytes: usize) -> Duration {
    Duration::from_nanos(image_bytes as u64 / 20)
}

/// Draws image `number` over the contents of `pixels`.
pub fn draw(pixels: &mut [u8], number: u64) {
    let shade = (number as u8).wrapping_mul(31);
    for (x, pixel) in pixels.iter_mut().enumerate() {
        *pixel = (x as u8).wrapping_mul(7).wrapping_add(shade);
    }
}

/// The sum of all pixels.
pub fn sum(pixels: &[u8]) -> u64 {
    pixels.iter().map(|&pixel| u64::from(pixel)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compose() {
        let (one, two) = (Filter::of_stage(0), Filter::of_stage(9));
        let mut pixels: Vec<u8> = (0..=255).collect();
        let joined: Vec<u8> = pixels.iter().map(|&pixel| one.then(two).pixel(pixel)).collect();
        one.pass(&mut pixels);
        two.pass(&mut pixels);
        assert_eq!(pixels, joined);
        assert_eq!(sum(&pixels), 255 * 128, "odd factors only permute");
    }
}
