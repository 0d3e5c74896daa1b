//! Chunked framing as a machine over bytes (RFC 9112 §7.1).
//!
//! ```text
//! Size ─▶ SizeEnd ─▶ Data ─▶ DataCr ─▶ DataLf ─▶ Size …          a chunk
//!   └▶ Extension(…) ─▶ SizeEnd                                    its extensions, checked and
//! dropped SizeEnd of size 0 ─▶ Trailer(Start) ⇄ Trailer(Name, Value, End) ─▶ Trailer(LastLf) ─▶
//! done
//! ```
//!
//! Every line must end in CRLF, because attackers used a bare LF after a chunk size or in an
//! extension to make chunk parsers disagree. Trailer fields obey the syntax of header fields and
//! have no effect (RFC 9110 §6.5.1).

use super::BodyStep;
use crate::limits::ConnectionLimits;
use crate::rejection::Rejection;
use crate::scan;

/// The position of the next byte in the framing, and the remaining budgets.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    phase: ChunkPhase,
    /// Bytes of the present chunk that are still to come.
    left: u64,
    /// Content still allowed.
    content_left: u64,
    extension_bytes_left: usize,
    trailer_bytes_left: usize,
}

#[derive(Clone, Copy, Debug)]
enum ChunkPhase {
    Size { digits: u8 },
    Extension(Extension),
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    Trailer(Trailer),
    Done,
}

/// Inside `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug)]
enum Extension {
    BeforeSemicolon,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Token,
    Quoted,
    Escape,
    AfterQuoted,
}

#[derive(Clone, Copy, Debug)]
enum Trailer {
    Start,
    Name,
    Value,
    End,
    LastLf,
}

/// Hexadecimal digits of a chunk size: as many as 64 bits have, leading zeros included.
const SIZE_DIGITS_MAX: u8 = 16;

impl Chunks {
    pub(super) fn new(limits: &ConnectionLimits) -> Self {
        Self {
            phase: ChunkPhase::Size { digits: 0 },
            left: 0,
            content_left: limits.body_bytes,
            extension_bytes_left: limits.chunk_extension_bytes,
            trailer_bytes_left: limits.trailer_bytes,
        }
    }

    /// Consumes framing up to a run of content, and that run; or all of `input`.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<BodyStep, Rejection> {
        for (at, &byte) in input.iter().enumerate() {
            match self.phase {
                ChunkPhase::Data => return Ok(self.data(at, input.len())),
                ChunkPhase::Done => return Ok(BodyStep { consumed: at, data: at..at, done: true }),
                _ => self.phase = self.frame(byte)?,
            }
        }
        let done = matches!(self.phase, ChunkPhase::Done);
        Ok(BodyStep { consumed: input.len(), data: input.len()..input.len(), done })
    }

    fn data(&mut self, at: usize, end: usize) -> BodyStep {
        let len = usize::try_from(self.left).map_or(end - at, |left| left.min(end - at));
        self.left -= len as u64;
        if self.left == 0 {
            self.phase = ChunkPhase::DataCr;
        }
        BodyStep { consumed: at + len, data: at..at + len, done: false }
    }

    /// The phase after `byte`, which is not content.
    fn frame(&mut self, byte: u8) -> Result<ChunkPhase, Rejection> {
        match self.phase {
            ChunkPhase::Size { digits } => self.size(digits, byte),
            ChunkPhase::Extension(extension) => self.extension(extension, byte),
            ChunkPhase::SizeEnd if byte == b'\n' => self.size_end(),
            ChunkPhase::SizeEnd => Err(Rejection::BareCr),
            ChunkPhase::DataCr if byte == b'\r' => Ok(ChunkPhase::DataLf),
            ChunkPhase::DataLf if byte == b'\n' => Ok(ChunkPhase::Size { digits: 0 }),
            ChunkPhase::DataCr | ChunkPhase::DataLf => Err(Rejection::ChunkEnd),
            ChunkPhase::Trailer(trailer) => self.trailer(trailer, byte),
            ChunkPhase::Data | ChunkPhase::Done => unreachable!("not framing"),
        }
    }

    fn size(&mut self, digits: u8, byte: u8) -> Result<ChunkPhase, Rejection> {
        match (char::from(byte).to_digit(16), byte) {
            (Some(digit), _) if digits < SIZE_DIGITS_MAX => {
                self.left = self.left << 4 | u64::from(digit);
                Ok(ChunkPhase::Size { digits: digits + 1 })
            }
            (None, b'\r') if digits > 0 => Ok(ChunkPhase::SizeEnd),
            (None, b';') if digits > 0 => self.extension(Extension::BeforeSemicolon, byte),
            (None, b' ' | b'\t') if digits > 0 => self.extension(Extension::BeforeSemicolon, byte),
            (None, b'\n') if digits > 0 => Err(Rejection::BareLf),
            _ => Err(Rejection::ChunkSize),
        }
    }

    fn extension(&mut self, extension: Extension, byte: u8) -> Result<ChunkPhase, Rejection> {
        use Extension::*;
        let ends_line = byte == b'\r' && matches!(extension, Name | Token | AfterQuoted);
        if ends_line {
            return Ok(ChunkPhase::SizeEnd);
        }
        spend(&mut self.extension_bytes_left, Rejection::ChunkExtensionsTooLong)?;
        let next = match (extension, byte) {
            (BeforeSemicolon | BeforeName | AfterName | BeforeValue, b' ' | b'\t') => extension,
            (BeforeSemicolon | Name | AfterName | Token | AfterQuoted, b';') => BeforeName,
            (Name, b' ' | b'\t') => AfterName,
            (Token | AfterQuoted, b' ' | b'\t') => BeforeSemicolon,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeName | Name, _) if scan::is_token(byte) => Name,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Token, _) if scan::is_token(byte) => Token,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escape,
            (Quoted | Escape, _) if scan::is_text(byte) => Quoted,
            (_, b'\n') => return Err(Rejection::BareLf),
            _ => return Err(Rejection::ChunkExtension),
        };
        Ok(ChunkPhase::Extension(next))
    }

    fn size_end(&mut self) -> Result<ChunkPhase, Rejection> {
        match self.content_left.checked_sub(self.left) {
            None => Err(Rejection::BodyTooLong),
            Some(_) if self.left == 0 => Ok(ChunkPhase::Trailer(Trailer::Start)),
            Some(content_left) => {
                self.content_left = content_left;
                Ok(ChunkPhase::Data)
            }
        }
    }

    fn trailer(&mut self, trailer: Trailer, byte: u8) -> Result<ChunkPhase, Rejection> {
        if let (Trailer::LastLf, b'\n') = (trailer, byte) {
            return Ok(ChunkPhase::Done);
        }
        if let (Trailer::Start, b'\r') = (trailer, byte) {
            return Ok(ChunkPhase::Trailer(Trailer::LastLf));
        }
        spend(&mut self.trailer_bytes_left, Rejection::TrailersTooLong)?;
        let next = match (trailer, byte) {
            (Trailer::Start, b' ' | b'\t') => return Err(Rejection::LineFolding),
            (Trailer::Name, b':') => Trailer::Value,
            (Trailer::Start | Trailer::Name, _) if scan::is_token(byte) => Trailer::Name,
            (Trailer::Value, b'\r') => Trailer::End,
            (Trailer::Value, _) if scan::is_text(byte) => Trailer::Value,
            (Trailer::End, b'\n') => Trailer::Start,
            (Trailer::End | Trailer::LastLf, _) => return Err(Rejection::BareCr),
            (Trailer::Start | Trailer::Value, b'\n') => return Err(Rejection::BareLf),
            (Trailer::Start | Trailer::Name, _) => return Err(Rejection::FieldName),
            (Trailer::Value, _) => return Err(Rejection::FieldValue),
        };
        Ok(ChunkPhase::Trailer(next))
    }
}

fn spend(bytes_left: &mut usize, over: Rejection) -> Result<(), Rejection> {
    *bytes_left = bytes_left.checked_sub(1).ok_or(over)?;
    Ok(())
}
