//! Compression of answers: which work is done, where the work runs, and which results are kept.
//!
//! Encoders run as steps on any core ([`crate::any_core`]), a slice of content at a time, so a long
//! content holds up no request. Contents of files are compressed once: requests for a content that
//! is being compressed wait for the result. Leaves out the choice of the coding
//! of an answer. Tested below, and through the binary (`crates/e2e/tests/e2e/compression.rs`).

mod coded_cache;
mod coder;

pub use coded_cache::{CodedContent, CodedName};
pub use coder::{CoderPlan, PieceEnd};

use crate::any_core::AnyCoreWork;
use bytes::Bytes;
use coded_cache::{CodedCache, CodedKey};
use coder::{CodedPiece, ContentCoder};
use foldhash::quality::FixedState;
use futures_channel::oneshot;
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hasher as _},
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil::{Handle, spawn, yield_now};
use vermeil_files::Variant;
use vermeil_settings::compression::CompressionOptions;

/// Bytes of content per step. A step takes about 1 ms at the default levels of gzip and Brotli
/// (bench `compression`), which bounds the delay of a request behind a step.
const SLICE_BYTES: usize = 64 * 1024;

/// Bytes of content that are hashed before other work gets its turn, in about 0.1 ms.
const HASHED_BYTES: usize = 1 << 20;

/// Bytes of the number behind a weak tag.
const NUMBER_BYTES: usize = size_of::<u64>();

/// The expected time of a step before the first was measured (bench `compression`).
const EXPECTED: Duration = Duration::from_micros(700);

/// The compression of a server.
pub struct Compressor {
    /// Made by the first use, because most servers compress nothing.
    work: OnceLock<AnyCoreWork<CompressionStep, io::Result<CodedPiece>>>,
    bounds: CompressionBounds,
    files: Mutex<CodedFiles>,
    /// Files that are being compressed.
    files_under_way: AtomicUsize,
    /// Answers of programs that are being compressed.
    answers_under_way: AtomicUsize,
    /// Numbers contents with weak tags.
    weak: AtomicU64,
    counters: Arc<CompressionCounters>,
}

/// The options, which a reload replaces. Relaxed, because no bound depends on another.
struct CompressionBounds {
    cache_bytes: AtomicU64,
    sending_bytes: AtomicU64,
    file_bytes_max: AtomicU64,
    files_max: AtomicUsize,
    answers_max: AtomicUsize,
}

impl CompressionBounds {
    fn new(options: CompressionOptions) -> Self {
        let CompressionOptions { cache_bytes, sending_bytes, file_bytes_max, files_max, answers_max } =
            options;
        Self {
            cache_bytes: cache_bytes.into(),
            sending_bytes: sending_bytes.into(),
            file_bytes_max: file_bytes_max.into(),
            files_max: files_max.into(),
            answers_max: answers_max.into(),
        }
    }

    fn set(&self, options: CompressionOptions) {
        self.cache_bytes.store(options.cache_bytes, Ordering::Relaxed);
        self.sending_bytes.store(options.sending_bytes, Ordering::Relaxed);
        self.file_bytes_max.store(options.file_bytes_max, Ordering::Relaxed);
        self.files_max.store(options.files_max, Ordering::Relaxed);
        self.answers_max.store(options.answers_max, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct CodedFiles {
    cache: CodedCache,
    /// The waiters for contents that are being compressed.
    under_way: HashMap<CodedKey, Vec<oneshot::Sender<CodedContent>>>,
}

struct CompressionStep {
    coder: ContentCoder,
    input: Bytes,
    end: PieceEnd,
}

/// Counts since the start. Relaxed, because the counts publish no other data.
#[derive(Default)]
struct CompressionCounters {
    files: AtomicU64,
    answers: AtomicU64,
    hits: AtomicU64,
    refused: AtomicU64,
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
    steps: AtomicU64,
    work_ns: AtomicU64,
    /// Bytes of the contents of files in memory now.
    content_bytes: AtomicU64,
}

/// A compressed content of a file, counted until neither the cache nor a client has the content.
struct CountedContent {
    bytes: Vec<u8>,
    counters: Arc<CompressionCounters>,
}

impl AsRef<[u8]> for CountedContent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedContent {
    fn drop(&mut self) {
        self.counters.content_bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// The counters and the present state.
#[derive(Clone, Copy, Debug)]
pub struct CompressionSnapshot {
    /// Files that were compressed.
    pub files: u64,
    /// Answers of programs that were compressed.
    pub answers: u64,
    /// Compressed contents that came from the cache.
    pub hits: u64,
    /// Contents that went uncompressed, because a bound was reached.
    pub refused: u64,
    /// Bytes before compression.
    pub input_bytes: u64,
    /// Bytes behind compression.
    pub output_bytes: u64,
    /// Steps that ran.
    pub steps: u64,
    /// The time of all steps, in seconds.
    pub work_s: f64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// The bound of these bytes.
    pub cache_bytes_max: u64,
    /// Contents in the cache.
    pub cache_files: u64,
    /// Bytes of compressed contents, in the cache or on the way to clients.
    pub content_bytes: u64,
}

/// The state of a content that a request wants compressed.
pub enum CodedClaim {
    /// The content was compressed before.
    Made(CodedContent),
    /// Another request has the content compressed. The sender is dropped if that request fails.
    Wait(oneshot::Receiver<CodedContent>),
    /// The caller has the content compressed.
    Make(FilePermit),
    /// Too many files are being compressed, or clients still receive too many contents that are
    /// not in the cache.
    Full,
}

/// Whether the result of a compression enters the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodedKeeping {
    /// Later requests find the result.
    Kept,
    /// Only the present requests get the result, because no later request has the same tag.
    Once,
}

impl CodedKeeping {
    /// The rule for the content of `variant`.
    pub fn of(variant: &Variant) -> Self {
        if variant.is_changing() { Self::Once } else { Self::Kept }
    }
}

/// The right to compress the content of a file.
pub struct FilePermit {
    compressor: Arc<Compressor>,
    key: CodedKey,
    /// Whether those that wait are still in the table.
    has_waiters: bool,
}

impl Drop for FilePermit {
    fn drop(&mut self) {
        if self.has_waiters {
            // Waiters of a content that failed send the content as it is.
            self.compressor.files().under_way.remove(&self.key);
        }
        self.compressor.files_under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer of a program that is being compressed.
pub struct AnswerCoder {
    compressor: Arc<Compressor>,
    /// `None` after the end of the content.
    coder: Option<ContentCoder>,
}

impl Drop for AnswerCoder {
    fn drop(&mut self) {
        self.compressor.answers_under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Compressor {
    /// A compression without work, within the bounds of `options`.
    pub fn new(options: CompressionOptions) -> Arc<Self> {
        Arc::new(Self {
            work: OnceLock::new(),
            bounds: CompressionBounds::new(options),
            files: Mutex::default(),
            files_under_way: AtomicUsize::new(0),
            answers_under_way: AtomicUsize::new(0),
            weak: AtomicU64::new(0),
            counters: Arc::default(),
        })
    }

    /// The largest file that is compressed, in bytes.
    pub fn file_bytes_max(&self) -> u64 {
        self.bounds.file_bytes_max.load(Ordering::Relaxed)
    }

    /// Replaces the bounds. A smaller cache shrinks with the next content.
    pub fn set_options(&self, options: CompressionOptions) {
        self.bounds.set(options);
    }

    fn files(&self) -> MutexGuard<'_, CodedFiles> {
        // A panic amid a change leaves at worst a content that is not found.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The compressed content of a file, if the content is kept.
    pub fn find(&self, name: CodedName<'_>) -> Option<CodedContent> {
        let found = self.files().cache.find(name);
        if matches!(found, Some(CodedContent::Shorter(_))) {
            add(&self.counters.hits, 1);
        }
        found
    }

    /// Asks for the compressed content of a file.
    pub fn claim(self: &Arc<Self>, name: CodedName<'_>) -> CodedClaim {
        let files_max = self.bounds.files_max.load(Ordering::Relaxed);
        let mut numbered = Vec::new();
        let name = if is_weak(name.tag) {
            // The file may have changed since another request with the same tag, so no request
            // waits for the result of another. The cache names the content by its bytes.
            let number = self.weak.fetch_add(1, Ordering::Relaxed);
            numbered.extend_from_slice(name.tag);
            numbered.extend_from_slice(&number.to_ne_bytes());
            CodedName { tag: &numbered, ..name }
        } else {
            name
        };
        let mut files = self.files();
        if let Some(made) = files.cache.find(name) {
            return CodedClaim::Made(made);
        }
        let key = name.key();
        if let Some(waiting) = files.under_way.get_mut(&key) {
            let (to, result) = oneshot::channel();
            waiting.push(to);
            return CodedClaim::Wait(result);
        }
        if self.files_under_way.load(Ordering::Relaxed) >= files_max || self.is_sending_too_much(&files) {
            add(&self.counters.refused, 1);
            return CodedClaim::Full;
        }
        self.files_under_way.fetch_add(1, Ordering::Relaxed);
        files.under_way.insert(key.clone(), Vec::new());
        CodedClaim::Make(FilePermit { compressor: self.clone(), key, has_waiters: true })
    }

    /// Whether the contents outside of the cache, which slow clients hold, exceed their bound.
    fn is_sending_too_much(&self, files: &CodedFiles) -> bool {
        let held = self.counters.content_bytes.load(Ordering::Relaxed);
        let sending = held.saturating_sub(files.cache.content_bytes());
        sending > self.bounds.sending_bytes.load(Ordering::Relaxed)
    }

    /// Begins to compress an answer of a program. `None` if too many are being compressed.
    pub fn begin_answer(self: &Arc<Self>, plan: CoderPlan) -> Option<AnswerCoder> {
        let answers_max = self.bounds.answers_max.load(Ordering::Relaxed);
        let more = |under_way| (under_way < answers_max).then_some(under_way + 1);
        // Relaxed, because the count publishes no other data.
        if self.answers_under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            add(&self.counters.refused, 1);
            return None;
        }
        add(&self.counters.answers, 1);
        Some(AnswerCoder { compressor: self.clone(), coder: Some(ContentCoder::Planned(plan)) })
    }

    /// Codes a piece on any core.
    async fn step(&self, step: CompressionStep) -> io::Result<CodedPiece> {
        let work = self.work.get_or_init(|| {
            let counters = self.counters.clone();
            let run = move |step| counters.counted(step);
            AnyCoreWork::new(&Handle::current(), None, "compression", EXPECTED, run)
        });
        work.run(step, || None).await.unwrap_or_else(|_ended| Err(io::Error::other("the server ends")))
    }

    /// Compresses a content slice by slice. `None` if the encoder fails.
    async fn whole(&self, plan: CoderPlan, content: &Bytes) -> Option<CodedContent> {
        let (mut coder, mut made, mut at) = (ContentCoder::Planned(plan), Vec::new(), 0);
        loop {
            let next = content.len().min(at + SLICE_BYTES);
            let end = if next == content.len() { PieceEnd::Content } else { PieceEnd::More };
            let piece =
                self.step(CompressionStep { coder, input: content.slice(at..next), end }).await.ok()?;
            match made.is_empty() {
                true => made = piece.bytes,
                false => made.extend_from_slice(&piece.bytes),
            }
            if made.len() >= content.len() {
                return Some(CodedContent::Useless);
            }
            match piece.coder {
                Some(next) => coder = next,
                None => {
                    // The cache counts the length, and the buffer may be much larger.
                    made.shrink_to_fit();
                    return Some(CodedContent::Shorter(self.counters.counted_content(made)));
                }
            }
            at = next;
        }
    }

    /// The state for the status.
    pub fn snapshot(&self) -> CompressionSnapshot {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (cache_bytes, cache_files) = {
            let files = self.files();
            (files.cache.bytes(), files.cache.len() as u64)
        };
        let counters = &self.counters;
        CompressionSnapshot {
            files: counted(&counters.files),
            answers: counted(&counters.answers),
            hits: counted(&counters.hits),
            refused: counted(&counters.refused),
            input_bytes: counted(&counters.input_bytes),
            output_bytes: counted(&counters.output_bytes),
            steps: counted(&counters.steps),
            work_s: counted(&counters.work_ns) as f64 / 1e9,
            cache_bytes,
            cache_bytes_max: counted(&self.bounds.cache_bytes),
            cache_files,
            content_bytes: counted(&counters.content_bytes),
        }
    }
}

impl CompressionCounters {
    fn counted_content(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        add(&self.content_bytes, bytes.len() as u64);
        Bytes::from_owner(CountedContent { bytes, counters: self.clone() })
    }

    fn counted(&self, step: CompressionStep) -> io::Result<CodedPiece> {
        let CompressionStep { coder, input, end } = step;
        let began = Instant::now();
        let piece = coder.code(&input, end);
        add(&self.work_ns, u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        add(&self.steps, 1);
        add(&self.input_bytes, input.len() as u64);
        if let Ok(piece) = &piece {
            add(&self.output_bytes, piece.bytes.len() as u64);
        }
        piece
    }
}

fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl FilePermit {
    /// Compresses `content`, also if the request ends meanwhile, and tells all that wait. `keeping`
    /// says whether the cache keeps the result. The receiver gets nothing if the encoder fails.
    pub fn compress(mut self, content: Bytes, keeping: CodedKeeping) -> oneshot::Receiver<CodedContent> {
        let (to, result) = oneshot::channel();
        drop(spawn(async move {
            let made = match keeping {
                CodedKeeping::Kept => self.kept(&content).await,
                CodedKeeping::Once => self.made(&content).await,
            };
            let Some(made) = made else { return };
            self.has_waiters = false;
            let waiting = self.compressor.files().under_way.remove(&self.key);
            // Requests may have ended meanwhile.
            for waiter in waiting.into_iter().flatten() {
                let _ = waiter.send(made.clone());
            }
            let _ = to.send(made);
        }));
        result
    }

    /// The key under which the cache keeps `content`. A weak tag may name several contents, so a
    /// hash of the bytes takes the place of the number.
    async fn kept_as(&self, content: &[u8]) -> CodedKey {
        let name = self.key.name();
        if !is_weak(name.tag) {
            return self.key.clone();
        }
        let mut hasher = FixedState::default().build_hasher();
        for part in content.chunks(HASHED_BYTES) {
            hasher.write(part);
            yield_now().await;
        }
        let tag = &name.tag[..name.tag.len() - NUMBER_BYTES];
        // The sign tells a hash from a number.
        let tag = [tag, b"=", &hasher.finish().to_ne_bytes()].concat();
        CodedName { tag: &tag, ..name }.key()
    }

    /// The compressed `content`, from the cache or made and kept. `None` if the encoder fails.
    async fn kept(&self, content: &Bytes) -> Option<CodedContent> {
        let kept_as = self.kept_as(content).await;
        if let Some(found) = self.compressor.find(kept_as.name()) {
            return Some(found);
        }
        let made = self.made(content).await?;
        let bytes_max = self.compressor.bounds.cache_bytes.load(Ordering::Relaxed);
        self.compressor.files().cache.insert(kept_as, made.clone(), bytes_max);
        Some(made)
    }

    /// Compresses `content`. `None` if the encoder fails.
    async fn made(&self, content: &Bytes) -> Option<CodedContent> {
        let CodedName { coding, level, .. } = self.key.name();
        let plan = CoderPlan { coding, level, bytes: Some(content.len() as u64) };
        let made = self.compressor.whole(plan, content).await?;
        add(&self.compressor.counters.files, 1);
        Some(made)
    }
}

impl AnswerCoder {
    /// Codes a piece of content. Nothing may follow the end of the content.
    ///
    /// # Errors
    /// The encoder has no memory, or the server ends.
    pub async fn code(&mut self, input: Bytes, end: PieceEnd) -> io::Result<Vec<u8>> {
        let coder = self.coder.take().expect("the content has not ended");
        let CodedPiece { bytes, coder } = self.compressor.step(CompressionStep { coder, input, end }).await?;
        self.coder = coder;
        Ok(bytes)
    }

    /// Whether the end of the content was coded.
    pub fn has_ended(&self) -> bool {
        self.coder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil::Runtime;
    use vermeil_http::negotiate::Choice;

    /// Regression: each request for a large file that was changing left a content in the cache, and
    /// no later request found the content.
    #[test]
    fn content_of_changing_file_is_not_kept() {
        let runtime = Runtime::builder().build().expect("it starts");
        let compressor = Compressor::new(CompressionOptions::of_each(1));
        let kept_after = |keeping| {
            let compressor = compressor.clone();
            let compressing = async move {
                let name = CodedName { device: 1, tag: b"W/\"tag\"", coding: Choice::Gzip, level: 1 };
                let CodedClaim::Make(permit) = compressor.claim(name) else { panic!("a permit") };
                let made = permit.compress(vec![b'x'; 1_000].into(), keeping).await;
                assert!(matches!(made, Ok(CodedContent::Shorter(_))), "{made:?}");
                compressor.snapshot().cache_files
            };
            runtime.handle().spawn(compressing).wait().expect("no panic")
        };
        assert_eq!([CodedKeeping::Once, CodedKeeping::Kept, CodedKeeping::Once].map(kept_after), [0, 1, 1]);
        assert_eq!(compressor.snapshot().files, 3);
    }
}
