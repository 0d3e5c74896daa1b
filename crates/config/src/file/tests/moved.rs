//! Keys that have moved to another table, and keys in the wrong table.

use super::problems;

#[test]
fn moved_key_names_its_new_table() {
    for key in ["queue_timeout", "timeout", "body_bytes", "spool_folder", "spool_bytes"] {
        let problem = format!("v.toml:2:1: php.{key}: this key has moved: write `{key}` in [programs]");
        assert_eq!(problems(&format!("[php]\n{key} = 1\n[[host]]\n")), [problem]);
    }
}

#[test]
fn misplaced_key_names_its_table() {
    for (text, problem) in [
        (
            "[hosts.php]\nchildren = 2\n[[host]]\nindex = [\"index.php\"]\n",
            "1:8: hosts.php: write [php] or [host.php]",
        ),
        ("[access]\nrealm = \"A\"\n[[host]]\n", "1:2: access: write [host.access] or [host.route.access]"),
        ("[route.access]\nrealm = \"A\"\n[[host]]\n", "1:2: route: write [[host.route]]"),
        (
            "[[host]]\nbody_bytes = 1\n",
            "2:1: host.body_bytes: write `body_bytes` in [limits] or `body_bytes` in [programs]",
        ),
        (
            "[limits]\nio = \"auto\"\n[[host]]\n",
            "2:1: limits.io: write `io` at the top of the file, before all tables",
        ),
    ] {
        let problem = problem.replace(": write", ": there is no such key here; write");
        assert_eq!(problems(text), [format!("v.toml:{problem}")], "{text}");
    }
}
