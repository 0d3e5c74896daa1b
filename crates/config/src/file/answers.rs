//! The keys for the answers of hosts and routes: fields, and `Cache-Control` by media type.
//!
//! Leaves out the keys themselves (`keys.rs`). The refusals are tested in `tests/answers.rs`.

use super::{
    problems::Problems,
    read::{At, FieldValues, FreeTable},
    routes,
};
use vermeil_files::CachingOf;
use vermeil_routing::hosts::{ErrorPagePath, HeaderRule, HeaderRules, check_value};

/// The fields of answers, as written for a host or a route.
pub(super) struct WrittenFields<'d> {
    /// The table with the keys: `host` or `host.route`.
    pub(super) table: &'static str,
    pub(super) headers: &'d FreeTable<FieldValues>,
    pub(super) add_headers: &'d FreeTable<FieldValues>,
}

impl WrittenFields<'_> {
    /// The rules. Rules that are refused are left out.
    pub(super) fn rules(&self, problems: &mut Problems) -> HeaderRules {
        let set = self.headers.0.iter().map(|entry| (entry, "headers"));
        let add = self.add_headers.0.iter().map(|entry| (entry, "add_headers"));
        let mut rules = Vec::new();
        for ((name, values), key) in set.chain(add) {
            let texts = values.value.0.iter().map(|text| text.as_str().into()).collect::<Vec<_>>();
            if texts.is_empty() && key == "add_headers" {
                let what = "false removes a field; write it in headers";
                problems.push(&values.at, &format!("{}.add_headers.{}", self.table, name.value), what);
                continue;
            }
            let rule = if key == "headers" { HeaderRule::Set(texts) } else { HeaderRule::Add(texts) };
            let rule = (name.value.as_str().into(), rule);
            match HeaderRules::new(vec![rule.clone()]) {
                Ok(_) => rules.push(rule),
                Err((_, why)) => {
                    let at = if why.is_about_value() { &values.at } else { &name.at };
                    problems.push(at, &format!("{}.{key}.{}", self.table, name.value), why.to_string());
                }
            }
        }
        for (index, (name, _)) in self.headers.0.iter().enumerate() {
            let before = &self.headers.0[..index];
            if before.iter().any(|(other, _)| other.value.eq_ignore_ascii_case(&name.value)) {
                let what = "this field is set already; the case of letters makes no difference";
                problems.push(&name.at, &format!("{}.headers.{}", self.table, name.value), what);
            }
        }
        HeaderRules::new(rules).expect("each rule was checked")
    }
}

/// `Cache-Control` by media type.
pub(super) fn caching(written: &FreeTable<String>, problems: &mut Problems) -> Vec<CachingOf> {
    let mut caching = Vec::new();
    for (types, At { value, at }) in &written.0 {
        let key = format!("host.cache_control.\"{}\"", types.value);
        if let Err(why) = check_value(value) {
            problems.push(at, &key, why.to_string());
            continue;
        }
        match types.value.parse() {
            Ok(types) => caching.push(CachingOf { types, value: value.as_str().into() }),
            Err(why) => problems.push(&types.at, &key, vermeil_files::UnfitRange::to_string(&why)),
        }
    }
    caching
}

/// The pages of errors.
pub(super) fn error_pages(written: &FreeTable<String>, problems: &mut Problems) -> Vec<ErrorPagePath> {
    let mut pages: Vec<ErrorPagePath> = Vec::new();
    for (statuses, At { value, at }) in &written.0 {
        let key = format!("host.error_pages.{}", statuses.value);
        if let Some(what) = routes::error_page_path(value) {
            problems.push(at, &key, format!("\"{value}\": {what}"));
            continue;
        }
        let statuses = match statuses.value.parse() {
            Ok(statuses) => statuses,
            Err(why) => {
                problems.push(&statuses.at, &key, vermeil_routing::hosts::UnfitStatus::to_string(&why));
                continue;
            }
        };
        let page = ErrorPagePath { statuses, path: value.as_str().into() };
        match pages.iter().find(|before| before.statuses.includes(&page.statuses)) {
            Some(before) => {
                let what = format!(
                    "the page of {} is before this one; write the single status first",
                    before.statuses
                );
                problems.push(at, &key, what);
            }
            None => pages.push(page),
        }
    }
    pages
}
