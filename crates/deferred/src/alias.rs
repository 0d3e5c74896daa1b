//! The files of another folder than the host's: routes with the key `root`.
//!
//! The path in the folder is the path behind the route's prefix. Programs do not run there, and
//! their text is never sent. Tested through the binary (`crates/e2e/tests/e2e/routes.rs`).

use crate::calls;
use vermeil_answer::{
    answer::{self, Answer},
    pages::busy,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_files::EntryOutcome;
use vermeil_gateway::encoded;
use vermeil_http::{Request, Status, path};
use vermeil_routing::hosts::Met;
use vermeil_state::core_context;

/// Answers `request` with the file at `below`, decoded, in the folder.
pub(crate) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    head: &mut AnswerHead,
    folder: &Met,
    below: &[u8],
) -> Result<Answer, Lost> {
    let site = match calls::site(connection, folder).await? {
        Ok(site) => site,
        Err(failure) => {
            let out = &mut connection.output;
            return Ok(core_context::with(|local| match failure {
                Some(failure) => answer::not_served(local, &failure, *head, out),
                None => answer::error(local, Status::NotFound, b"", *head, out),
            }));
        }
    };
    let handle = calls::look_up(connection, &site, &encoded(below)).await?;
    let out = &mut connection.output;
    Ok(core_context::with(|local| match handle {
        Err(Status::ServiceUnavailable) => Answer::Ready(busy(local, *head, out)),
        Err(status) => answer::error(local, status, b"", *head, out),
        Ok(handle) => match handle.outcome() {
            EntryOutcome::Redirect { .. } => {
                let mut decoded = Vec::new();
                match path::decode_for_program(request.target.path, &mut decoded) {
                    Ok(own) => {
                        let location = [&*encoded(own.bytes), b"/"].concat();
                        answer::redirect(local, &location, request, *head, out)
                    }
                    Err(wrong) => answer::error(local, wrong.status(), b"", *head, out),
                }
            }
            _ => answer::found_by_files(local, &site, request, &handle, head, out),
        },
    }))
}
