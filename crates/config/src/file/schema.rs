//! The JSON Schema of the configuration, for editors that complete and check TOML.
//!
//! Generated from the same descriptions as the reference page. The schema accepts every file that
//! `vermeil check` accepts; `vermeil check` also refuses contradictions between keys, which a
//! schema cannot say.

use super::describe::{KeyDoc, Presence, TableDoc, ValueKind, heading, paragraph};
use serde_json::{Map, Value, json};

/// The schema (JSON Schema, draft 7, which editors of TOML read) of a file with `tables`.
pub(super) fn schema(tables: &[TableDoc]) -> Value {
    let definitions: Map<_, _> = tables
        .iter()
        .filter(|table| !table.heading.is_empty())
        .map(|table| (definition_name(&table.heading).to_owned(), table_schema(table, tables)))
        .collect();
    let mut schema = tables
        .iter()
        .find(|table| table.heading.is_empty())
        .map_or_else(|| json!({ "type": "object" }), |top| table_schema(top, tables));
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Configuration of vermeil serve".into();
    schema["definitions"] = definitions.into();
    schema
}

fn table_schema(table: &TableDoc, tables: &[TableDoc]) -> Value {
    let properties: Map<_, _> = table
        .keys
        .iter()
        .map(|key| {
            (key.key.to_owned(), key_schema(key, &heading(&table.heading, key.key, &key.kind), tables))
        })
        .collect();
    let required: Vec<_> = table
        .keys
        .iter()
        .filter(|key| matches!(key.presence, Presence::Required))
        .map(|key| key.key)
        .collect();
    json!({
        "type": "object",
        "description": paragraph(&table.about),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The schema of a key whose value, if it is a table, is described under `heading`.
fn key_schema(key: &KeyDoc, heading: &str, tables: &[TableDoc]) -> Value {
    let mut schema = value_schema(&key.kind, heading, tables);
    // Sizes and times have several forms, and only a number has bounds in the schema.
    if let (ValueKind::Number, Some((least, most))) = (&key.kind, &key.bounds) {
        for (name, bound) in [("minimum", least), ("maximum", most)] {
            if let Ok(bound) = bound.parse::<u64>() {
                schema[name] = bound.into();
            }
        }
    }
    schema["description"] = paragraph(&key.about).into();
    schema
}

fn value_schema(kind: &ValueKind, heading: &str, tables: &[TableDoc]) -> Value {
    let of = |kind: &ValueKind| value_schema(kind, heading, tables);
    match kind {
        ValueKind::Text | ValueKind::Path | ValueKind::Address | ValueKind::Log => {
            json!({ "type": "string" })
        }
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::FlagOrTable => json!({ "anyOf": [of(&ValueKind::Flag), of(&ValueKind::Table)] }),
        ValueKind::Number => json!({ "type": "integer" }),
        ValueKind::Size | ValueKind::Cores | ValueKind::Instances => {
            json!({ "type": ["integer", "string"] })
        }
        ValueKind::Time => json!({ "type": ["number", "string"] }),
        ValueKind::Words(words) => json!({ "enum": words }),
        ValueKind::Field => json!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                { "const": false },
            ],
        }),
        ValueKind::Table => {
            let is_described = tables.iter().any(|table| table.heading == heading);
            if is_described {
                // Beside "$ref", draft 7 ignores other words.
                json!({ "allOf": [{ "$ref": format!("#/definitions/{}", definition_name(heading)) }] })
            } else {
                json!({ "type": "object" })
            }
        }
        ValueKind::Map(value) => json!({ "type": "object", "additionalProperties": of(value) }),
        // The tables below have the first parts of the names.
        ValueKind::DottedMap => json!({ "type": "object" }),
        ValueKind::List(item) => json!({ "type": "array", "items": of(item) }),
        ValueKind::OneOrMore(item) => {
            json!({ "anyOf": [of(item), { "type": "array", "items": of(item) }] })
        }
    }
}

/// The name of a definition: the heading without brackets.
fn definition_name(heading: &str) -> &str {
    heading.trim_matches(['[', ']'])
}
