//! Finds the pixels in a binary Netpbm image (pgm(5), ppm(5)): the simplest format that every tool
//! reads.

/// The position of the first pixel in a gray (`P5`) or color (`P6`) image of 8 bits per sample;
/// `None` for any other format, and for an image whose number of pixels does not match the head.
pub fn pixels_at(image: &[u8]) -> Option<usize> {
    let samples = match image.get(..2)? {
        b"P5" => 1,
        b"P6" => 3,
        _ => return None,
    };
    let mut at = 2;
    let width = number(image, &mut at)?;
    let height = number(image, &mut at)?;
    let most = number(image, &mut at)?;
    // A single white space ends the head, because a pixel may look like white space.
    at += 1;
    let bytes = width.checked_mul(height)?.checked_mul(samples)?;
    (most == 255 && at.checked_add(bytes) == Some(image.len())).then_some(at)
}

/// The head of a gray image.
pub fn gray_head(width: usize, height: usize) -> String {
    format!("P5\n{width} {height}\n255\n")
}

/// The next number after white space and comments.
fn number(image: &[u8], at: &mut usize) -> Option<usize> {
    loop {
        match image.get(*at)? {
            b'#' => *at += image[*at..].iter().position(|&byte| byte == b'\n')?,
            byte if byte.is_ascii_whitespace() => *at += 1,
            _ => break,
        }
    }
    let digits = image[*at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&image[*at..*at + digits]).ok()?;
    *at += digits;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_with_their_comments() {
        assert_eq!(pixels_at(b"P5\n2 1\n255\n\n\n"), Some(11));
        assert_eq!(pixels_at(b"P6 # made by hand\n1 1 255 abc"), Some(26));
        let image = [gray_head(3, 2).as_bytes(), &[0; 6]].concat();
        assert_eq!(pixels_at(&image), Some(image.len() - 6));
    }

    #[test]
    fn malformed_image_has_no_pixels() {
        for image in [&b""[..], b"P4\n1 1\n255\na", b"P5\n2 2\n255\nabc", b"P5\n1 1\n65535\nab", b"P5\n1"] {
            assert_eq!(pixels_at(image), None);
        }
        assert_eq!(pixels_at(format!("P5 {} {} 255 ", usize::MAX, usize::MAX).as_bytes()), None);
    }
}
