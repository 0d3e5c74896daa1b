//! A MariaDB of the test's own: folder, socket and process; no port.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::site::{LOOK, PATIENCE};
use crate::error::{Error, Result};
use crate::packages::is_root;
use crate::steps::run_command;

/// The user of the database's process, if the superuser runs the test.
const DATABASE_USER: &str = "nobody";

/// A running database with the user `root` without a password.
pub(super) struct Database {
    process: Child,
    socket: PathBuf,
}

impl Database {
    /// Makes a new database in `folder`, and starts it.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let data = folder.join("database");
        std::fs::create_dir(&data).map_err(Error::path("make", &data))?;
        let user: &[&str] = if is_root() { &["--user", DATABASE_USER] } else { &[] };
        if is_root() {
            run_command(Command::new("chown").arg(DATABASE_USER).arg(&data))?;
        }
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg(format!("--datadir={}", data.display())).args(user).stdout(Stdio::null());
        run_command(&mut install)?;
        let socket = data.join("socket");
        let mut server = Command::new("mariadbd");
        server.args(["--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=0"]);
        server.arg(format!("--datadir={}", data.display())).args(user);
        server.arg(format!("--socket={}", socket.display()));
        server.arg(format!("--pid-file={}", data.join("pid").display()));
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = server.spawn().map_err(Error::path("start", Path::new("mariadbd")))?;
        let mut database = Self { process, socket };
        let deadline = Instant::now() + PATIENCE;
        while !database.client().args(["-e", "select 1"]).output().is_ok_and(|output| output.status.success())
        {
            if let Ok(Some(status)) = database.process.try_wait() {
                return Err(Error::form("mariadbd", format!("it ended ({status})")));
            }
            if Instant::now() > deadline {
                return Err(Error::form("mariadbd", "it does not answer"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(database)
    }

    /// Runs statements.
    pub(super) fn run(&self, statements: &str) -> Result<()> {
        run_command(self.client().args(["-e", statements]))
    }

    /// The database's socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--socket"]).arg(&self.socket);
        command
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
