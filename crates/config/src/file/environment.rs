//! Environment variables that an operator chooses for the programs of a host.

use super::{
    problems::Problems,
    read::{At, FreeTable},
};

/// Variables that describe the request (RFC 3875 §4.1, and common additions of servers), except
/// those that begin with an entry of [`RESERVED_STARTS`].
const RESERVED: [&str; 9] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
];
const RESERVED_STARTS: [&str; 6] = ["HTTP_", "REMOTE_", "REQUEST_", "SCRIPT_", "SERVER_", "UNIQUE_ID"];

/// The names and values in `table`, which is the key `key`. The server starts a pool by the
/// variables in `of_pool`.
pub(super) fn variables(
    table: &FreeTable<String>,
    key: &str,
    of_pool: &[&str],
    problems: &mut Problems,
) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (At { value: name, at: name_at }, At { value, at }) in &table.0 {
        let key = format!("{key}.{name}");
        if let Some(what) = unfit_variable(name) {
            problems.push(name_at, &key, what);
        } else if of_pool.contains(&&**name) {
            problems.push(name_at, &key, "the server starts the pool by this variable; leave it out");
        } else if value.contains('\0') {
            problems.push(at, &key, "a value has no zero bytes; leave them out");
        } else {
            variables.push((name.clone(), value.clone()));
        }
    }
    variables
}

/// Why no operator can choose the variable `name`; `None` for a name that fits.
fn unfit_variable(name: &str) -> Option<&'static str> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = name.bytes().all(is_of_name) && name.starts_with(|first: char| !first.is_ascii_digit());
    if !is_name {
        return Some("a name has letters, digits and underscores, and no digit at its start");
    }
    let is_reserved = RESERVED.contains(&name) || RESERVED_STARTS.iter().any(|start| name.starts_with(start));
    is_reserved.then_some("this variable tells a program about its request; choose another name")
}
