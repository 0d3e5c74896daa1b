//! The options of `vermeil serve` about all programs, PHP and CGI, and their conversion.

use super::limits::{G, K};
use crate::values::{Size, Span, size_between};
use clap::Args;
use std::convert::Infallible;
use vermeil_settings::gateway::{self, GatewayOptions, GatewayTimeouts, Sends};

/// Programs.
#[derive(Clone, Debug, Args)]
pub(super) struct ProgramsArgs {
    /// How long a request may wait for a PHP child or a CGI turn, in seconds or with a unit: ms, s,
    /// m, h
    ///
    /// From 1ms to 24h. Then: 503.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(GatewayTimeouts::default().queue))]
    #[arg(requires = "programs")]
    programs_queue_timeout: Span,

    /// How long a program may be silent, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, without a byte of the answer received or of the request sent. Then: 504, or
    /// the answer is cut.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(GatewayTimeouts::default().answer))]
    #[arg(requires = "programs")]
    programs_timeout: Span,

    /// The longest request body for a program, in bytes
    ///
    /// From 0 to 1T. Beyond it: 413. A body over 64K waits in an unnamed file until the body is
    /// complete.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(gateway::CONTENT_BYTES), requires = "programs")]
    #[arg(value_parser = size_between(0, K * G))]
    programs_body_bytes: Size,

    /// The former name of `--programs-queue-timeout`.
    #[arg(long, hide = true, value_name = "TIME", value_parser = renamed("--programs-queue-timeout"))]
    php_queue_timeout: Option<Infallible>,

    /// The former name of `--programs-timeout`.
    #[arg(long, hide = true, value_name = "TIME", value_parser = renamed("--programs-timeout"))]
    php_timeout: Option<Infallible>,

    /// The former name of `--programs-body-bytes`.
    #[arg(long, hide = true, value_name = "SIZE", value_parser = renamed("--programs-body-bytes"))]
    php_body_bytes: Option<Infallible>,
}

/// Refuses every value, with the present name of the option.
fn renamed(new: &'static str) -> impl Fn(&str) -> Result<Infallible, String> + Clone {
    move |_| Err(format!("this option has a new name: write {new}"))
}

impl ProgramsArgs {
    /// The options for relaying requests.
    pub(super) fn gateway(&self, sends: Sends) -> GatewayOptions {
        let timeouts = GatewayTimeouts {
            queue: self.programs_queue_timeout.into(),
            answer: self.programs_timeout.into(),
            ..GatewayTimeouts::default()
        };
        GatewayOptions {
            content_bytes: self.programs_body_bytes.bytes,
            timeouts,
            sends,
            ..GatewayOptions::default()
        }
    }
}
