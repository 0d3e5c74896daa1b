//! The client of the control socket: finds a running server and sends requests.
//!
//! The client trusts only a socket in a private folder of this user, or at a path given explicitly.

use crate::control_socket::{default_folder, is_answered, is_private, sockets_in};
use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};
use vermeil_spawn::socket;

/// The first line of the answer to an accepted reload.
pub const RELOADED: &str = "reloaded";
/// The first word of an answer that refuses the request.
pub const REFUSED: &str = "refused";

/// How long a server may take to answer. The longest order is a reload, and a server reads a
/// hundred thousand hosts in a fifth of a second (`bench tail`). The limit only ends a wait for a
/// server that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The request to a server failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.with_cure("--control PATH"))]
pub enum ClientError {
    /// No server runs.
    None(PathBuf),
    /// Several servers run.
    Several(Vec<PathBuf>),
    /// Another user could have made the socket.
    NotPrivate(PathBuf),
    /// The server does not answer.
    Io {
        /// The path of the server's socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl ClientError {
    /// The error in words, with the option that names a server.
    pub fn with_cure(&self, option: &str) -> String {
        match self {
            Self::None(folder) => {
                let folder = folder.display();
                format!("no server of this user runs here ({folder} has none); name its socket with {option}")
            }
            Self::Several(sockets) => {
                format!("several servers run; choose one with {option}: {}", list(sockets))
            }
            Self::NotPrivate(folder) => {
                format!(
                    "{} is another user's folder, or other users may write there, so its sockets are not trusted; \
                     name the server's socket with {option}",
                    folder.display()
                )
            }
            Self::Io { path, source } => {
                let cure = match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        format!(
                            "; no server has this socket: start the server, or name its socket with {option}"
                        )
                    }
                    io::ErrorKind::PermissionDenied => {
                        "; only the user that starts the server may ask: run this command as that user"
                            .to_owned()
                    }
                    _ => String::new(),
                };
                format!("cannot ask the server at {}: {source}{cure}", path.display())
            }
        }
    }

    /// Whether no server runs there.
    pub fn is_nobody(&self) -> bool {
        match self {
            Self::None(_) => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
            }
            Self::Several(_) | Self::NotPrivate(_) => false,
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The new configuration is in force. Holds the server's remarks.
    Taken(String),
    /// The server keeps the old configuration, for this reason.
    Refused(String),
}

/// Asks the server at `control`, or this user's only server, for its status.
///
/// # Errors
/// [`ClientError`]
pub fn ask_status(control: Option<&Path>, form: StatusForm) -> Result<String, ClientError> {
    ask(
        control,
        match form {
            StatusForm::Text => "status\n",
            StatusForm::Json => "status json\n",
            StatusForm::Metrics => "status metrics\n",
        },
    )
}

/// The form of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusForm {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
    /// OpenMetrics text for monitors.
    Metrics,
}

impl StatusForm {
    /// The media type of a page in this form.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
            Self::Metrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Makes the server at `control`, or this user's only server, read its configuration again.
///
/// # Errors
/// [`ClientError`]
pub fn ask_reload(control: Option<&Path>) -> Result<Reloaded, ClientError> {
    let answer = ask(control, "reload\n")?;
    Ok(match answer.split_once('\n') {
        Some((RELOADED, said)) => Reloaded::Taken(said.trim_end().to_owned()),
        Some((REFUSED, why)) => Reloaded::Refused(why.trim_end().to_owned()),
        _ => Reloaded::Refused(format!("the server sent an unknown answer: {answer}")),
    })
}

/// The answer to a takeover request.
pub enum Offer {
    /// The client's end of the link that transfers the sockets.
    Link(OwnedFd),
    /// The server refuses, for this reason.
    Refused(String),
}

/// Asks the server at `control`, or this user's only server, to hand over its listening sockets.
///
/// # Errors
/// [`ClientError`]
pub fn ask_to_take_over(control: Option<&Path>) -> Result<Offer, ClientError> {
    ask_for(control, "take over\n", |server| {
        let mut said = [0; 4096];
        let received = socket::receive(server.as_fd(), &mut said)?.unwrap_or_default();
        let said = String::from_utf8_lossy(&said[..received.bytes]);
        Ok(match received.descriptors.into_iter().next() {
            Some(link) => Offer::Link(link),
            None => Offer::Refused(said.strip_prefix(REFUSED).unwrap_or(&said).trim().to_owned()),
        })
    })
}

fn ask(control: Option<&Path>, request: &str) -> Result<String, ClientError> {
    ask_for(control, request, |server| {
        let mut answer = String::new();
        server.read_to_string(&mut answer)?;
        if answer.is_empty() { Err(io::Error::other("it gives no answer")) } else { Ok(answer) }
    })
}

fn ask_for<A>(
    control: Option<&Path>,
    request: &str,
    answer: impl FnOnce(&mut UnixStream) -> io::Result<A>,
) -> Result<A, ClientError> {
    let path = match control {
        Some(path) => path.to_owned(),
        None => the_only_one()?,
    };
    let asked = || {
        let mut server = UnixStream::connect(&path)?;
        server.set_read_timeout(Some(PATIENCE))?;
        server.write_all(request.as_bytes())?;
        answer(&mut server)
    };
    asked().map_err(|source| ClientError::Io { path, source })
}

fn the_only_one() -> Result<PathBuf, ClientError> {
    let folder = default_folder();
    match is_private(&folder) {
        Ok(true) => {}
        Ok(false) => return Err(ClientError::NotPrivate(folder)),
        Err(_) => return Err(ClientError::None(folder)),
    }
    let mut found: Vec<_> = sockets_in(&folder).into_iter().filter(|path| is_answered(path)).collect();
    match (found.len(), found.pop()) {
        (1, Some(path)) => Ok(path),
        (_, None) => Err(ClientError::None(folder)),
        (_, Some(last)) => {
            found.push(last);
            Err(ClientError::Several(found))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_names_its_cure() {
        let path = PathBuf::from("/run/vermeil/control");
        let io = |kind: io::ErrorKind| ClientError::Io { path: path.clone(), source: kind.into() };
        for (error, cure) in [
            (ClientError::None(path.clone()), "name its socket with --control PATH"),
            (ClientError::NotPrivate(path.clone()), "name the server's socket with --control PATH"),
            (io(io::ErrorKind::NotFound), "start the server, or name its socket with --control PATH"),
            (io(io::ErrorKind::PermissionDenied), "run this command as that user"),
        ] {
            assert!(error.to_string().contains(cure), "{error}");
        }
    }
}
