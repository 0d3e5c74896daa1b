//! The keys of `[compression]` and `[host.compress]`.
//!
//! Leaves out the resulting rules (`compress.rs`).

use super::{
    read::{At, FlagOr},
    tables::table,
    values::Size,
};
use vermeil_http::negotiate::Choice;
use vermeil_routing::hosts::COMPRESSED_BYTES_MIN;
use vermeil_settings::compression::{ANSWERS_MAX, FILE_BYTES_MAX, FILES_MAX, SENDING_BYTES};

table! {
    /// The bounds of compression, for all hosts with `compress` together.
    pub(super) struct CompressionTable {
        /// Memory for compressed contents of files, in bytes. At the bound the server evicts
        /// contents that were not asked for lately, and compresses them again when needed; 0 keeps
        /// none. An evicted content stays in memory until the clients that receive the content have
        /// it; `sending_bytes` bounds such contents. Without the key: an 800th of the memory that
        /// the server may use, at least 16M.
        cache_bytes: Option<Size> = None; from 0, to 1 << 40,
        /// Memory for compressed contents of files outside of the cache, which clients still
        /// receive, in bytes. Above the bound, files whose compressed content is not in the cache
        /// go as they are. Files that are being compressed at that time, at most `files_max`, may
        /// exceed the bound.
        sending_bytes: Size = Size::bytes(SENDING_BYTES); from 0, to 1 << 40,
        /// The largest file that is compressed, in bytes. Larger files go as they are; a
        /// precompressed file beside such a file (`NAME.zst`, `NAME.br`, `NAME.gz`) is still sent.
        file_bytes: Size = Size::bytes(FILE_BYTES_MAX); from 0, to 1 << 30,
        /// The most files that are compressed at once: up to 25 MB each, with a file of 8 MB and
        /// the default levels. Further files go as they are until one is done.
        files_max: u64 = FILES_MAX as u64; from 1, to 1 << 16,
        /// The most answers of programs that are compressed at once: up to 3 MB each at the default
        /// levels, and 10 MB at the highest. Further answers go as they are.
        answers_max: u64 = ANSWERS_MAX as u64; from 1, to 1 << 20,
    }
}

table! {
    /// Which answers are compressed, and how: files and answers of programs whose client accepts a
    /// coding. `[host.route.compress]` stands below its `[[host.route]]`, and takes the place of
    /// all keys of the host. An answer goes as it is if its `Cache-Control` has `no-transform`, if
    /// a program has set `Content-Encoding`, or for a range. Example:
    /// `compress = { codings = ["br", "gzip"], brotli_level = 4, min_size = "2K" }`. See
    /// [compression.md](compression.md).
    pub(super) struct CompressTable {
        /// The media types, such as `"text/css"`, `"font/*"` or `"*"`. Types whose content is
        /// compressed already, for example `image/png`, are always left alone. Without the key:
        /// text, JavaScript, JSON, XML, SVG, WebAssembly and uncompressed fonts. Example:
        /// `["text/*", "application/json"]`.
        types: Option<At<Vec<At<String>>>> = None,
        /// The shortest content that is compressed, in bytes. Content of unknown length counts as
        /// long.
        min_size: Size = Size::bytes(COMPRESSED_BYTES_MIN); from 0, to 1 << 30,
        /// The codings, the first choice first. A client that prefers another coding gets that one.
        /// Without the key: `["zstd", "br", "gzip"]`. Example: `["br", "gzip"]`.
        codings: Option<At<Vec<At<Choice>>>> = None,
        /// The level of gzip: 1 is fast, 9 is short. Without the key: 6.
        gzip_level: Option<At<u64>> = None; from 1, to 9,
        /// The level of Brotli: 0 is fast, 11 is short and far too slow for answers of programs.
        /// Without the key: 5.
        brotli_level: Option<At<u64>> = None; from 0, to 11,
        /// The level of Zstandard: 1 is fast, 19 is short. Without the key: 3.
        zstd_level: Option<At<u64>> = None; from 1, to 19,
    }
}

/// The key `compress` of a host or a route.
pub(super) type WrittenCompression = Option<At<FlagOr<CompressTable>>>;
