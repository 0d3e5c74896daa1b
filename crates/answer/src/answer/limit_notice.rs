//! The notice about a request that reached a limit: the limit, and the setting that changes it.
//!
//! Tested through the binary (`crates/e2e/tests/e2e`).

use vermeil_gateway::programs;
use vermeil_http::Rejection;
use vermeil_log::NoticeKind;
use vermeil_state::core_context::{self, CoreContext};

/// Bytes of a request line that a notice quotes, before the reason.
pub const SAID_BYTES_MAX: usize = 300;

/// Logs which limit a request has reached, and the setting that changes the limit. `received` is
/// the request, or the part of it that has come.
pub fn say_limit(local: &mut CoreContext, rejection: Rejection, received: &[u8]) {
    let limits = &local.server.limits;
    // Programs may be allowed larger content, and that bound then applies to all requests.
    let is_of_programs = programs::with(|programs| programs.answering.options.content_bytes)
        .is_some_and(|content_bytes| content_bytes >= limits.body_bytes);
    let (what, most, cure) = match rejection {
        Rejection::RequestLineTooLong => {
            let cure = "--request-line-bytes, or request_line_bytes in [limits]";
            ("line", format!("{} bytes", limits.request_line_bytes), cure)
        }
        Rejection::TooManyFields => {
            ("head", format!("{} fields", limits.header_count), "--header-count, or header_count in [limits]")
        }
        Rejection::HeadTooLong => {
            ("head", format!("{} bytes", limits.header_bytes), "--header-bytes, or header_bytes in [limits]")
        }
        Rejection::BodyTooLong => {
            let cure = match is_of_programs {
                true => "--programs-body-bytes, or body_bytes in [programs]",
                false => "--body-bytes, or body_bytes in [limits]",
            };
            ("content", format!("{} bytes", limits.body_bytes), cure)
        }
        Rejection::TrailersTooLong => {
            ("trailer section", format!("{} bytes", limits.trailer_bytes), "nothing, because it is fixed")
        }
        _ => return,
    };
    let line = core_context::request_line(received);
    let line = line[..line.len().min(SAID_BYTES_MAX)].escape_ascii();
    let status = rejection.status().code();
    let notice = format_args!(
        "{line}: the {what} of the request has more than {most}; that limit is changed by {cure} ({status})"
    );
    local.server.notices.say(NoticeKind::LimitReached, notice);
}
