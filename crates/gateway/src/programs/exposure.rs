//! Programs that may not run as configured, because they would have the server's own rights.
//!
//! Leaves out the change of user (`vermeil_ops::privileges`). Tested through the binary
//! (`crates/e2e/tests/e2e/user.rs`).

use crate::cgi;
use vermeil_config::ServeOptions;
use vermeil_settings::Unfit;
use vermeil_spawn::Identity;

/// Why the programs of `options` may not run as configured: CGI programs as the server's own user.
pub fn exposure(options: &ServeOptions) -> Option<String> {
    // A server without `user` may name its user for programs: without rights over other users, the
    // server can start programs as no other user, so the name changes nothing.
    let user = options.user.as_ref()?;
    let is_server = |identity: &Identity| identity.uid == user.identity().uid;
    let is_named = options.cgi.identity.as_ref().is_some_and(is_server)
        || options
            .hosts
            .programs()
            .filter_map(|programs| programs.user.as_ref())
            .any(|user| is_server(user.identity()));
    if is_named {
        return Some(format!("cannot run CGI programs as {user}: that is {}", Unfit::SERVER));
    }
    // Without a configured user, programs run as the server's user. That is no loss if all programs
    // do, because no program of another user needs protection. The plan of `vermeil check` says so.
    // A user that is named is meant to protect the server, so the server's own name is refused.
    let is_nameless = cgi::profiles(&options.cgi, &options.hosts).any(|profile| profile.identity.is_none());
    let mut pools = options.hosts.pools().filter_map(|pool| pool.user.as_ref());
    let has_others = pools.any(|user| !is_server(user.identity()));
    (is_nameless && has_others).then(|| {
        format!(
            "cannot run CGI programs as {user} beside the PHP pools of other users: that is {}, by user in [cgi]",
            Unfit::SERVER
        )
    })
}
