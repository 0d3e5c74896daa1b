//! The options of `vermeil serve` about CGI, and their conversion.

use crate::usage::UsageError;
use crate::values::{Size, Span, size_between};
use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args};
use std::str::FromStr;
use vermeil_routing::hosts::{Action, Route};
use vermeil_settings::{
    Unfit,
    cgi::{self, CgiOptions, Identity, Nph, ProgramBounds, ResourceLimits},
    gateway::SendRoot,
};

use super::limits::{G, K, M};

/// CGI.
#[derive(Clone, Debug, Args)]
pub(super) struct CgiArgs {
    /// Let programs answer: below a folder (/cgi-bin/), or all names with a suffix (.cgi); may be
    /// given several times
    ///
    /// Each request starts a new process of the program, through a small process that exists since
    /// the start of the server. A program, and every folder from DIR down to the program, must
    /// belong to root or to the program's user, and no other user may have write access. Links are
    /// not followed. Default: no programs.
    #[arg(long, value_name = "/PATH/|.SUFFIX", action = ArgAction::Append)]
    cgi: Vec<ProgramPaths>,

    /// The user that programs run as, with the user's groups
    ///
    /// Default: the server's user (`--user`, or the user that started the server), but not root.
    #[arg(long, value_name = "USER", requires = "cgi")]
    cgi_user: Option<String>,

    /// Programs that run at the same time
    ///
    /// From 1 to 100000. Further requests wait until a program ends.
    #[arg(long, value_name = "N", default_value_t = cgi::HOST_RUNNING_MAX, requires = "cgi")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    cgi_max: usize,

    /// Requests that may wait for a program to end
    ///
    /// From 0 to 1000000. Beyond it: 503.
    #[arg(long, value_name = "N", default_value_t = cgi::HOST_WAITING_MAX, requires = "cgi")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    cgi_queue: usize,

    /// How long a program may run, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Then the program and its child processes are killed: 504, or the answer is
    /// cut.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(cgi::TIME_LIMIT), requires = "cgi")]
    cgi_timeout: Span,

    /// Address space that each process of a program may have, in bytes
    ///
    /// From 1M to 1T. Default: no bound.
    #[arg(long, value_name = "SIZE", requires = "cgi", value_parser = size_between(M, K * G))]
    cgi_memory: Option<Size>,

    /// Let programs whose names begin with nph- write the whole answer themselves
    ///
    /// The output goes to the client unchanged, and the server closes the connection after the
    /// output. Default: such a program runs as any other, and its status line is an error.
    #[arg(long, requires = "cgi")]
    cgi_nph: bool,

    /// A folder from which programs may have files sent; may be given several times
    ///
    /// As --php-send for PHP. Default: none.
    #[arg(long, value_name = "[PREFIX=]DIR", requires = "cgi")]
    cgi_send: Vec<SendRoot>,
}

/// The paths of programs, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProgramPaths {
    Below(Box<str>),
    EndingIn(Box<str>),
}

impl FromStr for ProgramPaths {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let folder = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        if folder
            .is_some_and(|folder| folder.split('/').all(|name| !name.is_empty() && !name.starts_with('.')))
        {
            return Ok(Self::Below(text.into()));
        }
        match text.strip_prefix('.') {
            Some(name) if !name.is_empty() && !name.contains(['/', '.']) => Ok(Self::EndingIn(text.into())),
            _ => Err("write a folder between slashes, such as /cgi-bin/, or the end of a name, such as .cgi"),
        }
    }
}

impl CgiArgs {
    /// Whether there are programs.
    pub(super) fn is_on(&self) -> bool {
        !self.cgi.is_empty()
    }

    /// The routes to programs.
    pub(super) fn routes(&self) -> Vec<Route> {
        let route = |which: &ProgramPaths| match which {
            ProgramPaths::Below(prefix) => Route { prefix: Some(prefix.clone()), ..Route::new(Action::Cgi) },
            ProgramPaths::EndingIn(suffix) => {
                Route { suffix: Some(suffix.clone()), ..Route::new(Action::Cgi) }
            }
        };
        self.cgi.iter().map(route).collect()
    }

    /// The folders from which programs may have files sent.
    pub(super) fn sends(&self) -> Vec<SendRoot> {
        self.cgi_send.clone()
    }

    /// The user and the limits of programs.
    ///
    /// # Errors
    ///
    /// An unknown user, or the superuser.
    pub(super) fn options(&self) -> Result<CgiOptions, UsageError> {
        let identity = self.cgi_user.as_deref().map(Identity::of_user).transpose();
        let identity = identity.map_err(UsageError::CgiUser)?;
        if let Some(why) = identity.as_ref().and_then(Unfit::of) {
            return Err(UsageError::Superuser { option: "--cgi-user", why });
        }
        let limits = ResourceLimits {
            address_space_bytes: self.cgi_memory.map(|size| size.bytes),
            ..ResourceLimits::default()
        };
        Ok(CgiOptions {
            identity,
            limits,
            // A single host has the bounds of the whole server.
            bounds: ProgramBounds {
                running_max: self.cgi_max,
                host_running_max: self.cgi_max,
                host_waiting_max: self.cgi_queue,
            },
            time_limit: self.cgi_timeout.into(),
            nph: if self.cgi_nph { Nph::Allowed } else { Nph::Refused },
            ..CgiOptions::default()
        })
    }
}
