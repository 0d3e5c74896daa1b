//! Compressed answers: the keys of `[compression]` and `[host.compress]`, and the rules that the
//! keys result in.
//!
//! The refusals are tested in `tests/compress.rs`.

use super::{
    answers::WrittenFields,
    describe::table,
    read::{At, FlagOr},
    resolve::{Problems, narrow},
    values::Size,
};
use std::sync::Arc;
use vermeil_files::{MediaRange, UnfitRange};
use vermeil_http::negotiate::Choice;
use vermeil_routing::hosts::{
    AnswerRules, CODINGS, COMPRESSED_BYTES_MIN, CompressionLevels, CompressionRules, HeaderRules,
    is_compressed,
};
use vermeil_settings::compression::{
    ANSWERS_MAX, CACHE_BYTES, CompressionOptions, FILE_BYTES_MAX, FILES_MAX,
};

table! {
    /// The bounds of compression, for all hosts with `compress` together.
    pub(super) struct CompressionTable {
        /// Memory for compressed contents of files, in bytes. At the bound the server evicts
        /// contents that were not asked for lately, and compresses them again when needed; 0 keeps
        /// none. An evicted content stays in memory, outside of this bound, until the clients that
        /// receive the content have it: at most one content for each connection, smaller than
        /// `file_bytes`. The status counts such contents too (`content_bytes`).
        cache_bytes: Size = Size::bytes(CACHE_BYTES); from 0, to 1 << 40,
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

/// The bounds.
pub(super) fn options(table: &CompressionTable) -> CompressionOptions {
    CompressionOptions {
        cache_bytes: table.cache_bytes.bytes,
        file_bytes_max: table.file_bytes.bytes,
        files_max: narrow(table.files_max),
        answers_max: narrow(table.answers_max),
    }
}

/// The compression of a host or a route.
struct CompressionKeys<'d> {
    /// The table with the key: `host` or `host.route`.
    table: &'static str,
    written: &'d WrittenCompression,
}

impl CompressionKeys<'_> {
    /// The rules. `None` without the key; the rules are `None` if nothing is compressed.
    fn rules(&self, headers: &HeaderRules, problems: &mut Problems) -> Option<Option<Arc<CompressionRules>>> {
        let At { value, at } = self.written.as_ref()?;
        let rules = match value {
            FlagOr::Flag(false) => return Some(None),
            FlagOr::Flag(true) => CompressionRules::default(),
            FlagOr::Table(table) => self.of_table(table, problems),
        };
        if headers.forbid_transformation() {
            let what = "Cache-Control in headers has no-transform, which forbids compression; leave out one of \
                        both";
            problems.push(at, &format!("{}.compress", self.table), what);
        }
        Some(Some(Arc::new(rules)))
    }

    fn of_table(&self, table: &CompressTable, problems: &mut Problems) -> CompressionRules {
        let default = CompressionRules::default();
        let codings = match &table.codings {
            Some(written) => self.codings(written, problems),
            None => CODINGS.into(),
        };
        let levels = [
            (Choice::Gzip, "gzip_level", &table.gzip_level),
            (Choice::Br, "brotli_level", &table.brotli_level),
            (Choice::Zstd, "zstd_level", &table.zstd_level),
        ];
        for (coding, key, level) in levels {
            if let Some(At { at, .. }) = level.as_ref().filter(|_| !codings.contains(&coding)) {
                let name = coding.content_encoding().unwrap_or_default();
                let what = format!("codings does not have \"{name}\"; add the coding, or leave this key out");
                problems.push(at, &format!("{}.compress.{key}", self.table), what);
            }
        }
        let level = |written: &Option<At<u64>>, default: u8| match written {
            Some(At { value, .. }) => u8::try_from(*value).expect("bounded"),
            None => default,
        };
        CompressionRules {
            types: match &table.types {
                Some(written) => self.types(written, problems),
                None => default.types,
            },
            bytes_min: table.min_size.bytes,
            codings,
            levels: CompressionLevels {
                gzip: level(&table.gzip_level, default.levels.gzip),
                br: level(&table.brotli_level, default.levels.br),
                zstd: level(&table.zstd_level, default.levels.zstd),
            },
        }
    }

    fn codings(&self, written: &At<Vec<At<Choice>>>, problems: &mut Problems) -> Vec<Choice> {
        let key = format!("{}.compress.codings", self.table);
        if written.value.is_empty() {
            problems.push(&written.at, &key, "no coding is named; name one, or write compress = false");
        }
        let mut codings = Vec::new();
        for At { value, at } in &written.value {
            match codings.contains(value) {
                true => problems.push(at, &key, "this coding is named already"),
                false => codings.push(*value),
            }
        }
        codings
    }

    fn types(&self, written: &At<Vec<At<String>>>, problems: &mut Problems) -> Vec<MediaRange> {
        let key = format!("{}.compress.types", self.table);
        if written.value.is_empty() {
            problems.push(&written.at, &key, "no media type is named; name one, or write compress = false");
        }
        let mut types = Vec::new();
        for At { value, at } in &written.value {
            match value.parse() {
                Ok(_) if is_compressed(value) => {
                    let what = format!("the content of {value} is compressed already; leave the type out");
                    problems.push(at, &key, what);
                }
                Ok(range) => types.push(range),
                Err(why) => problems.push(at, &key, UnfitRange::to_string(&why)),
            }
        }
        types
    }
}

/// The rules of a host for its answers, with its compression.
pub(super) fn of_host(
    rules: AnswerRules,
    written: &WrittenCompression,
    problems: &mut Problems,
) -> AnswerRules {
    let keys = CompressionKeys { table: "host", written };
    let compression = keys.rules(&rules.headers, problems).flatten();
    AnswerRules { compression, ..rules }
}

/// The rules of a route, which include those of its host; `None` if the route has none of its own.
pub(super) fn of_route(
    host: &AnswerRules,
    fields: &WrittenFields<'_>,
    written: &WrittenCompression,
    problems: &mut Problems,
) -> Option<AnswerRules> {
    let keys = CompressionKeys { table: fields.table, written };
    let own = fields.rules(problems);
    let compression = keys.rules(&own, problems);
    if own.is_empty() && compression.is_none() {
        return None;
    }
    let headers = host.headers.with(&own);
    let compression = compression.unwrap_or_else(|| host.compression.clone());
    let compression = compression.filter(|_| !headers.forbid_transformation());
    Some(AnswerRules { headers, compression, ..host.clone() })
}
