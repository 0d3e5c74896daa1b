//! Compressed answers: the rules that the keys of `[compression]` and `[host.compress]` result in.
//!
//! Leaves out the keys (`compress_tables.rs`). The refusals are tested in `tests/compress.rs`.

use super::{
    answers::WrittenFields,
    compress_tables::{CompressTable, CompressionTable, WrittenCompression},
    problems::Problems,
    read::{At, FlagOr, narrow},
};
use std::sync::Arc;
use vermeil_files::{MediaRange, UnfitRange};
use vermeil_http::negotiate::Choice;
use vermeil_routing::hosts::{
    AnswerRules, CODINGS, CompressionLevels, CompressionRules, HeaderRules, is_compressed,
};
use vermeil_settings::compression::CompressionOptions;

/// The bounds.
pub(super) fn options(table: &CompressionTable, instances: usize) -> CompressionOptions {
    let here = CompressionOptions::of_each(instances);
    CompressionOptions {
        cache_bytes: table.cache_bytes.map_or(here.cache_bytes, |size| size.bytes),
        sending_bytes: table.sending_bytes.bytes,
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
