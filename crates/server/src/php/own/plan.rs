//! How the pool is started: its program, arguments, environment, configuration and socket.
//!
//! Pure but for [`Plan::write`] and [`Plan::listener`]. The pool is static: as many children as configured, started at
//! once. The op-code cache is on. Bounds on uploads are those of the server, so that neither refuses what the other
//! takes.

use super::{Found, Kind};
use crate::php::stream::Address;
use std::{
    fmt::Write as _,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixListener},
    },
    path::{Path, PathBuf},
};

/// Connections that the pool's socket queues. All that are opened are served at once; others wait in our own queue.
const BACKLOG: u32 = 511;

/// What starting the pool takes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) found: Found,
    /// Where it runs.
    pub(super) folder: PathBuf,
    pub(super) socket: PathBuf,
    /// The file that php-fpm reads.
    pub(super) configuration: PathBuf,
    pub(super) guard: Guard,
    pub(super) children: usize,
    pub(super) requests_per_child: u32,
    pub(super) content_bytes: u64,
}

/// What keeps others from the pool's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Its own permissions: it is for the pool's user, who is the server's or served by the superuser.
    Socket,
    /// The folder it is in, which the server's group may pass through and nobody else.
    Folder,
}

impl Plan {
    pub(crate) fn program(&self) -> &Path {
        &self.found.program
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it will listen.
    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    /// Writes the configuration, for everybody to read who may pass through its folder.
    pub(super) fn write(&self) -> io::Result<()> {
        if self.found.kind == Kind::Cgi {
            return Ok(());
        }
        fs::write(&self.configuration, self.text())?;
        // Whatever mask we were started with.
        fs::set_permissions(&self.configuration, fs::Permissions::from_mode(0o644))
    }

    /// Removes what is left of it, as far as that is ours to remove.
    pub(super) fn clear(&self) {
        let _ = fs::remove_file(&self.socket);
        if self.found.kind == Kind::Fpm {
            let _ = fs::remove_file(&self.configuration);
        }
    }

    /// The socket that the program gets as standard input, if it is ours to make.
    pub(crate) fn listener(&self) -> io::Result<Option<OwnedFd>> {
        match self.found.kind {
            Kind::Fpm => Ok(None),
            Kind::Cgi => UnixListener::bind(&self.socket).map(|socket| Some(socket.into())),
        }
    }

    /// Whether the listening socket is ours to make.
    pub(super) fn is_listened_for(&self) -> bool {
        self.found.kind == Kind::Cgi
    }

    /// php-fpm's configuration.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("[global]\n");
        // With `--force-stderr` nothing is written there; the default may not be opened by everybody.
        text.push_str("error_log = /dev/null\ndaemonize = no\nlog_level = warning\n\n[vermeil]\n");
        let mode = match self.guard {
            Guard::Socket => "0600",
            Guard::Folder => "0666",
        };
        let (children, requests) = (self.children, self.requests_per_child);
        let socket = self.socket.display();
        writeln!(text, "listen = {socket}\nlisten.mode = {mode}\nlisten.backlog = {BACKLOG}")
            .and_then(|()| writeln!(text, "pm = static\npm.max_children = {children}"))
            .and_then(|()| writeln!(text, "pm.max_requests = {requests}"))
            .expect("a string takes every character");
        text.push_str("catch_workers_output = yes\ndecorate_workers_output = no\n");
        // What the server takes for a script, in any case of letters, and nothing else.
        text.push_str("security.limit_extensions = .php .phP .pHp .pHP .Php .PhP .PHp .PHP\n");
        text
    }

    /// What of PHP's own settings the server decides.
    fn settings(&self) -> [(&'static str, String); 4] {
        let bytes = self.content_bytes.to_string();
        [
            ("opcache.enable", "1".to_owned()),
            // Else php-fpm would run the file that PATH_TRANSLATED names.
            ("cgi.fix_pathinfo", "1".to_owned()),
            ("post_max_size", bytes.clone()),
            ("upload_max_filesize", bytes),
        ]
    }

    /// Arguments behind the program's own name.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.found.kind == Kind::Fpm {
            let file = self.configuration.display().to_string();
            arguments.extend(["--nodaemonize", "--force-stderr", "--fpm-config", &file].map(str::to_owned));
        }
        for (name, value) in self.settings() {
            arguments.extend(["-d".to_owned(), format!("{name}={value}")]);
        }
        arguments
    }

    /// The environment.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned())];
        if self.found.kind == Kind::Cgi {
            variables.push(("PHP_FCGI_CHILDREN", self.children.to_string()));
            // Never, as far as its counter goes.
            let requests =
                if self.requests_per_child == 0 { i32::MAX as u32 } else { self.requests_per_child };
            variables.push(("PHP_FCGI_MAX_REQUESTS", requests.to_string()));
        }
        variables
    }
}
