//! How a pool is started: program, arguments, environment, configuration and socket.
//!
//! Pure but for [`PoolPlan::write`] and [`PoolPlan::listener`]. The server creates the listening
//! socket under a name that only its own user can reach. The program inherits the socket: php-cgi
//! as standard input, php-fpm as descriptor 3. The pool is static: the configured number of
//! children starts at once. The op-code cache is on. Upload limits equal the server's, so that PHP
//! and the server accept the same requests.

use super::{FoundPhp, PhpKind};
use crate::php::stream::ApplicationAddress;
use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixListener},
    },
    path::{Path, PathBuf},
};
use vermeil_io::output::{NameInFolder, Output};
use vermeil_settings::php_ini::{IniValue, PoolValues};

/// Backlog of the pool's socket. Every open connection is served at once, because requests wait in
/// the server's own queue.
const BACKLOG: i32 = 511;

/// The name by which php-fpm finds the inherited socket. No file has this name, so php-fpm removes
/// none when it ends.
const INHERITED: &str = "/nonexistent/vermeil";

/// The highest number of requests per child: PHP counts with 32 bits and a sign.
const REQUESTS_MAX: u32 = i32::MAX as u32;

/// The setting by which PHP finds the script of a request.
const FIX_PATHINFO: (&str, &str) = ("cgi.fix_pathinfo", "1");

/// Everything needed to start the pool.
#[derive(Debug)]
pub struct PoolPlan {
    pub(super) found: FoundPhp,
    pub(super) socket: PathBuf,
    /// Configuration file of php-fpm.
    pub(super) configuration: PathBuf,
    pub(super) children: usize,
    pub(super) requests_per_child: u32,
    pub(super) content_bytes: u64,
    /// The environment and the php.ini values that the operator chose.
    pub(super) values: PoolValues,
}

impl PoolPlan {
    pub fn program(&self) -> &Path {
        &self.found.program
    }

    /// The address of the pool.
    pub fn address(&self) -> ApplicationAddress {
        ApplicationAddress::Unix(self.socket.clone())
    }

    /// Writes the configuration, readable for every user that can enter the folder.
    pub(super) fn write(&self) -> io::Result<()> {
        if self.found.kind == PhpKind::Cgi {
            return Ok(());
        }
        let mut file = Output::replace().open(&self.configuration)?;
        // Independent of the umask.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(self.text().as_bytes())
    }

    /// Removes the pool's files, as far as the server may.
    pub(super) fn clear(&self) {
        let _ = fs::remove_file(&self.socket);
        if self.found.kind == PhpKind::Fpm {
            let _ = fs::remove_file(&self.configuration);
        }
    }

    /// Creates the socket that the program inherits as standard input. Only the server's user can
    /// reach the name.
    pub fn listener(&self) -> io::Result<OwnedFd> {
        let socket = UnixListener::bind(NameInFolder::find(&self.socket)?.way())?;
        fs::set_permissions(&self.socket, fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket.into())
    }

    /// php-fpm's configuration.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("[global]\n");
        // With `--force-stderr` php-fpm writes nothing there. The pool's user may lack the right to
        // open the default file.
        text.push_str("error_log = /dev/null\ndaemonize = no\nlog_level = warning\n\n[vermeil]\n");
        let (children, requests) = (self.children, self.requests_per_child());
        writeln!(text, "listen = {INHERITED}")
            .and_then(|()| writeln!(text, "pm = static\npm.max_children = {children}"))
            .and_then(|()| writeln!(text, "pm.max_requests = {requests}"))
            .expect("a string takes every character");
        text.push_str("catch_workers_output = yes\ndecorate_workers_output = no\n");
        // The extensions that the server treats as PHP, in any case of letters, and no others.
        text.push_str("security.limit_extensions = .php .phP .pHp .pHP .Php .PhP .PHp .PHP\n");
        for (name, _) in &self.values.environment {
            // php-fpm takes the value from its own environment, so that no quoting changes it.
            writeln!(text, "env[{name}] = ${name}").expect("a string takes every character");
        }
        for value in &self.values.locked {
            let (name, quoted) = (value.name(), value.quoted());
            writeln!(text, "php_admin_value[{name}] = {quoted}").expect("a string takes every character");
        }
        text
    }

    /// Requests per child; 0: never. PHP refuses higher numbers than its counter can hold.
    fn requests_per_child(&self) -> u32 {
        self.requests_per_child.min(REQUESTS_MAX)
    }

    /// PHP settings that the server decides.
    fn settings(&self) -> [(&'static str, String); 4] {
        let bytes = self.content_bytes.to_string();
        [
            ("opcache.enable", "1".to_owned()),
            // Otherwise php-fpm runs the file that PATH_TRANSLATED names.
            (FIX_PATHINFO.0, FIX_PATHINFO.1.to_owned()),
            ("post_max_size", bytes.clone()),
            ("upload_max_filesize", bytes),
        ]
    }

    /// Arguments after the program name.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.found.kind == PhpKind::Fpm {
            let file = self.configuration.display().to_string();
            arguments.extend(["--nodaemonize", "--force-stderr", "--fpm-config", &file].map(str::to_owned));
        }
        for (name, value) in self.settings() {
            arguments.extend(["-d".to_owned(), format!("{name}={value}")]);
        }
        for value in &self.values.ini {
            arguments.extend(["-d".to_owned(), value.line()]);
        }
        arguments.extend(self.locked_lines().into_iter().flat_map(|lines| ["-d".to_owned(), lines]));
        arguments
    }

    /// The locked values as an argument, which is the last: PHP takes the argument for lines of a
    /// php.ini, and everything behind belongs to the section. php-cgi locks the values of a section
    /// `[PATH=]`; values without a section hold for modules that read them at the start.
    ///
    /// The first line is a value of the server. PHP quotes the whole argument, and so drops all
    /// locks, if the first value begins with another character than a letter, a digit or a quote.
    fn locked_lines(&self) -> Option<String> {
        let PoolValues { locked, scripts, .. } = &self.values;
        let lines = locked.iter().map(IniValue::line).reduce(|before, line| format!("{before}\n{line}"))?;
        let (name, value) = FIX_PATHINFO;
        let lines_of_all = format!("{name}={value}\n{lines}");
        match scripts {
            Some(scripts) if self.found.kind == PhpKind::Cgi => {
                Some(format!("{lines_of_all}\n{}\n{lines}", scripts.section()))
            }
            _ => Some(lines_of_all),
        }
    }

    /// The environment.
    pub fn variables(&self) -> Vec<(&str, String)> {
        let chosen = self.values.environment.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let mut variables: Vec<_> = chosen.collect();
        if !variables.iter().any(|(name, _)| *name == "PATH") {
            variables.push(("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()));
        }
        if self.found.kind == PhpKind::Fpm {
            variables.push(("FPM_SOCKETS", format!("{INHERITED}=3")));
        }
        if self.found.kind == PhpKind::Cgi {
            variables.push(("PHP_FCGI_CHILDREN", self.children.to_string()));
            // The highest value of the counter, in place of "never".
            let requests = match self.requests_per_child() {
                0 => REQUESTS_MAX,
                requests => requests,
            };
            variables.push(("PHP_FCGI_MAX_REQUESTS", requests.to_string()));
        }
        variables
    }
}
