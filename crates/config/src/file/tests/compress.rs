//! The refusals of `compress` and `[compression]`, and the rules that they result in.

use super::{load, problems};
use vermeil_http::negotiate::Choice;
use vermeil_routing::hosts::{CompressionLevels, CompressionRules};

#[test]
fn wrong_compression_is_refused() {
    for (text, problem) in [
        (
            "[[host]]\ncompress = \"gzip\"\n",
            "v.toml:2:12: host.compress: this is a text; write true, false, or a table in { }",
        ),
        (
            "[[host]]\ncompress = { typs = [\"text/css\"] }\n",
            "v.toml:2:14: host.compress.typs: there is no such key; did you mean `types`?",
        ),
        (
            "[[host]]\ncompress = { types = [\"css\"] }\n",
            "v.toml:2:23: host.compress.types: \"css\" is no media type; write one such as \"text/css\", \"image/*\" or \"*\"",
        ),
        (
            "[[host]]\ncompress = { types = [] }\n",
            "v.toml:2:22: host.compress.types: no media type is named; name one, or write compress = false",
        ),
        (
            "[[host]]\ncompress = { types = [\"text/css\", \"image/png\"] }\n",
            "v.toml:2:35: host.compress.types: the content of image/png is compressed already; leave the type out",
        ),
        (
            "[[host]]\ncompress = { min_size = \"2T\" }\n",
            "v.toml:2:25: host.compress.min_size: 2T is not from 0 to 1G",
        ),
        (
            "[[host]]\ncompress = { codings = [\"deflate\"] }\n",
            "v.toml:2:25: host.compress.codings: \"deflate\" is no choice; known here: zstd, br, gzip",
        ),
        (
            "[[host]]\ncompress = { codings = [] }\n",
            "v.toml:2:24: host.compress.codings: no coding is named; name one, or write compress = false",
        ),
        (
            "[[host]]\ncompress = { codings = [\"gzip\", \"br\", \"gzip\"] }\n",
            "v.toml:2:39: host.compress.codings: this coding is named already",
        ),
        (
            "[[host]]\ncompress = { gzip_level = 10 }\n",
            "v.toml:2:27: host.compress.gzip_level: 10 is not from 1 to 9",
        ),
        (
            "[[host]]\ncompress = { brotli_level = 12 }\n",
            "v.toml:2:29: host.compress.brotli_level: 12 is not from 0 to 11",
        ),
        (
            "[[host]]\ncompress = { zstd_level = 0 }\n",
            "v.toml:2:27: host.compress.zstd_level: 0 is not from 1 to 19",
        ),
        (
            "[[host]]\ncompress = { codings = [\"gzip\"], brotli_level = 4 }\n",
            "v.toml:2:49: host.compress.brotli_level: codings does not have \"br\"; add the coding, or leave this key out",
        ),
        (
            "[[host]]\ncompress = true\nheaders = { Cache-Control = \"max-age=1, no-transform\" }\n",
            "v.toml:2:12: host.compress: Cache-Control in headers has no-transform, which forbids compression; leave out \
             one of both",
        ),
        (
            "[[host]]\n[[host.route]]\naction = \"ready\"\ncompress = true\n",
            "v.toml:4:12: host.route.compress: only a route with action = \"files\" or \"cgi\" has this key",
        ),
        (
            "[[host]]\n[compression]\ncache_bytes = \"2000G\"\n",
            "v.toml:3:15: compression.cache_bytes: 2000G is not from 0 to 1T",
        ),
        (
            "[[host]]\n[compression]\nsending_bytes = \"2000G\"\n",
            "v.toml:3:17: compression.sending_bytes: 2000G is not from 0 to 1T",
        ),
        (
            "[[host]]\n[compression]\nfile_bytes = \"2G\"\n",
            "v.toml:3:14: compression.file_bytes: 2G is not from 0 to 1G",
        ),
        (
            "[[host]]\n[compression]\nfiles_max = 0\n",
            "v.toml:3:13: compression.files_max: 0 is not from 1 to 65536",
        ),
        (
            "[[host]]\n[compression]\nanswers_max = 0\n",
            "v.toml:3:15: compression.answers_max: 0 is not from 1 to 1048576",
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}

#[test]
fn route_replaces_compression_of_host() {
    let options = load(
        "[[host]]\ncompress = true\n\
         [[host.route]]\nprefix = \"/a\"\naction = \"files\"\n\
         [[host.route]]\nprefix = \"/b\"\naction = \"files\"\ncompress = false\n\
         [[host.route]]\nprefix = \"/c\"\naction = \"files\"\n\
         compress = { codings = [\"gzip\"], gzip_level = 1, min_size = 10, types = [\"*\"] }\n\
         [[host.route]]\nprefix = \"/d\"\naction = \"files\"\nheaders = { Cache-Control = \"no-transform\" }\n",
    );
    let rules = options.hosts.host(options.hosts.default_host()).rules;
    assert_eq!(rules.answers.compression.as_deref(), Some(&CompressionRules::default()));
    let of_route = |route: usize| rules.routes[route].answers.as_ref();
    assert!(of_route(0).is_none());
    assert_eq!(of_route(1).and_then(|answers| answers.compression.clone()), None);
    let own = CompressionRules {
        types: vec!["*".parse().expect("a type")],
        bytes_min: 10,
        codings: vec![Choice::Gzip],
        levels: CompressionLevels { gzip: 1, ..CompressionLevels::default() },
    };
    assert_eq!(of_route(2).and_then(|answers| answers.compression.as_deref()), Some(&own));
    assert!(of_route(3).is_some_and(|answers| answers.compression.is_none()), "no-transform forbids it");
}

#[test]
fn answers_are_not_compressed_by_default() {
    let options = load("[[host]]\n");
    assert!(options.hosts.host(options.hosts.default_host()).rules.answers.is_empty());
}
