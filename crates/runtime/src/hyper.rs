//! hyper on this runtime: an executor, a timer and a stream, behind the feature `hyper`.
//!
//! hyper needs only the traits of `hyper::rt` from a runtime, so its servers and clients run
//! unchanged, and so does axum. A connection is a task on a color. `examples/axum.rs` is a
//! complete server. Leaves out HTTP, which stays hyper's. Tested in `tests/hyper.rs`, with hyper's
//! client, curl and h2load as peers.
//!
//! # Libraries that need tokio's reactor
//!
//! This runtime is not tokio, so code that calls tokio's reactor panics with "there is no reactor
//! running": `tokio::time`, `tokio::net`, `tokio::spawn`, and therefore `tower::timeout`,
//! `tower_http::timeout::TimeoutLayer` and `reqwest`. Two cures:
//!
//! - a time limit of this runtime, [`Sleep::limit`](crate::Sleep::limit), around the future of the
//!   request;
//! - `async_compat::Compat::new(future)` (crate `async-compat`) around the future of the
//!   connection, or around the call that needs tokio: `Compat` brings its own reactor.
//!
//! `tokio::sync`, `tokio::select!` and the layers of tower and tower-http without time limits run
//! unchanged.
//!
//! ```
//! use hyper::{Request, Response, body::Incoming, server::conn::http2, service::service_fn};
//! use std::convert::Infallible;
//! use vermeil::{Handle, TcpStream, hyper::{ColorExec, CoreTimer, HyperStream}};
//!
//! /// Serves HTTP/2 on a color of its own; each request runs on another color, in parallel.
//! fn serve(handle: &Handle, socket: std::os::fd::OwnedFd) {
//!     let color = handle.color();
//!     let executor = ColorExec::children(handle);
//!     handle.spawn_on(&color, async move {
//!         let answer = |_: Request<Incoming>| async {
//!             Ok::<_, Infallible>(Response::new(String::from("hello")))
//!         };
//!         let stream = HyperStream::new(TcpStream::new(socket)?);
//!         let mut server = http2::Builder::new(executor);
//!         server.timer(CoreTimer);
//!         server.serve_connection(stream, service_fn(answer)).await.map_err(std::io::Error::other)
//!     });
//! }
//! ```

mod exec;
mod timer;

pub use crate::IoStream as HyperStream;
pub use exec::ColorExec;
pub use timer::CoreTimer;
