//! The refusals of routes and error pages.

use super::{load, problems};

fn of_route(keys: &str) -> Vec<String> {
    problems(&format!("[[host]]\n[[host.route]]\n{keys}\n"))
}

#[test]
fn wrong_routes_are_refused() {
    for (keys, problem) in [
        (
            "action = \"deny\"\npath = \"robots.txt\"",
            "v.toml:4:8: host.route.path: \"robots.txt\": write a path as it is when decoded, such as \"/robots.txt\", \
             without dot segments",
        ),
        (
            "action = \"deny\"\npath = \"/a\"\nprefix = \"/a\"",
            "v.toml:4:8: host.route.path: \"/a\" is a whole path; leave out prefix and suffix",
        ),
        ("action = \"deny\"\npattern = \"a(\"", "v.toml:4:11: host.route.pattern: \"a(\": unclosed group"),
        (
            "action = \"deny\"\npattern = \"((a{100}){100}){100}\"",
            "v.toml:4:11: host.route.pattern: \"((a{100}){100}){100}\": the pattern needs more memory than 1048576 bytes; make \
             its repetitions smaller",
        ),
        (
            "action = \"deny\"\nmethods = [\"post\"]",
            "v.toml:4:12: host.route.methods: \"post\": methods are written in capital letters",
        ),
        (
            "action = \"deny\"\nmethods = [\"A B\"]",
            "v.toml:4:12: host.route.methods: \"A B\" is no method; write one such as POST",
        ),
        (
            "action = \"deny\"\nfields = [\"a b\"]",
            "v.toml:4:11: host.route.fields: \"a b\": write NAME, !NAME, NAME=VALUE, NAME!=VALUE, NAME~PATTERN or NAME!~PATTERN",
        ),
        ("action = \"deny\"\nquery = [\"a~(\"]", "v.toml:4:10: host.route.query: \"a~(\": unclosed group"),
        (
            "action = \"deny\"\nclients = []",
            "v.toml:4:11: host.route.clients: no network is named, so the route would be for no client; name one, or leave the \
             key out",
        ),
        (
            "action = \"deny\"\ncode = 200",
            "v.toml:4:8: host.route.code: 200 is not possible here; write the code of an error, such as 404",
        ),
        (
            "action = \"deny\"\ncode = 499",
            "v.toml:4:8: host.route.code: 499 is not possible here; write the code of an error, such as 404",
        ),
        (
            "action = \"deny\"\nto = \"/x\"",
            "v.toml:4:6: host.route.to: only a route with action = \"redirect\" or \"rewrite\" has this key",
        ),
        (
            "action = \"files\"\ncode = 404",
            "v.toml:4:8: host.route.code: only a route with action = \"redirect\", \"answer\" or \"deny\" has this key",
        ),
        (
            "action = \"files\"\nbody = \"x\"",
            "v.toml:4:8: host.route.body: only a route with action = \"answer\" has this key",
        ),
        (
            "action = \"answer\"",
            "v.toml:2:1: host.route.body: an answer needs this key, such as body = \"hello\"",
        ),
        (
            "action = \"answer\"\nbody = \"x\"\ncode = 204",
            "v.toml:4:8: host.route.body: an answer with code = 204 has no text; leave one of the two out",
        ),
        (
            "action = \"answer\"\nbody = \"x\"\ncontent_type = \"a\\nb\"",
            "v.toml:5:16: host.route.content_type: '\\n' cannot stand in a field, because a client would take the rest for \
             another field",
        ),
        (
            "action = \"rewrite\"",
            "v.toml:2:1: host.route.to: a rewrite needs this key, such as to = \"/new{rest}{query}\"",
        ),
        (
            "action = \"rewrite\"\nto = \"https://x.example/\"",
            "v.toml:4:6: host.route.to: \"https://x.example/\": write a path that begins with a slash",
        ),
        (
            "action = \"redirect\"\nto = \"/x?by={schema}\"",
            "v.toml:4:6: host.route.to: \"/x?by={schema}\": `{schema}` stands for nothing; {scheme}, {host}, {name}, {path}, \
             {rest}, {query} and the groups of a pattern, such as {1}, do",
        ),
        (
            "action = \"redirect\"\nto = \"{scheme}://{host}:8443{path}\"",
            "v.toml:4:6: host.route.to: \"{scheme}://{host}:8443{path}\": write the whole name of a host before the path, \
             such as https://new.example{rest}; {name} is the host without its port",
        ),
        (
            "action = \"redirect\"\nto = \"{scheme}:/x\"",
            "v.toml:4:6: host.route.to: \"{scheme}:/x\": write a path that begins with one slash, or an address that begins \
             with http://, https:// or {scheme}://",
        ),
        (
            "action = \"rewrite\"\nto = \"/{1}\"",
            "v.toml:4:6: host.route.to: \"/{1}\": the pattern of the route has no group 1; its groups: 0",
        ),
        (
            "action = \"cgi\"\npath = \"/a.cgi\"",
            "v.toml:4:8: host.route.path: a route to CGI has a prefix or a suffix, because these say which files are programs",
        ),
        (
            "action = \"ready\"\nroot = \"x\"",
            "v.toml:4:8: host.route.root: only a route with action = \"files\" has this key",
        ),
        (
            "action = \"files\"\nroot = \"x\"\ntry = [\"{path}\", \"/a\"]",
            "v.toml:5:7: host.route.try: a route with a root looks up its own path only; leave one of the two out",
        ),
    ] {
        assert_eq!(of_route(keys), [problem], "{keys}");
    }
}

#[test]
fn wrong_error_pages_are_refused() {
    for (keys, problem) in [
        (
            "error_pages = { 200 = \"/a.html\" }",
            "v.toml:2:17: host.error_pages.200: \"200\" is no status of an error; write one such as 404, 4xx or 5xx",
        ),
        (
            "error_pages = { 404 = \"404.html\" }",
            "v.toml:2:23: host.error_pages.404: \"404.html\": write the path of a file on this host, such as \"/404.html\"",
        ),
        (
            "error_pages = { 500 = \"/a.php\" }",
            "v.toml:2:23: host.error_pages.500: \"/a.php\": a page of an error is a file, because the program may be the reason \
             of the error",
        ),
        (
            "error_pages = { 4xx = \"/a.html\", 404 = \"/b.html\" }",
            "v.toml:2:40: host.error_pages.404: the page of 4xx is before this one; write the single status first",
        ),
        (
            "error_pages_of_programs = true",
            "v.toml:2:27: host.error_pages_of_programs: there is no page; write error_pages too",
        ),
    ] {
        assert_eq!(problems(&format!("[[host]]\n{keys}\n")), [problem], "{keys}");
    }
}

#[test]
fn folder_of_route_lies_apart_from_programs() {
    let written = |host: &str, root: &str, route: &str| {
        format!(
            "[[host]]\n{host}\n[[host.route]]\nprefix = \"/a\"\naction = \"files\"\nroot = \"{root}\"\n\
             [[host.route]]\naction = \"cgi\"\n{route}\n"
        )
    };
    let cgi = "prefix = \"/cgi-bin\"";
    let of_site = "root = \"/srv/site\"";
    for (root, route) in [
        ("/srv/site/cgi-bin", cgi),
        ("/srv/site", cgi),
        ("/srv/site/", cgi),
        ("/", cgi),
        ("/srv/site/cgi-bin/icons", cgi),
        ("/srv/site/CGI-BIN/", "prefix = \"/cgi-bin/\""),
        ("/srv/x/../site/./cgi-bin", cgi),
        ("/srv/site/sub", ""),
    ] {
        let problems = problems(&written(of_site, root, route));
        assert_eq!(problems.len(), 1, "{root} {route}: {problems:?}");
        assert!(
            problems[0]
                .contains("host.route.root: the route would send the text of programs, because route 2"),
            "{problems:?}"
        );
    }
    for (host, root, route) in [
        (of_site, "/srv/site/cgi", cgi),
        (of_site, "/srv/site/cgi-bin-2", cgi),
        (of_site, "/srv/shared", cgi),
        (of_site, "/srv", "suffix = \".pl\""),
        ("", "/srv", cgi),
    ] {
        load(&written(host, root, route));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let programs = folder.path().join("site/cgi-bin");
    std::fs::create_dir_all(&programs).expect("a folder");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&programs, &link).expect("a link");
    let host = format!("root = \"{}\"", folder.path().join("site").display());
    assert_eq!(problems(&written(&host, link.to_str().expect("UTF-8"), cgi)).len(), 1, "a link leads there");
}
