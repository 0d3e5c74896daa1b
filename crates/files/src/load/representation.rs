//! The rules for the representations of a file. The cold and the regular look-up share the rules,
//! so an answer does not depend on whether its path was asked for lately.
//!
//! Tested in `tests/heads.rs` and `tests/siblings.rs`, which ask for each path twice.

use super::super::{
    content::{Charge, Content},
    entry::{EntryOutcome, FileEntry},
    open::{FileTime, FileValidator},
    options::{SiteOptions, StoreOptions},
    variant::{Dated, FileRole, TagSource, Variant, VariantParts, Varies, media::media_type},
};
use foldhash::quality::FixedState;
use std::{
    hash::{BuildHasher, Hasher},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use vermeil_http::negotiate::{Choice, EncodingSet};

/// The file that all representations of an answer stand for.
pub(super) struct Original<'a> {
    /// The path, without the suffix of a sibling.
    pub(super) path: &'a [u8],
    pub(super) role: FileRole,
    pub(super) varies: Varies,
    pub(super) options: &'a SiteOptions,
}

/// The content of a representation, as a look-up found it.
pub(super) struct FoundContent {
    pub(super) content: Content,
    pub(super) charge: Option<Charge>,
    pub(super) validator: FileValidator,
    pub(super) tag: TagSource,
    pub(super) dated: Dated,
    /// The index of the entry's probe that found the file.
    pub(super) probe: usize,
}

impl Original<'_> {
    /// The representation in `coding`.
    pub(super) fn variant(&self, coding: Choice, found: FoundContent) -> Variant {
        let Self { path, role, varies, options } = *self;
        let FoundContent { content, charge, validator, tag, dated, probe } = found;
        let media_type = media_type(path, &options.types);
        let caching = options.caching.iter().find(|of| of.types.contains(&media_type));
        Variant::new(VariantParts {
            caching: caching.map(|of| of.value.clone()),
            tags: options.tags,
            validator,
            coding,
            media_type,
            varies,
            role,
            tag,
            dated,
            content,
            charge,
            probe,
        })
    }
}

/// A file with its siblings.
pub(super) fn file_entry(identity: Variant, siblings: Vec<Variant>) -> FileEntry {
    let codings = siblings.iter().fold(EncodingSet::NONE, |codings, sibling| codings.with(sibling.coding()));
    FileEntry { identity, siblings, codings, index_name: None }
}

/// Notes that a folder answers with `outcome`, the index page of this name.
pub(super) fn as_index_page(mut outcome: EntryOutcome, name: &str) -> EntryOutcome {
    if let EntryOutcome::File(file) = &mut outcome {
        file.index_name = Some(name.into());
    }
    outcome
}

/// Whether the answer depends on `Accept-Encoding`.
pub(super) fn varies<T>(siblings: &[T]) -> Varies {
    if siblings.is_empty() { Varies::No } else { Varies::Yes }
}

/// Whether a precompressed `sibling` has the content of `original`, judged by their times.
pub(super) fn is_current(sibling: &FileValidator, original: &FileValidator, options: &StoreOptions) -> bool {
    let lag_ms = i64::try_from(options.sibling_lag_ms_max).unwrap_or(i64::MAX);
    sibling.modified.ms().saturating_add(lag_ms) >= original.modified.ms()
}

/// Whether a file that was read at `read_ms` may be sent with its time of modification.
pub(super) fn dated(modified: FileTime, read_ms: i64, settle_ms: i64) -> Dated {
    if modified.ms_ago(read_ms) >= settle_ms { Dated::Yes } else { Dated::No }
}

/// The tag of a content in memory. The hash is the same for the same content in every process.
pub(super) fn content_tag(bytes: &[u8]) -> TagSource {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(bytes);
    TagSource::Content(hasher.finish())
}

pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970.
pub(super) fn epoch_ms() -> i64 {
    i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX)
}
