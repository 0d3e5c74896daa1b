//! The answer with the compressed content of a file, once the content is compressed.
//!
//! Reads the file, unless its content is in memory. Leaves out the compression
//! ([`vermeil_work::compress`]). Tested through the binary (`crates/e2e/tests/e2e/compression.rs`).

use super::{COPIED_BYTES, read_part, variant};
use bytes::Bytes;
use vermeil::{More, sleep, yield_now};
use vermeil_answer::answer::{self, Answer, FileToCompress};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_files::{Content, OpenFile, Variant};
use vermeil_http::{Request, negotiate::Choice};
use vermeil_state::core_context;
use vermeil_work::compress::{CodedClaim, CodedContent, CodedKeeping};

/// Answers with the compressed content of a file, or with the file as it is.
pub(super) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    head: AnswerHead,
    job: &FileToCompress,
) -> Result<Answer, Lost> {
    // Earlier answers of a pipeline need not wait.
    connection.flush(Bytes::new(), More::No).await?;
    let content = compressed(job).await;
    let out = &mut connection.output;
    Ok(core_context::with(|local| answer::by_coded_content(local, request, job, content, head, out)))
}

/// The compressed content. `None` if the file shall go as it is.
async fn compressed(job: &FileToCompress) -> Option<Bytes> {
    let FileToCompress { handle, plan } = job;
    let variant = variant(handle, Choice::Identity);
    let compressor = core_context::with(|local| local.server.compressor().clone());
    let made = match compressor.claim(plan.name_of(variant)) {
        CodedClaim::Made(made) => made,
        CodedClaim::Wait(result) => result.await.ok()?,
        CodedClaim::Make(permit) => {
            permit.compress(content(variant).await?, CodedKeeping::of(variant)).await.ok()?
        }
        CodedClaim::Full => return None,
    };
    match made {
        CodedContent::Shorter(content) => Some(content),
        CodedContent::Useless => None,
    }
}

/// The content of a file. `None` if the file has changed or cannot be read.
async fn content(variant: &Variant) -> Option<Bytes> {
    match variant.content() {
        Content::Memory(content) => Some(content.clone()),
        Content::Sealed(content) => Some(content.bytes().clone()),
        Content::Disk(file) => read(file, variant.bytes()).await,
    }
}

async fn read(file: &OpenFile, bytes: u64) -> Option<Bytes> {
    if let Some(time) = file.until_told() {
        sleep(time).await;
    }
    let mut content = Vec::with_capacity(usize::try_from(bytes).ok()?);
    let mut at = 0;
    while at < bytes {
        let part = COPIED_BYTES.min(bytes - at);
        if !read_part(file, &mut content, usize::try_from(part).ok()?, at).await {
            return None;
        }
        at += part;
        yield_now().await;
    }
    file.still_same().then(|| content.into())
}
