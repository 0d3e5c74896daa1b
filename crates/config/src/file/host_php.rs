//! The pool that `[host.php]` results in, with its environment and its values of php.ini.
//!
//! Leaves out the pool of the server (`programs.rs`). Tested in `tests/host_php.rs`.

use super::{
    environment::variables,
    host_php_table::HostPhpTable,
    problems::Problems,
    programs::{new_privileges, user},
    read::{At, DottedTable, FlagOr, narrow},
};
use std::{path::Path, sync::Arc};
use vermeil_routing::{hosts::HostPhp, paths};
use vermeil_settings::{
    php::PoolOptions,
    php_ini::{IniValue, POOL_VALUES_BYTES_MAX, PoolValues, ScriptsFolder},
};

/// Variables by which the server starts a pool.
const OF_POOL: [&str; 4] =
    ["FCGI_WEB_SERVER_ADDRS", "FPM_SOCKETS", "PHP_FCGI_CHILDREN", "PHP_FCGI_MAX_REQUESTS"];

/// The PHP of a host with the folder `root`.
pub(super) fn host_php(php: &FlagOr<HostPhpTable>, root: Option<&Path>, problems: &mut Problems) -> HostPhp {
    let table = match php {
        FlagOr::Flag(false) => return HostPhp::Off,
        FlagOr::Flag(true) => return HostPhp::Shared,
        FlagOr::Table(table) => table,
    };
    HostPhp::Own(Arc::new(PoolOptions {
        user: user(table.user.as_ref(), "host.php.user", problems),
        children: narrow(table.children),
        queue_max: narrow(table.queue_max),
        requests_per_child: u32::try_from(table.requests_per_child).expect("bounded"),
        idle_stop: table.idle_stop.into(),
        new_privileges: new_privileges(table.no_new_privileges),
        values: values(table, root, problems),
    }))
}

fn values(table: &HostPhpTable, root: Option<&Path>, problems: &mut Problems) -> PoolValues {
    let environment = variables(&table.environment, "host.php.environment", &OF_POOL, problems);
    let ini = ini_values(&table.ini, "host.php.ini", problems);
    let locked = ini_values(&table.ini_locked, "host.php.ini_locked", problems);
    for (name, _) in &table.ini.0 {
        if table.ini_locked.0.iter().any(|(other, _)| other.value == name.value) {
            let what = "ini_locked has this value too; leave one of the two out";
            problems.push(&name.at, &format!("host.php.ini.{}", name.value), what);
        }
    }
    let bytes = environment.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        + ini.iter().chain(&locked).map(IniValue::bytes).sum::<usize>();
    let of_ini = table.ini.0.iter().chain(&table.ini_locked.0);
    let last = table.environment.0.iter().chain(of_ini).map(|(_, At { at, .. })| at).max_by_key(|at| at.end);
    if let Some(at) = last.filter(|_| bytes > POOL_VALUES_BYTES_MAX) {
        let what = format!(
            "the values of environment, ini and ini_locked have {bytes} bytes, more than {POOL_VALUES_BYTES_MAX}; \
             write large values into a file of the application"
        );
        problems.push(at, "host.php", what);
    }
    PoolValues { environment, ini, scripts: scripts(table, root, problems), locked }
}

/// The folder for which the locked values hold.
fn scripts(table: &HostPhpTable, root: Option<&Path>, problems: &mut Problems) -> Option<ScriptsFolder> {
    let (name, _) = table.ini_locked.0.first()?;
    // Without a folder no script runs.
    let root = paths::absolute(root?);
    let folder = ScriptsFolder::new(&root);
    if folder.is_none() {
        let what = format!(
            "PHP locks values for a folder below /, without ' and control characters in its path, which {root:?} is not; \
             move the site to another folder, or write the values in ini"
        );
        problems.push(&name.at, "host.php.ini_locked", what);
    }
    folder
}

fn ini_values(table: &DottedTable, key: &str, problems: &mut Problems) -> Vec<IniValue> {
    let mut values = Vec::new();
    for (name, value) in &table.0 {
        match IniValue::new(&name.value, &value.value) {
            Ok(value) => values.push(value),
            Err(why) => {
                let at = if why.is_about_name() { &name.at } else { &value.at };
                problems.push(at, &format!("{key}.{}", name.value), why.to_string());
            }
        }
    }
    values
}
