//! Which answers of a host or a route the server compresses, and how: the key `compress`.
//!
//! Leaves out the compression itself. Tested below, and through the binary
//! (`crates/e2e/tests/e2e/compression.rs`).

use vermeil_files::MediaRange;
use vermeil_http::negotiate::Choice;

/// The rules for compressed answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompressionRules {
    /// The media types of compressed answers.
    pub types: Vec<MediaRange>,
    /// The shortest compressed answer, in bytes of its content.
    pub bytes_min: u64,
    /// The codings, the first choice first. None twice, and never the identity.
    pub codings: Vec<Choice>,
    /// The level of each coding.
    pub levels: CompressionLevels,
}

/// The level of each coding: higher levels make shorter answers and take more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompressionLevels {
    /// Of gzip, from 1 to 9. Default 6, the default of gzip itself.
    pub gzip: u8,
    /// Of Brotli, from 0 to 11. Default 5, the first level that models contexts.
    pub br: u8,
    /// Of Zstandard, from 1 to 19. Default 3, the default of zstd itself.
    pub zstd: u8,
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self { gzip: 6, br: 5, zstd: 3 }
    }
}

impl CompressionLevels {
    /// The level of `coding`.
    pub fn of(self, coding: Choice) -> u8 {
        match coding {
            Choice::Identity => 0,
            Choice::Br => self.br,
            Choice::Zstd => self.zstd,
            Choice::Gzip => self.gzip,
        }
    }
}

/// The media types that are compressed if no others are configured.
pub const COMPRESSED_TYPES: [&str; 15] = [
    "text/*",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/wasm",
    "application/xml",
    "application/atom+xml",
    "application/rss+xml",
    "application/xhtml+xml",
    "application/vnd.ms-fontobject",
    "font/otf",
    "font/ttf",
    "image/svg+xml",
    "image/x-icon",
];

/// The shortest compressed answer, in bytes of its content. Default 1,024, because a shorter answer
/// fits a packet with its head, compressed or not.
pub const COMPRESSED_BYTES_MIN: u64 = 1024;

/// The codings, the first choice first. Zstandard compresses several times faster than the others
/// at a similar length (bench `compression`).
pub const CODINGS: [Choice; 3] = [Choice::Zstd, Choice::Br, Choice::Gzip];

impl Default for CompressionRules {
    fn default() -> Self {
        let fits = |types: &str| types.parse().expect("a media type");
        Self {
            types: COMPRESSED_TYPES.map(fits).into(),
            bytes_min: COMPRESSED_BYTES_MIN,
            codings: CODINGS.into(),
            levels: CompressionLevels::default(),
        }
    }
}

impl CompressionRules {
    /// Whether answers with this `Content-Type` are compressed.
    pub fn include(&self, content_type: &str) -> bool {
        !is_compressed(content_type) && self.types.iter().any(|types| types.contains(content_type))
    }
}

/// Whether the content of a media type is compressed already.
pub fn is_compressed(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("image", name)) => {
            !matches!(name, "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon" | "x-ms-bmp")
        }
        Some(("video", _)) => true,
        Some(("audio", name)) => !matches!(name, "wav" | "x-wav" | "midi" | "vnd.wave" | "*"),
        Some(("font", name)) => matches!(name, "woff" | "woff2"),
        Some(("application", name)) => COMPRESSED_APPLICATIONS.contains(&name),
        _ => false,
    }
}

/// The names of compressed media types below `application`.
const COMPRESSED_APPLICATIONS: [&str; 17] = [
    "epub+zip",
    "font-woff",
    "gzip",
    "java-archive",
    "ogg",
    "vnd.android.package-archive",
    "vnd.debian.binary-package",
    "vnd.rar",
    "x-7z-compressed",
    "x-bzip",
    "x-bzip2",
    "x-gzip",
    "x-rar-compressed",
    "x-redhat-package-manager",
    "x-xz",
    "zip",
    "zstd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_rules_include_text_and_no_images() {
        let rules = CompressionRules::default();
        for included in [
            "text/html; charset=utf-8",
            "TEXT/CSS",
            "text/event-stream",
            "application/json",
            "image/svg+xml; charset=utf-8",
        ] {
            assert!(rules.include(included), "{included}");
        }
        for excluded in ["image/png", "font/woff2", "application/zip", "application/octet-stream", ""] {
            assert!(!rules.include(excluded), "{excluded}");
        }
    }

    #[test]
    fn rules_for_all_types_leave_out_compressed_types() {
        let rules =
            CompressionRules { types: vec!["*".parse().expect("a type")], ..CompressionRules::default() };
        assert!(rules.include("application/octet-stream") && rules.include("image/bmp"));
        for compressed in ["image/png", "video/mp4", "audio/mpeg", "application/gzip", "Font/WOFF2; a=b"] {
            assert!(!rules.include(compressed), "{compressed}");
        }
    }
}
