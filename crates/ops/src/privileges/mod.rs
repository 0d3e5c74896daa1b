//! Gives up the superuser's rights once they are no longer needed: after the server has bound its
//! ports, opened the log and made the control socket.
//!
//! Owns the moment and the preparations. All steps happen while the process has no other threads,
//! because the kernel keeps users per thread. The spawner runs programs as other users and keeps
//! the right to change the user, so in that case it starts before the server gives up its rights.
//! Tested through the binary (`crates/e2e/tests/e2e/user.rs`).

mod becoming;

pub use becoming::{PrivilegeError, look_as, refuse_without_rights};

use becoming::{own_log, take_on};
use rustix::process::geteuid;
use std::io;
use vermeil_config::ServeOptions;
use vermeil_io::output::FileOwner;
use vermeil_log::operator_log::log_line;
use vermeil_settings::rights;
use vermeil_spawn::Identity;

/// The moment at which a server becomes its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the spawner starts.
    BeforePrograms,
    /// After the spawner has started, because programs run as other users.
    AfterPrograms,
}

/// The moment at which this server becomes its user.
pub fn when(options: &ServeOptions) -> When {
    let Some(user) = &options.user else { return When::BeforePrograms };
    let is_other = |identity: &Identity| identity.uid != user.identity().uid;
    let cgi_is_other = options.cgi.identity.as_ref().is_some_and(is_other);
    let php = options.php.as_ref().and_then(|php| php.user.as_deref());
    let php_is_other = php.is_some_and(|php| Identity::of_user(php).as_ref().is_ok_and(is_other));
    let pool_is_other =
        options.hosts.pools().any(|pool| pool.user.as_ref().is_none_or(|user| is_other(user.identity())));
    let mut programs = options.hosts.programs().filter_map(|programs| programs.user.as_ref());
    let host_is_other = programs.any(|user| is_other(user.identity()));
    if cgi_is_other || php_is_other || pool_is_other || host_is_other {
        When::AfterPrograms
    } else {
        When::BeforePrograms
    }
}

/// The user that this process will become, if that is another user. Files that the server uses
/// later must belong to this user.
pub fn owner(options: &ServeOptions) -> Option<FileOwner> {
    options.user.as_ref().filter(|user| !user.is_ours()).map(becoming::owner)
}

/// Prepares the change to another user.
///
/// # Errors
/// The log cannot be opened.
pub fn prepare(options: &ServeOptions) -> io::Result<()> {
    options.user.as_ref().map_or(Ok(()), |user| own_log(user, options.log.file()))
}

/// Becomes the configured user, if `now` is the right moment.
///
/// # Errors
/// This process lacks the right.
pub fn give_up(options: &ServeOptions, now: When) -> Result<(), PrivilegeError> {
    match &options.user {
        Some(user) if when(options) == now && !user.is_ours() => {
            take_on(user)?;
            rights::note_given_up();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The warning about a server that stays the superuser.
pub fn superuser_warning(options: &ServeOptions) -> Option<&'static str> {
    (options.user.is_none() && geteuid().is_root()).then_some(
        "serving as the superuser; --user NAME, or the key `user`, gives that up once the ports are bound",
    )
}

/// Logs the user of the server, or a warning if that is the superuser.
pub fn say_who(options: &ServeOptions) {
    if let Some(user) = &options.user {
        log_line(format_args!("user: {user}"));
    } else if let Some(warning) = superuser_warning(options) {
        log_line(format_args!("warning: {warning}"));
    }
}
