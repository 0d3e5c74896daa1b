//! The connection as programs see it: the server's [`GatewayClient`].
//!
//! Each method is the method of [`Connection`] with the same name.

use super::Connection;
use bytes::Bytes;
use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use vermeil::{More, Sleep};
use vermeil_exchange::{ContentStep, Lost, Sent};
use vermeil_gateway::{GatewayClient, GatewayCore};
use vermeil_http::gateway::{ClientLink, Oddity};
use vermeil_state::core_context;

impl GatewayClient for Connection {
    fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    fn flush(&mut self, body: Bytes, more: More) -> impl Future<Output = Result<(), Lost>> {
        Self::flush(self, body, more)
    }

    fn sent(&mut self) -> impl Future<Output = Result<(), Lost>> {
        Self::sent(self)
    }

    fn begin_content(&mut self) {
        Self::begin_content(self);
    }

    fn has_unread(&self) -> bool {
        Self::has_unread(self)
    }

    fn next_content(
        &mut self,
        into: &mut Vec<u8>,
        patience: Duration,
    ) -> impl Future<Output = Result<ContentStep, Lost>> {
        Self::next_content(self, into, patience)
    }

    fn lend_limit(&mut self) -> Sleep {
        Self::lend_limit(self)
    }

    fn give_back_limit(&mut self, limit: Sleep) {
        Self::give_back_limit(self, limit);
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Self::poll_gone(self, context)
    }

    fn link(&mut self) -> io::Result<Arc<ClientLink>> {
        Self::link(self)
    }

    fn note(&mut self, sent: Sent) {
        Self::note(self, sent);
    }

    fn note_raw(&mut self) {
        Self::note_raw(self);
    }

    fn begin_until_close(&mut self) {
        Self::begin_until_close(self);
    }

    fn note_oddities(&mut self, oddities: &[Oddity]) {
        Self::note_oddities(self, oddities);
    }

    fn with_core<R>(&mut self, run: impl FnOnce(GatewayCore<'_>) -> R) -> R {
        core_context::with(|local| {
            run(GatewayCore {
                output: &mut self.output,
                hosts: &local.hosts,
                heads: &mut local.heads,
                compressor: local.server.compressor(),
                body_timeout: local.server.timeouts.body,
                is_draining: local.server.is_draining(),
            })
        })
    }
}
