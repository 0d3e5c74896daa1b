//! The content of files: words of eight bytes, each a function of the file's path and the word's
//! offset.
//!
//! One multiplication yields eight bytes, so verifying costs less than receiving. A missing or
//! doubled byte, or a byte of another file or offset, changes the content. Tested here.

/// Checks received content.
#[derive(Clone, Debug)]
pub struct ContentCheck {
    key: u64,
    offset: u64,
    is_right: bool,
}

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The key of a path: FNV-1a, 64 bits, spread over the word.
fn key(path: &str) -> u64 {
    let hash = path.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    hash.wrapping_mul(ODD) | 1
}

fn word(key: u64, index: u64) -> [u8; 8] {
    let product = (index ^ key).wrapping_mul(ODD);
    (product ^ (product >> 29)).to_le_bytes()
}

/// Fills `buffer` with the content of the file at `path` from `offset`.
pub fn fill(path: &str, offset: u64, buffer: &mut [u8]) {
    let key = key(path);
    let mut at = offset;
    let mut rest = buffer;
    while !rest.is_empty() {
        let bytes = &word(key, at / 8)[(at % 8) as usize..];
        let count = bytes.len().min(rest.len());
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&bytes[..count]);
        at += count as u64;
        rest = later;
    }
}

impl ContentCheck {
    /// A check of the file at `path`, from its beginning.
    pub fn of(path: &str) -> Self {
        Self { key: key(path), offset: 0, is_right: true }
    }

    /// Compares the next received bytes.
    pub fn check(&mut self, bytes: &[u8]) {
        let lead = bytes.len().min((8 - self.offset % 8) as usize % 8);
        let (lead, rest) = bytes.split_at(lead);
        self.compare(lead);
        let mut words = rest.chunks_exact(8);
        let (mut index, mut differs) = (self.offset / 8, 0u64);
        for bytes in &mut words {
            let bytes: [u8; 8] = bytes.try_into().expect("chunks of eight");
            differs |= u64::from_le_bytes(bytes) ^ u64::from_le_bytes(word(self.key, index));
            index += 1;
        }
        self.offset += (rest.len() - words.remainder().len()) as u64;
        self.is_right &= differs == 0;
        self.compare(words.remainder());
    }

    /// Compares bytes that lie within one word.
    fn compare(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = (self.offset % 8) as usize;
        let expected = word(self.key, self.offset / 8);
        self.is_right &= expected[at..at + bytes.len()] == *bytes;
        self.offset += bytes.len() as u64;
    }

    /// Whether all bytes were right, and the length is `length`.
    pub fn is_whole(&self, length: u64) -> bool {
        self.is_right && self.offset == length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/support/dir0000000001/class0_0";

    fn whole(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill(PATH, 0, &mut bytes);
        bytes
    }

    fn is_right(pieces: &[&[u8]], length: u64) -> bool {
        let mut content = ContentCheck::of(PATH);
        pieces.iter().for_each(|piece| content.check(piece));
        content.is_whole(length)
    }

    #[test]
    fn any_cut_is_right() {
        let bytes = whole(100);
        for one in 0..bytes.len() {
            for other in one..bytes.len() {
                assert!(is_right(&[&bytes[..one], &bytes[one..other], &bytes[other..]], 100));
            }
        }
        let mut middle = vec![0; 20];
        fill(PATH, 37, &mut middle);
        assert_eq!(middle, bytes[37..57]);
    }

    #[test]
    fn any_wrong_byte_is_found() {
        for wrong in 0..100 {
            let mut bytes = whole(100);
            bytes[wrong] ^= 1;
            assert!(!is_right(&[&bytes], 100), "byte {wrong}");
        }
    }

    #[test]
    fn missing_doubled_or_foreign_bytes_are_found() {
        let bytes = whole(64 * 1024);
        assert!(!is_right(&[&bytes[..65_535]], 65_536));
        assert!(!is_right(&[&bytes, &bytes[..1]], 65_536));
        let doubled = [&bytes[..4096], &bytes[..4096], &bytes[4096..]].concat();
        assert!(!is_right(&[&doubled[..65_536]], 65_536));
        let mut other = vec![0; 65_536];
        fill("/support/dir0000000001/class0_1", 0, &mut other);
        assert!(!is_right(&[&other], 65_536));
    }
}
