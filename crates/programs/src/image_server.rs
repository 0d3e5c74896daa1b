//! The image pipeline as a server: takes an image by HTTP and returns the filtered image.
//!
//! `POST /filter` with a binary PGM or PPM image. hyper speaks HTTP, on a color of the core that
//! has the socket. The image goes through a pipeline of filters, each a handler with a separate
//! color, on any core. The connection's task waits for the result. The number and size of images in
//! progress are bounded. Beyond the bounds the answer is 503, 413 or 422, and the connection stays
//! open.

use crate::{
    ProgramOutcome,
    kernel::{
        image::{Filter, draw, pass_cost, sum},
        netpbm::{gray_head, pixels_at},
    },
    net::{ClosedLoop, listeners, read_http},
    pipeline::Pipeline,
};
use bytes::Bytes;
use futures_channel::oneshot;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header::RETRY_AFTER, server::conn::http1,
    service::service_fn,
};
use std::{
    convert::Infallible,
    io::{self, Write},
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use vermeil::{
    CoreIndex, Handle, TcpListener, TcpStream,
    hyper::{CoreTimer, HyperStream},
    sleep,
};

/// Maximum size of an image in bytes; a longer image is refused with 413.
const IMAGE_BYTES_MAX: usize = 16 << 20;
/// Usual size of an image in bytes, for which the filters' costs are stated.
const EXPECTED_BYTES: usize = 700 << 10;
/// Maximum number of images in the pipeline; the next image is refused with 503.
const IMAGES_MAX: usize = 64;
/// Wait after a failed accept, when descriptors run out. As in the web server.
const RETRY: Duration = Duration::from_millis(50);

/// The load, when the program measures itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct ImageServerSize {
    /// Filters in the row.
    #[arg(long, default_value_t = 16)]
    pub stages: usize,
    /// Clients, each with a connection; at most 64 images are worked on at a time.
    #[arg(long, default_value_t = 8)]
    pub clients: u32,
    /// Images that each client sends.
    #[arg(long, default_value_t = 50)]
    pub images: u32,
    /// Width and height of an image, one byte per pixel.
    #[arg(long, default_value_t = 836)]
    pub side: usize,
    /// Threads that send the images.
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
}

/// An image in progress.
struct Picture {
    bytes: Vec<u8>,
    pixels_at: usize,
    done: oneshot::Sender<Vec<u8>>,
}

/// What all connections share.
struct ImageServer {
    pipeline: Pipeline<Picture>,
    pictures: AtomicUsize,
}

/// Serves at `addr` until the runtime stops; returns the address, with the port in place of 0.
///
/// # Errors
/// When the address cannot be listened at.
pub fn serve(handle: &Handle, stages: usize, addr: SocketAddr) -> io::Result<SocketAddr> {
    let filter = |stage, picture: &mut Picture| {
        Filter::of_stage(stage).pass(&mut picture.bytes[picture.pixels_at..]);
    };
    // The sender of the image may have gone.
    let end = |_: &Pipeline<Picture>, picture: Picture| drop(picture.done.send(picture.bytes));
    let pipeline = Pipeline::new(handle, "filter", stages, pass_cost(EXPECTED_BYTES), filter, end);
    let server = Arc::new(ImageServer { pipeline, pictures: AtomicUsize::new(0) });
    let (addr, sockets) = listeners(handle, addr)?;
    for (core, socket) in handle.cores().zip(sockets) {
        handle.spawn_on(&handle.color_on(core), accept(server.clone(), handle.clone(), core, socket));
    }
    Ok(addr)
}

/// Gives each connection a color of this core, because the socket is there.
async fn accept(
    server: Arc<ImageServer>,
    handle: Handle,
    core: CoreIndex,
    socket: OwnedFd,
) -> io::Result<()> {
    let listener = TcpListener::new(socket)?;
    loop {
        let Ok(stream) = listener.accept().await.and_then(TcpStream::new) else {
            sleep(RETRY).await;
            continue;
        };
        let server = server.clone();
        handle.spawn_on(&handle.color_on(core), async move {
            let answer = service_fn(|request| server.answer(request));
            let http =
                http1::Builder::new().timer(CoreTimer).serve_connection(HyperStream::new(stream), answer);
            // A broken connection is the client's problem.
            drop(http.await);
        });
    }
}

impl ImageServer {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let refuse = |status: StatusCode| {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            if status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(RETRY_AFTER, 1.into());
            }
            response
        };
        if (request.method(), request.uri().path()) != (&Method::POST, "/filter") {
            return Ok(refuse(StatusCode::NOT_FOUND));
        }
        Ok(match self.filtered(request.into_body()).await {
            Ok(image) => Response::new(Full::new(image.into())),
            Err(status) => refuse(status),
        })
    }

    async fn filtered(&self, body: Incoming) -> Result<Vec<u8>, StatusCode> {
        let body = Limited::new(body, IMAGE_BYTES_MAX).collect().await;
        let image = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => StatusCode::PAYLOAD_TOO_LARGE,
            false => StatusCode::BAD_REQUEST,
        })?;
        let bytes = Vec::from(image.to_bytes());
        let pixels_at = pixels_at(&bytes).ok_or(StatusCode::UNPROCESSABLE_ENTITY)?;
        let _place = ImagePermit::take(&self.pictures).ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        let (done, filtered) = oneshot::channel();
        let picture = Picture { bytes, pixels_at, done };
        self.pipeline.start(picture).map_err(|_full| StatusCode::SERVICE_UNAVAILABLE)?;
        // A filter that panicked has dropped the picture.
        filtered.await.map_err(|_dropped| StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// A permit for an image in progress.
struct ImagePermit<'a>(&'a AtomicUsize);

impl<'a> ImagePermit<'a> {
    fn take(places: &'a AtomicUsize) -> Option<Self> {
        let place = Self(places);
        (places.fetch_add(1, Ordering::Relaxed) < IMAGES_MAX).then_some(place)
    }
}

impl Drop for ImagePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves and sends images until every client has all images back; the checksum covers the pixels.
///
/// # Errors
/// When a socket fails, or an image is refused.
pub fn run(handle: &Handle, size: ImageServerSize) -> io::Result<ProgramOutcome> {
    let addr = serve(handle, size.stages, SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let load = ClosedLoop { addr, connections: size.clients, requests: size.images, threads: size.threads };
    let outcome = load.run(
        |client, number, to| {
            let image = image(size, client, number);
            let head = format!("POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", image.len());
            to.write_all(&[head.as_bytes(), &image].concat())
        },
        |_, _, from| {
            let image = read_http(from)?;
            Ok(sum(&image[gray_head(size.side, size.side).len()..]))
        },
    )?;
    Ok(ProgramOutcome { events: outcome.events * size.stages as u64, ..outcome })
}

fn image(size: ImageServerSize, client: u32, number: u32) -> Vec<u8> {
    let mut image = gray_head(size.side, size.side).into_bytes();
    let head = image.len();
    image.resize(head + size.side * size.side, 0);
    draw(&mut image[head..], u64::from(client + number));
    image
}

/// The checksum of a run, computed by the calling thread alone.
pub fn checksum(size: ImageServerSize) -> u64 {
    let all = Filter::of_row(size.stages);
    let head = gray_head(size.side, size.side).len();
    let one = |client, number| {
        let image = image(size, client, number);
        image[head..].iter().map(|&pixel| u64::from(all.pixel(pixel))).sum::<u64>()
    };
    (0..size.clients).map(|client| (0..size.images).map(|number| one(client, number)).sum::<u64>()).sum()
}
