//! The environment and the php.ini values of a host's pool, with both programs of PHP.

use super::{
    installed,
    reload::{TAKEN, reload},
    site, whole, write,
};
use crate::support::{Io, TestServer, TestSite, on_usual};
use std::path::Path;

on_usual! {
    pool_gets_environment_and_values_with_php_cgi,
    pool_gets_environment_and_values_with_php_fpm,
    hosts_with_locked_values_have_pools_of_their_own,
    negated_error_level_locks_all_values,
    reload_changes_values_of_a_pool,
}

/// Prints the environment and values, and tries to change the values.
const SCRIPT: &str = "echo json_encode([getenv('APP_ENV'), $_SERVER['APP_ENV'], ini_get('precision'), \
     ini_set('precision', '5'), ini_get('precision'), ini_get('memory_limit'), ini_set('memory_limit', '1G'), \
     ini_restore('memory_limit'), ini_get('memory_limit'), ini_get('user_agent'), function_exists('passthru')]);";

const VALUES: &str = "environment = { APP_ENV = \"it's \\\"live\\\" $PATH ;\" }\nini = { precision = \"7\" }\n\
     ini_locked = { memory_limit = \"65M\", user_agent = \"it's \\\"a\\\\b\\\"\", disable_functions = \"passthru\" }\n";

fn file(program: &Path, tables: &[(&str, &str, &str)]) -> String {
    let hosts = tables.iter().map(|(name, root, keys)| {
        format!("[[host]]\nnames = [\"{name}\"]\nroot = \"{root}\"\n[host.php]\nchildren = 1\n{keys}\n")
    });
    format!("[php]\nsource = {program:?}\n{}", hosts.collect::<String>())
}

#[track_caller]
fn of(server: &TestServer, host: &str, target: &str) -> String {
    let (head, body) = whole(&mut server.client(), "GET", &format!("http://{host}{target}"), &[], b"");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{server:?}");
    String::from_utf8(body).expect("UTF-8")
}

/// Serves a site whose folder has a space in its name, with [`VALUES`].
fn pool_gets_environment_and_values(io: Io, program: &str) {
    let Some(program) = installed(program) else {
        return eprintln!("SKIPPED: no {program} on this machine");
    };
    let site = site();
    write(&site, "my app/a.php", SCRIPT);
    site.write("my app/.user.ini", b"memory_limit = 1G\n");
    let server = TestServer::configured(io, &site, &file(&program, &[("a", "site/my app", VALUES)]));
    // PHP must lock the values again for further requests of a child.
    for target in ["/a.php", "/a.php", "/a.php/info"] {
        assert_eq!(
            of(&server, "a", target),
            "[\"it's \\\"live\\\" $PATH ;\",\"it's \\\"live\\\" $PATH ;\",\"7\",\"7\",\"5\",\"65M\",false,null,\"65M\",\
             \"it's \\\"a\\\\b\\\"\",false]"
        );
    }
    server.stops_clean();
}

fn pool_gets_environment_and_values_with_php_cgi(io: Io) {
    pool_gets_environment_and_values(io, "php-cgi");
}

fn pool_gets_environment_and_values_with_php_fpm(io: Io) {
    pool_gets_environment_and_values(io, "php-fpm");
}

fn hosts_with_locked_values_have_pools_of_their_own(io: Io) {
    let Some(program) = installed("php-cgi") else {
        return eprintln!("SKIPPED: no php-cgi on this machine");
    };
    let site = site();
    for name in ["a", "b"] {
        write(
            &site,
            &format!("{name}/a.php"),
            "echo getmypid(), ' ', ini_set('memory_limit', '1G') === false;",
        );
    }
    let keys = "ini_locked = { memory_limit = \"65M\" }";
    let hosts = [("a", "site/a", keys), ("b", "site/b", keys)];
    let server = TestServer::configured(io, &site, &file(&program, &hosts));
    let said = ["a", "b"].map(|host| of(&server, host, "/a.php"));
    assert!(said.iter().all(|said| said.ends_with(" 1")), "locked for both: {said:?}");
    assert_ne!(said[0], said[1], "each has its pool");
    server.stops_clean();
}

/// Regression: php-cgi locked no value if the first was an error level that began with `~`.
fn negated_error_level_locks_all_values(io: Io) {
    for program in ["php-cgi", "php-fpm"] {
        let Some(program) = installed(program) else {
            eprintln!("SKIPPED: no {program} on this machine");
            continue;
        };
        let site = site();
        let code = "echo error_reporting() & (E_NOTICE | E_WARNING), ' ', ini_get('memory_limit'), \
                    ini_set('memory_limit', '1G') === false, ini_set('error_reporting', '0') === false;";
        write(&site, "a.php", code);
        let keys = "ini_locked = { error_reporting = \"~E_NOTICE\", memory_limit = \"65M\" }";
        let server = TestServer::configured(io, &site, &file(&program, &[("a", "site", keys)]));
        // E_WARNING is 2.
        assert_eq!(of(&server, "a", "/a.php"), "2 65M11");
        server.stops_clean();
    }
}

fn reload_changes_values_of_a_pool(io: Io) {
    let Some(program) = installed("php-cgi") else {
        return eprintln!("SKIPPED: no php-cgi on this machine");
    };
    let site: TestSite = site();
    write(
        &site,
        "a.php",
        "echo getenv('A'), ini_get('memory_limit'), ini_set('memory_limit', '9M') === false;",
    );
    let keys = |number: usize| {
        let locked = format!(
            "environment = {{ A = \"{number} \" }}\nini_locked = {{ memory_limit = \"6{number}M\" }}"
        );
        file(&program, &[("a", "site", &locked)])
    };
    let server = TestServer::configured(io, &site, &keys(1));
    assert_eq!(of(&server, "a", "/a.php"), "1 61M1");
    reload(&server, &site, io, &keys(2), TAKEN);
    assert_eq!(of(&server, "a", "/a.php"), "2 62M1");
    server.stops_clean();
}
