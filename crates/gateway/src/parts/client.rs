//! The client's connection, as far as a program's answer needs the connection.
//!
//! A program's answer is a part of a connection's life: content comes in and output goes out. The
//! server owns the connection, so it implements [`GatewayClient`]. All functions that answer a
//! request are generic over the trait. Therefore a call costs no more than a call of the
//! connection itself, and answers from files never meet the trait.
//!
//! The state of a core comes through the connection too ([`GatewayClient::with_core`]), because
//! the connection knows its core and this crate needs a few parts of the core only.

use bytes::Bytes;
use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use vermeil::{More, Sleep};
use vermeil_exchange::{ContentStep, CoreHeadParts, Lost, Sent};
use vermeil_http::gateway::{ClientLink, Oddity};
use vermeil_routing::hosts::CoreHosts;
use vermeil_work::compress::Compressor;

/// The connection of a client whose request a program answers.
pub trait GatewayClient {
    /// Answers not yet handed to the driver. The relay appends to these bytes.
    fn output(&mut self) -> &mut Vec<u8>;

    /// Hands the ready answers to the driver, with `body` behind them.
    fn flush(&mut self, body: Bytes, more: More) -> impl Future<Output = Result<(), Lost>>;

    /// Waits until the kernel has taken all bytes that were handed over.
    fn sent(&mut self) -> impl Future<Output = Result<(), Lost>>;

    /// The content of a request begins.
    fn begin_content(&mut self);

    /// Whether the connection has received bytes that are not processed yet.
    fn has_unread(&self) -> bool;

    /// Appends the next part of the current request's content to `into`. Waits at most `patience`.
    fn next_content(
        &mut self,
        into: &mut Vec<u8>,
        patience: Duration,
    ) -> impl Future<Output = Result<ContentStep, Lost>>;

    /// Lends the timer of this connection to a caller that waits meanwhile for something other than
    /// the client.
    fn lend_limit(&mut self) -> Sleep;

    /// Takes the timer back. The next wait for the client begins anew.
    fn give_back_limit(&mut self, limit: Sleep);

    /// Ready when the client has gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Both ends of the connection.
    ///
    /// # Errors
    /// The client has gone.
    fn link(&mut self) -> io::Result<Arc<ClientLink>>;

    /// Notes how much of the answer was handed to the client.
    fn note(&mut self, sent: Sent);

    /// Notes that the answer is a program's, unchanged.
    fn note_raw(&mut self);

    /// The end of the connection will be the end of the answer. Until the answer is whole, every
    /// other end resets the connection.
    fn begin_until_close(&mut self);

    /// Notes the parts that were left out of the program's answer.
    fn note_oddities(&mut self, oddities: &[Oddity]);

    /// Runs a closure on the state of the connection's core.
    fn with_core<R>(&mut self, run: impl FnOnce(GatewayCore<'_>) -> R) -> R;
}

/// The parts of a core that a program's answer needs, with the output of the connection.
pub struct GatewayCore<'a> {
    /// The output of the connection, as [`GatewayClient::output`].
    pub output: &'a mut Vec<u8>,
    /// The hosts of the core.
    pub hosts: &'a CoreHosts,
    /// The parts of an answer's head that the core makes.
    pub heads: &'a mut CoreHeadParts,
    /// The compression of the server.
    pub compressor: &'a Arc<Compressor>,
    /// How long a client may take for the next part of the content.
    pub body_timeout: Duration,
    /// Whether every answer that begins now is its connection's last.
    pub is_draining: bool,
}
