//! Compressed answers for files: which requests get one, and the head of such an answer.
//!
//! A precompressed sibling has precedence, and a range is a range of the file as it is. The tag of
//! a compressed answer is weak and names the coding, because the coded bytes may differ between two
//! versions of an encoder. Leaves out the compression ([`vermeil_work::compress`]) and the wait for
//! it (`crates/deferred`). Tested through the binary
//! (`crates/e2e/tests/e2e/compression.rs`).

use super::{Answer, Deferred, FileReply};
use crate::pages::finish;
use bytes::Bytes;
use vermeil_exchange::{AnswerHead, COPY_BYTES_MAX, Sent};
use vermeil_files::{EntryHandle, EntryOutcome, FileEntry, Variant};
use vermeil_http::{
    Method, Request, Status, Validators, Verdict,
    negotiate::{self, Choice},
    response::{HeadWriter, PageContent as Sends},
};
use vermeil_routing::hosts::AnswerRulesId;
use vermeil_state::core_context::CoreContext;
use vermeil_work::compress::{CodedContent, CoderPlan};

/// The field line of an answer that depends on the codings that the client accepts.
const VARY: &[u8] = b"Vary: Accept-Encoding\r\n";

/// A file whose content must be compressed first.
pub struct FileToCompress {
    /// Keeps the file open.
    pub handle: EntryHandle,
    /// The plan of the compression.
    pub plan: CoderPlan,
}

/// How the rules treat a file for a request.
enum CodedUse {
    /// The rules leave the file alone.
    No,
    /// This request gets the file as it is, and another one may get it compressed.
    AsItIs,
    Coded(CoderPlan),
}

impl FileReply<'_> {
    /// Answers with `variant`, the file as it is, or with its content compressed.
    pub(super) fn perhaps_coded(mut self, variant: &Variant, rules: AnswerRulesId) -> Answer {
        let plan = match self.coded_use(variant, rules) {
            CodedUse::No => return self.representation(variant),
            CodedUse::AsItIs => {
                self.vary = vary(variant);
                return self.representation(variant);
            }
            CodedUse::Coded(plan) => plan,
        };
        match self.local.server.compressor().find(plan.name_of(variant)) {
            Some(CodedContent::Useless) => {
                self.vary = vary(variant);
                self.representation(variant)
            }
            Some(CodedContent::Shorter(content)) => self.coded(variant, plan, Some(content)),
            None => self.coded(variant, plan, None),
        }
    }

    fn coded_use(&self, variant: &Variant, rules: AnswerRulesId) -> CodedUse {
        if !rules.may_compress() {
            return CodedUse::No;
        }
        self.local.hosts.with_rules(rules, |rules| {
            let Some(rules) = &rules.compression else { return CodedUse::No };
            let (bytes, compressor) = (variant.bytes(), self.local.server.compressor());
            if bytes == 0
                || bytes < rules.bytes_min
                || bytes > compressor.file_bytes_max()
                || variant.is_fixed()
                || !rules.include(variant.media_type())
            {
                return CodedUse::No;
            }
            if self.request.range.is_some() && self.request.method == Method::Get {
                return CodedUse::AsItIs;
            }
            match negotiate::choose_in_order(self.request.accept_encoding, &rules.codings) {
                Choice::Identity => CodedUse::AsItIs,
                coding => {
                    let level = rules.levels.of(coding);
                    CodedUse::Coded(CoderPlan { coding, level, bytes: Some(bytes) })
                }
            }
        })
    }
}

impl FileReply<'_> {
    /// Answers with the `content` of `variant` in a coding. Without the content, an answer that
    /// needs the content waits for it.
    fn coded(mut self, variant: &Variant, plan: CoderPlan, content: Option<Bytes>) -> Answer {
        let tag = variant.coded_tag(plan.coding);
        let last_modified = variant.validators().last_modified;
        match self.request.preconditions.evaluate(&Validators { etag: &tag, last_modified }) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                let fields = variant.coded_fields(Choice::Identity, &tag);
                let _ = HeadWriter::new(self.out, Status::NotModified).lines(&fields).lines(VARY);
                finish(self.local, self.head, self.out);
                return Answer::Ready(Sent { status: Status::NotModified.code(), body_bytes: 0 });
            }
            Verdict::PreconditionFailed => {
                return super::error(self.local, Status::PreconditionFailed, b"", self.head, self.out);
            }
        }
        if let Some(answer) = self.refused_content() {
            return answer;
        }
        let Some(content) = content else {
            return Answer::Slow(Deferred::Compress(Box::new(FileToCompress {
                handle: self.handle.clone(),
                plan,
            })));
        };
        let body_bytes = content.len() as u64;
        let _ = HeadWriter::new(self.out, Status::Ok)
            .lines(&variant.coded_fields(plan.coding, &tag))
            .lines(VARY)
            .field("Content-Type", variant.media_type().as_bytes())
            .content_length(body_bytes);
        finish(self.local, self.head, self.out);
        let sent = Sent { status: Status::Ok.code(), body_bytes };
        if self.head.content == Sends::Omitted {
            Answer::Ready(Sent { body_bytes: 0, ..sent })
        } else if content.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(&content);
            Answer::Ready(sent)
        } else {
            Answer::Body(sent, content)
        }
    }
}

/// The field line that `variant` lacks, if the answer depends on the accepted codings.
fn vary(variant: &Variant) -> &'static [u8] {
    if variant.varies() { b"" } else { VARY }
}

/// Answers `request` for the file of `job`, whose content was compressed; with the file as it is if
/// `content` is `None`.
pub fn by_coded_content(
    local: &mut CoreContext,
    request: &Request<'_>,
    job: &FileToCompress,
    content: Option<Bytes>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let FileToCompress { handle, plan } = job;
    let EntryOutcome::File(file) = handle.outcome() else { unreachable!("only files are compressed") };
    let variant = file.variant(Choice::Identity);
    let reply = FileReply { local, request, handle, head, out, vary: vary(variant) };
    match content {
        Some(content) => reply.coded(variant, *plan, Some(content)),
        None => reply.representation(variant),
    }
}

/// Answers `request` for `file`, which a program sends. The program's fields are added to the head,
/// so the head cannot wait, and the file is not compressed.
pub fn file_of_program(
    local: &mut CoreContext,
    request: &Request<'_>,
    file: &FileEntry,
    handle: &EntryHandle,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let coding = negotiate::choose(request.accept_encoding, file.codings());
    FileReply { local, request, handle, head, out, vary: b"" }.representation(file.variant(coding))
}
