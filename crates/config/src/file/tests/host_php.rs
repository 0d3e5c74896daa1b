//! The environment and the php.ini values of `[host.php]`: the options, and the refusals.

use super::{load, problems};
use vermeil_settings::php_ini::PoolValues;

/// A host whose name has the letters of its folder.
fn of(root: &str, keys: &str) -> String {
    let letters: String = root.chars().filter(char::is_ascii_alphabetic).collect();
    format!("[[host]]\nroot = \"{root}\"\nnames = [\"h{letters}\"]\n[host.php]\n{keys}\n")
}

#[test]
fn pool_has_environment_and_values() {
    let text = of(
        "/srv/a",
        "environment = { APP_ENV = \"live\", PATH = \"/bin\" }\nini.date.timezone = \"UTC\"\n\
         ini.\"session.name\" = \"S\"\nini_locked = { memory_limit = \"64M\" }",
    );
    let options = load(&text);
    let pool = options.hosts.pools().next().expect("a pool");
    let PoolValues { environment, ini, locked, scripts } = &pool.values;
    let pairs = [("APP_ENV", "live"), ("PATH", "/bin")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(environment[..], pairs);
    let lines: Vec<_> = ini.iter().chain(locked).map(|value| value.line()).collect();
    assert_eq!(lines, ["date.timezone='UTC'", "session.name='S'", "memory_limit='64M'"]);
    assert_eq!(scripts.as_ref().expect("locked").section(), "[PATH='/srv/a']");
}

#[test]
fn only_locked_values_part_pools_of_folders() {
    for (keys, count) in [("ini = { a = \"b\" }", 1), ("ini_locked = { a = \"b\" }", 2)] {
        let options = load(&[of("/srv/a", keys), of("/srv/b", keys)].concat());
        assert_eq!(options.hosts.pools().count(), count, "{keys}");
    }
}

#[test]
fn wrong_values_of_a_pool_are_refused() {
    for (keys, problem) in [
        (
            "environment = [\"A=b\"]",
            "5:15: host.php.environment: this is a list; write a table, such as { Name = \"value\" }",
        ),
        (
            "environment = { A-B = \"c\" }",
            "5:17: host.php.environment.A-B: a name has letters, digits and underscores, and no digit at its start",
        ),
        (
            "environment = { HTTP_PROXY = \"c\" }",
            "5:17: host.php.environment.HTTP_PROXY: this variable tells a program about its request; choose another name",
        ),
        (
            "environment = { PHP_FCGI_CHILDREN = \"9\" }",
            "5:17: host.php.environment.PHP_FCGI_CHILDREN: the server starts the pool by this variable; leave it out",
        ),
        (
            "environment = { A = \"\\u0000\" }",
            "5:21: host.php.environment.A: a value has no zero bytes; leave them out",
        ),
        (
            "ini = { memory_limit = 256 }",
            "5:24: host.php.ini: this is a whole number; write a text in quotes",
        ),
        (
            "ini = \"php.ini\"",
            "5:7: host.php.ini: this is a text; write a table, such as { Name = \"value\" }",
        ),
        (
            "ini = { \"a=b\" = \"1\" }",
            "5:9: host.php.ini.a=b: a name of php.ini has letters, digits, '.', '_' and '-', for example memory_limit",
        ),
        (
            "ini.cgi.fix_pathinfo = \"0\"",
            "5:9: host.php.ini.cgi.fix_pathinfo: the server sets this value, because PHP finds the script of a request \
             by it; leave it out",
        ),
        (
            "ini_locked = { a = \"1\\n2\" }",
            "5:20: host.php.ini_locked.a: a value of php.ini has no control characters; write it in one line",
        ),
        (
            "ini_locked = { a = \"it's ${B}\" }",
            "5:20: host.php.ini_locked.a: php.ini cannot hold a value with both ' and ${; leave one of the two out",
        ),
        (
            "ini = { a = \"1\" }\nini_locked = { a = \"2\" }",
            "5:9: host.php.ini.a: ini_locked has this value too; leave one of the two out",
        ),
        (
            "ini_lockd = { a = \"2\" }",
            "5:1: host.php.ini_lockd: there is no such key; did you mean `ini_locked`?",
        ),
    ] {
        assert_eq!(problems(&of("/srv/a", keys)), [format!("v.toml:{problem}")], "{keys}");
    }
    for root in ["/", "/srv/it's"] {
        let found = problems(&of(root, "ini_locked = { a = \"2\" }"));
        let start = "v.toml:5:16: host.php.ini_locked: PHP locks values for a folder below /, without ' and control characters";
        assert!(found[0].starts_with(start), "{found:?}");
    }
    let large = "x".repeat(20_000);
    let found =
        problems(&of("/srv/a", &format!("ini = {{ a = \"{large}\" }}\nini_locked = {{ b = \"{large}\" }}")));
    let what = "v.toml:6:20: host.php: the values of environment, ini and ini_locked have 40002 bytes, more than 32768";
    assert!(found[0].starts_with(what), "{found:?}");
}
