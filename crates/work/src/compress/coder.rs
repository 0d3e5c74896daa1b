//! The encoders of the three codings behind one interface: a piece of content in, coded bytes out.
//!
//! Leaves out the choice of the coding and the place where the encoders run. Tested below.

use super::coded_cache::CodedName;
use brotli::{CompressorWriter, enc::BrotliEncoderParams};
use flate2::{Compress, Compression, FlushCompress, Status as DeflateStatus};
use std::{
    io::{self, Write as _},
    mem,
};
use vermeil_files::Variant;
use vermeil_http::negotiate::Choice;
use zstd::{stream::raw::CParameter, stream::write::Encoder as ZstdEncoder};

/// The window of encoders of contents of unknown length, as a power of two: 512 KiB. A larger
/// window takes memory for each answer that is being compressed, and pages are seldom longer.
const STREAM_WINDOW_BITS: u8 = 19;

/// The largest window of Brotli and of Zstandard, as a power of two: 1 MiB. The tables of an
/// encoder grow with its window. Clients must accept windows of 8 MiB (RFC 9659 §3).
const WINDOW_BITS_MAX: u8 = 20;

/// The levels of Zstandard above this level have tables that are larger than a window, unless the
/// encoder knows the length of the content.
const ZSTD_LEVEL_OF_SMALL_TABLES: u8 = 6;

/// The input block of Brotli, as a power of two: the smallest at high levels, because the encoder
/// compresses a block in a single step.
const BR_BLOCK_BITS: i32 = 16;

/// The smallest window of Brotli and of Zstandard, as a power of two.
const WINDOW_BITS_MIN: u8 = 10;

/// The smallest and largest window of gzip, as powers of two.
const GZIP_WINDOW_BITS: (u8, u8) = (9, 15);

/// Bytes that coded output grows by. Larger than the marker of a flush, as zlib asks for.
const OUTPUT_BYTES: usize = 8 * 1024;

/// A coding, its level, and the length of the content if the length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoderPlan {
    /// The coding.
    pub coding: Choice,
    /// The level of the coding.
    pub level: u8,
    /// The length of the content, if known.
    pub bytes: Option<u64>,
}

impl CoderPlan {
    /// The name of the content of a file in this coding.
    pub fn name_of(self, variant: &Variant) -> CodedName<'_> {
        let Self { coding, level, .. } = self;
        CodedName { device: variant.device(), tag: variant.tag(), coding, level }
    }
}

/// The end of a piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// More follows at once.
    More,
    /// The client must be able to decode everything so far.
    Flush,
    /// The content ends.
    Content,
}

/// An encoder, which is made where it runs, because that takes time too.
pub(super) enum ContentCoder {
    Planned(CoderPlan),
    Gzip(Box<Compress>),
    Br(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

/// Coded bytes, and the encoder for further content.
pub(super) struct CodedPiece {
    pub(super) bytes: Vec<u8>,
    /// `None` after the end of the content.
    pub(super) coder: Option<ContentCoder>,
}

impl ContentCoder {
    /// Codes `input`.
    ///
    /// # Errors
    /// The encoder has no memory.
    pub(super) fn code(self, input: &[u8], end: PieceEnd) -> io::Result<CodedPiece> {
        match self {
            Self::Planned(plan) => Self::made(plan)?.code(input, end),
            Self::Gzip(mut coder) => {
                let bytes = deflate(&mut coder, input, end)?;
                let coder = (end != PieceEnd::Content).then_some(Self::Gzip(coder));
                Ok(CodedPiece { bytes, coder })
            }
            Self::Br(mut coder) => {
                coder.write_all(input)?;
                if end == PieceEnd::Content {
                    return Ok(CodedPiece { bytes: coder.into_inner(), coder: None });
                }
                if end == PieceEnd::Flush {
                    coder.flush()?;
                }
                Ok(CodedPiece { bytes: mem::take(coder.get_mut()), coder: Some(Self::Br(coder)) })
            }
            Self::Zstd(mut coder) => {
                coder.write_all(input)?;
                if end == PieceEnd::Content {
                    return Ok(CodedPiece { bytes: coder.finish()?, coder: None });
                }
                if end == PieceEnd::Flush {
                    coder.flush()?;
                }
                Ok(CodedPiece { bytes: mem::take(coder.get_mut()), coder: Some(Self::Zstd(coder)) })
            }
        }
    }

    fn made(plan: CoderPlan) -> io::Result<Self> {
        let CoderPlan { coding, level, bytes } = plan;
        let bits = window_bits(bytes);
        Ok(match coding {
            Choice::Identity => unreachable!("the identity needs no encoder"),
            Choice::Gzip => {
                let (least, most) = GZIP_WINDOW_BITS;
                let level = Compression::new(level.into());
                Self::Gzip(Box::new(Compress::new_gzip(level, bits.clamp(least, most))))
            }
            Choice::Br => {
                let params = BrotliEncoderParams {
                    quality: level.into(),
                    lgwin: bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX).into(),
                    lgblock: BR_BLOCK_BITS,
                    size_hint: bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0),
                    ..BrotliEncoderParams::default()
                };
                Self::Br(Box::new(CompressorWriter::with_params(Vec::new(), OUTPUT_BYTES, &params)))
            }
            Choice::Zstd => {
                let mut coder = ZstdEncoder::new(Vec::new(), level.into())?;
                let bits = bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX);
                coder.set_parameter(CParameter::WindowLog(bits.into()))?;
                if bytes.is_none() && level > ZSTD_LEVEL_OF_SMALL_TABLES {
                    coder.set_parameter(CParameter::HashLog(bits.into()))?;
                    coder.set_parameter(CParameter::ChainLog(bits.into()))?;
                }
                coder.set_pledged_src_size(bytes)?;
                Self::Zstd(Box::new(coder))
            }
        })
    }
}

/// The window that holds a content of `bytes`, as a power of two.
fn window_bits(bytes: Option<u64>) -> u8 {
    match bytes {
        // Below 65, so this fits.
        Some(bytes) => (u64::BITS - bytes.leading_zeros()) as u8,
        None => STREAM_WINDOW_BITS,
    }
}

fn deflate(coder: &mut Compress, input: &[u8], end: PieceEnd) -> io::Result<Vec<u8>> {
    let flush = match end {
        PieceEnd::More => FlushCompress::None,
        PieceEnd::Flush => FlushCompress::Sync,
        PieceEnd::Content => FlushCompress::Finish,
    };
    let (mut out, mut at) = (Vec::with_capacity(OUTPUT_BYTES + input.len() / 4), 0);
    loop {
        if out.capacity() - out.len() < OUTPUT_BYTES {
            out.reserve(OUTPUT_BYTES);
        }
        let before = coder.total_in();
        let status = coder.compress_vec(&input[at..], &mut out, flush)?;
        at += usize::try_from(coder.total_in() - before).expect("no more than was given");
        // With room left, the encoder has nothing more to say.
        let is_done = at == input.len() && out.len() < out.capacity();
        match status {
            DeflateStatus::StreamEnd => return Ok(out),
            _ if is_done && end != PieceEnd::Content => return Ok(out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const CODINGS: [Choice; 3] = [Choice::Gzip, Choice::Br, Choice::Zstd];

    fn decoded(coding: Choice, coded: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Choice::Identity => out.extend_from_slice(coded),
            Choice::Gzip => {
                flate2::read::GzDecoder::new(coded).read_to_end(&mut out).expect("gzip");
            }
            Choice::Br => {
                brotli::Decompressor::new(coded, 4096).read_to_end(&mut out).expect("brotli");
            }
            Choice::Zstd => {
                zstd::stream::read::Decoder::new(coded)
                    .and_then(|mut decoder| decoder.read_to_end(&mut out))
                    .expect("zstd");
            }
        }
        out
    }

    /// Text that is neither uniform nor random.
    fn text(bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("word{} ", (state >> 16) % 900)
        };
        let mut text = Vec::with_capacity(bytes + 8);
        while text.len() < bytes {
            text.extend_from_slice(word().as_bytes());
        }
        text.truncate(bytes);
        text
    }

    fn coded(coding: Choice, level: u8, input: &[u8], piece: usize, end: PieceEnd) -> Vec<u8> {
        let mut coder = ContentCoder::Planned(CoderPlan { coding, level, bytes: None });
        let mut out = Vec::new();
        for piece in input.chunks(piece) {
            let done = coder.code(piece, end).expect("coded");
            out.extend_from_slice(&done.bytes);
            coder = done.coder.expect("not at the end");
        }
        let done = coder.code(b"", PieceEnd::Content).expect("coded");
        assert!(done.coder.is_none());
        out.extend_from_slice(&done.bytes);
        out
    }

    #[test]
    fn coded_content_decodes_to_input() {
        for coding in CODINGS {
            for level in [1, 5, 9] {
                for (bytes, piece) in [(0, 1), (1, 1), (5_000, 7), (300_000, 65_536), (300_000, 300_000)] {
                    let input = text(bytes);
                    for end in [PieceEnd::More, PieceEnd::Flush] {
                        let out = coded(coding, level, &input, piece, end);
                        assert_eq!(decoded(coding, &out), input, "{coding:?} {level} {bytes} {piece}");
                    }
                }
            }
        }
    }

    #[test]
    fn known_length_gives_short_output() {
        for coding in CODINGS {
            let input = text(100_000);
            let plan = CoderPlan { coding, level: 6, bytes: Some(100_000) };
            let done = ContentCoder::Planned(plan).code(&input, PieceEnd::Content).expect("coded");
            assert!(done.bytes.len() < 50_000, "{coding:?}: {}", done.bytes.len());
            assert_eq!(decoded(coding, &done.bytes), input);
        }
    }

    /// An event must reach the client without the next one.
    #[test]
    fn flush_makes_piece_decodable() {
        for coding in CODINGS {
            let coder = ContentCoder::Planned(CoderPlan { coding, level: 5, bytes: None });
            let done = coder.code(b"data: first event\n\n", PieceEnd::Flush).expect("coded");
            let mut begun = [0; 19];
            let read = match coding {
                Choice::Gzip => flate2::read::GzDecoder::new(&done.bytes[..]).read_exact(&mut begun),
                Choice::Br => brotli::Decompressor::new(&done.bytes[..], 4096).read_exact(&mut begun),
                _ => zstd::stream::read::Decoder::new(&done.bytes[..])
                    .and_then(|mut decoder| decoder.read_exact(&mut begun)),
            };
            read.expect("decodable");
            assert_eq!(&begun, b"data: first event\n\n", "{coding:?}");
        }
    }
}
