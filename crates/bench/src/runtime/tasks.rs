//! Four ways to run tasks, so that a program written once runs on each: Vermeil, tokio, smol's
//! executor, and (for programs without waiting) rayon.
//!
//! Each has as many threads as this process may use cpus. Vermeil's threads are pinned and the
//! peers' are left to the kernel, because each runtime is used in this way.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A runtime for tasks.
pub(super) trait Tasks: Clone + Send + Sync + 'static {
    /// A spawned task: its result.
    type Task<T: Send + 'static>: Future<Output = T> + Send + 'static;

    /// Runs `future` beside everything else.
    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// As [`spawn`](Self::spawn), without a waiter.
    fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.spawn(future));
    }

    /// Lets others run first.
    fn yield_now(&self) -> impl Future<Output = ()> + Send;
}

/// Vermeil: each task on a separate color.
#[derive(Clone)]
pub(super) struct Vermeil(pub(super) vermeil::Handle);

/// A task of a runtime that reports how the task ended; here all tasks end well.
pub(super) struct EndedTask<T>(T);

impl<T, E, F> Future for EndedTask<F>
where
    F: Future<Output = Result<T, E>> + Unpin,
    E: std::fmt::Debug,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|ended| ended.expect("no task of a bench fails"))
    }
}

impl Tasks for Vermeil {
    type Task<T: Send + 'static> = EndedTask<vermeil::Task<T>>;

    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        EndedTask(self.0.spawn(future))
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        vermeil::yield_now()
    }
}

/// tokio's multi-threaded runtime.
#[derive(Clone)]
pub(super) struct Tokio(Arc<tokio::runtime::Runtime>);

impl Tokio {
    /// Starts the runtime.
    pub(super) fn start(threads: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build();
        Self(Arc::new(runtime.expect("threads start")))
    }
}

impl Tasks for Tokio {
    type Task<T: Send + 'static> = EndedTask<tokio::task::JoinHandle<T>>;

    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        EndedTask(self.0.spawn(future))
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

/// smol's executor on separate threads.
#[derive(Clone)]
pub(super) struct Smol(Arc<async_executor::Executor<'static>>);

impl Smol {
    /// Starts the executor; its threads last as long as the process.
    pub(super) fn start(threads: usize) -> Self {
        let executor = Arc::new(async_executor::Executor::new());
        for _ in 0..threads {
            let executor = executor.clone();
            std::thread::spawn(move || futures_lite::future::block_on(executor.run(pending::<()>())));
        }
        Self(executor)
    }
}

impl Tasks for Smol {
    type Task<T: Send + 'static> = async_executor::Task<T>;

    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn(future)
    }

    /// Detaches the task, because dropping a task of this executor would cancel the task.
    fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }
}
