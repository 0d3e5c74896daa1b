//! The JSON Schema: it refuses unknown keys and wrong kinds of values. Each test of this folder
//! that loads a file also compares that file with the schema.

use super::json_schema;
use jsonschema::Validator;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(&json_schema()).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
});

/// What the schema refuses in the file `text`.
pub(super) fn problems_of(text: &str) -> Vec<String> {
    let file: serde_json::Value = toml::from_str(text).unwrap();
    SCHEMA.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn schema_refuses_unknown_keys_and_wrong_values() {
    for (text, place) in [
        ("coers = 4", ""),
        ("io = \"ring\"", "/io"),
        ("[limits]\nconnections_max = 0", "/limits/connections_max"),
        ("[[host]]\nlisting = 3", "/host/0/listing"),
        ("[[host]]\nroot = \"x\"\nphp = { children = \"4\" }", "/host/0/php"),
        ("[[host]]\n[[host.route]]\nprefix = \"/\"\naction = \"files\"\nform = \"x\"", "/host/0/route/0"),
        ("[[host]]\n[host.cgi]\nenvironment = { A = 3 }", "/host/0/cgi/environment/A"),
    ] {
        let problems = problems_of(text);
        assert!(
            problems.iter().any(|problem| problem.starts_with(&format!("{place}: "))),
            "{text}: {problems:?}"
        );
    }
}
