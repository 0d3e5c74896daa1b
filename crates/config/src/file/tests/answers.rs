//! The refusals of `headers`, `add_headers` and `cache_control`, and the options that they result
//! in.

use super::{load, problems};
use vermeil_files::FileTags;

#[test]
fn wrong_fields_of_answers_are_refused() {
    for (text, problem) in [
        (
            "[[host]]\nheaders = { \"X A\" = \"b\" }\n",
            "v.toml:2:13: host.headers.X A: \"X A\" is no name of a field; write one such as X-Frame-Options",
        ),
        (
            "[[host]]\nheaders = { X-A = \"b\\r\\nSet-Cookie: c=d\" }\n",
            "v.toml:2:19: host.headers.X-A: '\\r' cannot stand in a field, because a client would take the rest for \
             another field",
        ),
        (
            "[[host]]\nheaders = { X-A = \"caf\u{e9}\" }\n",
            "v.toml:2:19: host.headers.X-A: '\u{e9}' is not ASCII; write the value in ASCII",
        ),
        (
            "[[host]]\nheaders = { X-A = \"\" }\n",
            "v.toml:2:19: host.headers.X-A: write a value without spaces around it, or false to remove the field",
        ),
        (
            "[[host]]\nheaders = { Content-Length = \"4\" }\n",
            "v.toml:2:13: host.headers.Content-Length: the server decides about Content-Length, because the connection \
             depends on it",
        ),
        (
            "[[host]]\nheaders = { ETag = false }\n",
            "v.toml:2:13: host.headers.ETag: a tag belongs to the content of a file; write etag = false to send none",
        ),
        (
            "[[host]]\nheaders = { X-A = \"b\", x-a = \"c\" }\n",
            "v.toml:2:24: host.headers.x-a: this field is set already; the case of letters makes no difference",
        ),
        (
            "[[host]]\nheaders = { X-A = 4 }\n",
            "v.toml:2:19: host.headers: this is a whole number; write a text, a list of texts, or false to remove the field",
        ),
        (
            "[[host]]\nheaders = { X-A = true }\n",
            "v.toml:2:19: host.headers: this is true or false; write a text, a list of texts, or false to remove the field",
        ),
        (
            "[[host]]\nheaders = [\"X-A: b\"]\n",
            "v.toml:2:11: host.headers: this is a list; write a table, such as { Name = \"value\" }",
        ),
        (
            "[[host]]\nheaders = { Vary = \"Origin\" }\n",
            "v.toml:2:13: host.headers.Vary: write Vary in add_headers, because the server's own Vary must stay",
        ),
        (
            "[[host]]\nadd_headers = { Link = false }\n",
            "v.toml:2:24: host.add_headers.Link: false removes a field; write it in headers",
        ),
        (
            "[[host]]\n[[host.route]]\naction = \"files\"\nheaders = { Date = \"x\" }\n",
            "v.toml:4:13: host.route.headers.Date: the server decides about Date, because the connection depends on it",
        ),
        ("[[host]]\netag = \"off\"\n", "v.toml:2:8: host.etag: this is a text; write true or false"),
        (
            "[[host]]\ncache_control = { css = \"no-cache\" }\n",
            "v.toml:2:19: host.cache_control.\"css\": \"css\" is no media type; write one such as \"text/css\", \"image/*\" or \
             \"*\"",
        ),
        (
            "[[host]]\ncache_control = { \"text/css\" = \"a\\nb\" }\n",
            "v.toml:2:32: host.cache_control.\"text/css\": '\\n' cannot stand in a field, because a client would take the \
             rest for another field",
        ),
        (
            "[[host]]\ncache_control = { \"text/css\" = 60 }\n",
            "v.toml:2:32: host.cache_control: this is a whole number; write a text in quotes",
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}

#[test]
fn route_has_the_fields_of_its_host_too() {
    let options = load(
        "[[host]]\nheaders = { X-A = \"host\", X-B = \"host\" }\n[[host.route]]\naction = \"files\"\n\
         headers = { x-a = \"route\" }\n[[host.route]]\naction = \"ready\"\n",
    );
    let rules = options.hosts.host(options.hosts.default_host()).rules;
    let own = rules.routes[0].answers.as_ref().unwrap();
    assert_eq!(own.headers.plain_block(), Some(&b"X-B: host\r\nx-a: route\r\n"[..]));
    assert_eq!(rules.answers.headers.plain_block(), Some(&b"X-A: host\r\nX-B: host\r\n"[..]));
    assert!(rules.routes[1].answers.is_none());
}

#[test]
fn caching_is_by_the_first_type_that_matches() {
    let options = load(
        "[[host]]\netag = false\ncache_control = { \"text/html\" = \"no-cache\", \"image/*\" = \"max-age=9\", \"*\" = \"max-age=1\" }\n",
    );
    let files = &options.hosts.host(options.hosts.default_host()).rules.files;
    assert_eq!(files.tags, FileTags::Off);
    for (media_type, value) in
        [("text/html; charset=utf-8", "no-cache"), ("image/webp", "max-age=9"), ("imagex/y", "max-age=1")]
    {
        let found = files.caching.iter().find(|of| of.types.contains(media_type)).unwrap();
        assert_eq!(&*found.value, value, "{media_type}");
    }
}
