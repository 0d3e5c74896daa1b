//! Keys that have moved to another table.

use super::problems;

#[test]
fn moved_key_names_its_new_table() {
    for key in ["queue_timeout", "timeout", "body_bytes", "spool_folder", "spool_bytes"] {
        let problem = format!("v.toml:2:1: php.{key}: this key has moved: write `{key}` in [programs]");
        assert_eq!(problems(&format!("[php]\n{key} = 1\n[[host]]\n")), [problem]);
    }
}
