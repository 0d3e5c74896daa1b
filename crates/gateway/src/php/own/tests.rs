//! Which program is found, and how it is configured.

use super::find::find_in;
use super::*;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use vermeil_settings::{
    php::{PhpOptions, PhpSource},
    php_ini::{IniValue, ScriptsFolder},
};

fn program(path: &Path) {
    fs::write(path, "").expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn the_plain_name_is_found_then_the_newest_and_fpm_before_cgi() {
    let around = tempfile::tempdir().expect("a folder");
    // The search follows links on the way to the folder.
    let around = around.path().canonicalize().expect("there");
    let folders = ["a", "b"].map(|name| around.join(name));
    folders.iter().for_each(|folder| fs::create_dir(folder).expect("made"));
    let found = || {
        find_in(&folders, [PhpKind::Fpm, PhpKind::Cgi])
            .map(|found| found.program.strip_prefix(&around).expect("below").display().to_string())
    };
    assert_eq!(found(), None);
    program(&folders[0].join("php-cgi"));
    assert_eq!(found().as_deref(), Some("a/php-cgi"));
    for (name, expected) in [
        ("b/php-fpm7.4", "b/php-fpm7.4"),
        ("a/php-fpm8.10", "a/php-fpm8.10"),
        ("b/php-fpm8.9", "a/php-fpm8.10"),
        ("b/php-fpm-config", "a/php-fpm8.10"),
        ("b/php-fpm", "b/php-fpm"),
    ] {
        program(&around.join(name));
        assert_eq!(found().as_deref(), Some(expected), "with {name}");
    }
    fs::write(folders[0].join("php-fpm"), "no program").expect("written");
    assert_eq!(found().as_deref(), Some("b/php-fpm"));
}

fn plan(found: FoundPhp, options: &PhpOptions, content_bytes: u64) -> PoolPlan {
    PoolPlan {
        found,
        socket: "/run/v/pools/0.sock".into(),
        configuration: "/run/v/configurations/0.conf".into(),
        children: options.children,
        requests_per_child: options.requests_per_child,
        content_bytes,
        values: PoolValues::default(),
    }
}

#[test]
fn php_fpm_gets_settings_in_a_file() {
    let options = PhpOptions { children: 7, requests_per_child: 9, ..PhpOptions::new(PhpSource::Own, 1) };
    let found = FoundPhp { kind: PhpKind::Fpm, program: "/usr/sbin/php-fpm".into() };
    let plan = plan(found, &options, 1 << 20);
    assert_eq!(
        plan.text(),
        "[global]\nerror_log = /dev/null\ndaemonize = no\nlog_level = warning\n\n[vermeil]\n\
         listen = /nonexistent/vermeil\n\
         pm = static\npm.max_children = 7\npm.max_requests = 9\n\
         catch_workers_output = yes\ndecorate_workers_output = no\n\
         security.limit_extensions = .php .phP .pHp .pHP .Php .PhP .PHp .PHP\n"
    );
    assert_eq!(
        plan.arguments()[..6],
        [
            "--nodaemonize",
            "--force-stderr",
            "--fpm-config",
            "/run/v/configurations/0.conf",
            "-d",
            "opcache.enable=1"
        ]
    );
    assert_eq!(plan.variables()[1..], [("FPM_SOCKETS", "/nonexistent/vermeil=3".to_owned())]);
}

#[test]
fn php_cgi_gets_settings_by_arguments_and_environment() {
    let options = PhpOptions { children: 7, requests_per_child: 0, ..PhpOptions::new(PhpSource::Own, 1) };
    let found = FoundPhp { kind: PhpKind::Cgi, program: "/usr/bin/php-cgi".into() };
    let plan = plan(found, &options, 5);
    assert_eq!(
        plan.arguments(),
        [
            "-d",
            "opcache.enable=1",
            "-d",
            "cgi.fix_pathinfo=1",
            "-d",
            "post_max_size=5",
            "-d",
            "upload_max_filesize=5"
        ]
    );
    let variables: Vec<_> =
        plan.variables().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables[1..], ["PHP_FCGI_CHILDREN=7", "PHP_FCGI_MAX_REQUESTS=2147483647"]);
}

/// Regression: php-cgi ended at once with a number beyond its counter.
#[test]
fn requests_per_child_fit_the_counter_of_php() {
    let options = PhpOptions { requests_per_child: u32::MAX, ..PhpOptions::new(PhpSource::Own, 1) };
    let of = |kind| plan(FoundPhp { kind, program: "/usr/bin/php".into() }, &options, 5);
    assert!(of(PhpKind::Fpm).text().contains("pm.max_requests = 2147483647\n"));
    let cgi = of(PhpKind::Cgi);
    assert!(cgi.variables().contains(&("PHP_FCGI_MAX_REQUESTS", "2147483647".to_owned())));
}

/// Regression: PHP quoted the whole argument, and scripts could change all locked values.
#[test]
fn locked_values_begin_with_line_that_php_leaves_unquoted() {
    let found = FoundPhp { kind: PhpKind::Cgi, program: "/usr/bin/php-cgi".into() };
    let mut plan = plan(found, &PhpOptions::new(PhpSource::Own, 1), 5);
    plan.values.locked = vec![IniValue::new("error_reporting", "~E_NOTICE").expect("fit")];
    plan.values.scripts = ScriptsFolder::new(Path::new("/srv/a"));
    assert_eq!(
        plan.arguments().last().map(String::as_str),
        Some("cgi.fix_pathinfo=1\nerror_reporting=0|~E_NOTICE\n[PATH='/srv/a']\nerror_reporting=0|~E_NOTICE")
    );
}
