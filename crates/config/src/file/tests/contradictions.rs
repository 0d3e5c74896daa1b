//! Values that contradict each other, values whose form is wrong although their kind is right, and
//! the message for each. The tests of an area have their own: access, compression, routes, PHP.

use super::*;

#[track_caller]
fn refused(cases: &[(&str, &str)]) {
    for (text, problem) in cases {
        assert_eq!(problems(text), [*problem], "{text}");
    }
}

/// Regression: a host with `root = ""` served the folder of the configuration.
#[test]
fn empty_path_is_refused() {
    for (key, value) in [("root", ""), ("root", "a\\u0000"), ("client_issuers", "")] {
        let shown = value.replace("\\u0000", "\\0");
        let expected = format!(
            "v.toml:2:{}: host.{key}: \"{shown}\": write a path; \".\" is the folder of this file",
            key.len() + 4
        );
        let found = problems(&format!("[[host]]\n{key} = \"{value}\"\n"));
        assert_eq!(found.first(), Some(&expected), "{found:?}");
    }
}

#[test]
fn listeners_and_hosts_must_fit_together() {
    refused(&[
        (
            "[[listener]]\naddress = \"80\"\nmode = \"0660\"\n[[host]]\n",
            "v.toml:3:8: listener.mode: only a unix socket has a mode; leave the key out",
        ),
        (
            "[[host]]\nnames = [\"a\"]\nlisten = []\n",
            "v.toml:3:10: host.listen: no listener is named, so no request would reach the host; name one, or leave the key out",
        ),
        (
            "[[listener]]\naddress = \"81\"\n[[host]]\nnames = [\"a\"]\nlisten = [\"82\"]\n",
            "v.toml:5:11: host.listen: no [[listener]] has the address \"127.0.0.1:82\"; there are \"127.0.0.1:81\"",
        ),
        (
            "[[listener]]\naddress = \"81\"\n[[host]]\nlisten = [\"81\"]\n[[host]]\nlisten = [\"81\"]\n[[host]]\nnames = [\"a\"]\n",
            "v.toml:6:10: host.listen: the host at line 3 is bound to this listener and has no name either; name one of them",
        ),
        (
            "include = \"none/*.toml\"\n",
            "v.toml:2:1: host: there is no host, and none in the files of include; write [[host]] and below it root = \"FOLDER\"",
        ),
    ]);
}

#[test]
fn https_needs_a_listener_and_a_certificate() {
    refused(&[
        (
            "[[host]]\ncertificate = \"c.pem\"\n",
            "v.toml:2:15: host.certificate: no listener speaks HTTPS; write [[listener]] with address = \":443\" and tls = true",
        ),
        (
            "[[listener]]\naddress = \"443\"\ntls = true\n[[host]]\n",
            "v.toml:5:1: host.certificate: a listener has tls = true, but no host has a certificate; write certificate = \"FILE\" and key = \"FILE\" below [[host]]",
        ),
        (
            "[[host]]\nhttps = \"only\"\n",
            "v.toml:2:9: host.https: no listener speaks HTTPS; write [[listener]] with address = \":443\" and tls = true",
        ),
        (
            "[[host]]\nkey = \"k.pem\"\n",
            "v.toml:2:7: host.key: a private key is of no use without a certificate; write certificate = \"FILE\" too",
        ),
        (
            "[[host]]\nstaple = \"s.der\"\n",
            "v.toml:2:10: host.staple: a stapled answer is of no use without a certificate; write certificate = \"FILE\" too",
        ),
        (
            "[[host]]\nclient_issuers = \"i.pem\"\n",
            "v.toml:2:18: host.client_issuers: a file of issuers of client certificates is of no use without a certificate; write certificate = \"FILE\" too",
        ),
        (
            "[[listener]]\naddress = \"443\"\ntls = true\n[[host]]\ncertificate = []\n[[host]]\nnames = [\"a\"]\ncertificate = \"c\"\n",
            "v.toml:5:15: host.certificate: no file is named; name one, or leave the key out",
        ),
        (
            "[[listener]]\naddress = \"443\"\ntls = true\n[[host]]\ncertificate = [\"a\", \"b\"]\nkey = \"k\"\n[[host]]\nnames = [\"a\"]\ncertificate = \"c\"\n",
            "v.toml:6:7: host.key: there are 2 certificates and 1 keys; write one for each certificate, in the same order",
        ),
    ]);
}

#[test]
fn programs_without_a_runner_are_refused() {
    refused(&[
        (
            "[[host]]\nindex = [\"index.php\"]\n",
            "v.toml:2:10: host.index: \"index.php\": nothing runs this program here, and its text is never sent; write php = true for *.php, a route with action = \"cgi\", or another page",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"/index.php\"]\n",
            "v.toml:2:18: host.try: \"/index.php\": nothing runs this program here, and its text is never sent; write php = true for *.php, or a route with action = \"cgi\"",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"{path}\"]\n",
            "v.toml:2:18: host.try: \"{path}\" stands first already",
        ),
        (
            "[[host]]\ntry = [\"/a.html\"]\n",
            "v.toml:2:8: host.try: \"/a.html\": write \"{path}\" first, because a file answers before other paths",
        ),
        (
            "[[host]]\n[[host.route]]\nsuffix = \"\"\naction = \"cgi\"\n",
            "v.toml:3:10: host.route.suffix: \"\": write the end of a name, such as \".php\"",
        ),
        (
            "[[host]]\n[[host.route]]\npath = \"/a.cgi\"\naction = \"cgi\"\n",
            "v.toml:3:8: host.route.path: a route to CGI has a prefix or a suffix, because these say which files are programs",
        ),
        (
            "[[host]]\n[[host.route]]\npath = \"/a\"\nprefix = \"/a\"\naction = \"deny\"\n",
            "v.toml:3:8: host.route.path: \"/a\" is a whole path; leave out prefix and suffix",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/a\"\nroot = \"r\"\ntry = [\"{path}\"]\naction = \"files\"\n",
            "v.toml:5:7: host.route.try: a route with a root looks up its own path only; leave one of the two out",
        ),
        (
            "[[host]]\n[host.cgi]\ndirectory = \"../x\"\n",
            "v.toml:3:13: host.cgi.directory: write a folder below the host's, such as \"data\", or \".\" for that itself",
        ),
        (
            "[[host]]\n[host.cgi.cgroup]\nfolder = \"example\"\n",
            "v.toml:3:10: host.cgi.cgroup.folder: write its path from the root, such as \"/sys/fs/cgroup/vermeil/example\"",
        ),
        (
            "[[host]]\nroot = \"/a'b\"\n[host.php]\nini_locked = { memory_limit = \"1M\" }\n",
            "v.toml:4:16: host.php.ini_locked: PHP locks values for a folder below /, without ' and control characters in its path, which \"/a'b\" is not; move the site to another folder, or write the values in ini",
        ),
    ]);
}

#[test]
fn access_without_users_is_refused() {
    refused(&[
        (
            "[[host]]\naccess = { realm = \"staff\" }\n",
            "v.toml:2:20: host.access.realm: no password is asked for here; name the users with users = \"FILE\"",
        ),
        (
            "[[host]]\naccess = { users = \"/gone\" }\n",
            "v.toml:2:20: host.access.users: cannot read /gone: No such file or directory (os error 2); make it with htpasswd -B -c, readable for the server's user",
        ),
    ]);
}

#[test]
fn codes_belong_to_their_actions() {
    refused(&[
        (
            "[[host]]\n[[host.route]]\nprefix = \"/\"\naction = \"redirect\"\nto = \"/b\"\ncode = 200\n",
            "v.toml:6:8: host.route.code: 200 is not possible here; write one of 301, 302, 303, 307, 308",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/\"\naction = \"answer\"\nbody = \"b\"\ncode = 301\n",
            "v.toml:6:8: host.route.code: 301 is not possible here; write 200, 204 or the code of an error, such as 404",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/\"\naction = \"answer\"\nbody = \"b\"\ncode = 204\n",
            "v.toml:5:8: host.route.body: an answer with code = 204 has no text; leave one of the two out",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/\"\naction = \"answer\"\n",
            "v.toml:2:1: host.route.body: an answer needs this key, such as body = \"hello\"",
        ),
    ]);
}

#[test]
fn values_of_a_wrong_form_are_refused() {
    for (value, what) in [
        (
            "",
            "v.toml:2:11: listener.address: \"\": write PORT, :PORT (all interfaces), ADDRESS:PORT, [IPV6]:PORT or NAME:PORT, such as 127.0.0.1:8080, or unix:PATH",
        ),
        (
            "localhost",
            "v.toml:2:11: listener.address: \"localhost\": the port is missing; write it behind a colon, such as localhost:8080",
        ),
        (
            "localhost:99999",
            "v.toml:2:11: listener.address: \"localhost:99999\": a port is a number from 0 to 65535; 0 takes any free port",
        ),
        (
            "unix:",
            "v.toml:2:11: listener.address: \"unix:\": write the path of the unix socket behind unix:, such as unix:/run/vermeil/web.sock",
        ),
        (
            "unix:@name",
            "v.toml:2:11: listener.address: \"unix:@name\": write a path behind unix:; abstract sockets, which every process may open, are not supported",
        ),
    ] {
        assert_eq!(problems(&format!("[[listener]]\naddress = \"{value}\"\n[[host]]\n")), [what]);
    }
    refused(&[
        (
            "[[listener]]\naddress = \"unix:a\"\nmode = \"9\"\n[[host]]\n",
            "v.toml:3:8: listener.mode: \"9\": write the rights of owner, group and others as octal digits, such as \"0660\"",
        ),
        (
            "[timeouts]\nheader = 0.0001\n[[host]]\n",
            "v.toml:2:10: timeouts.header: \"0.0001\": finer than a millisecond; the shortest time is 1ms",
        ),
        (
            "[timeouts]\nheader = \"25h\"\n[[host]]\n",
            "v.toml:2:10: timeouts.header: \"25h\": more than a day; the longest time is 24h",
        ),
        (
            "[timeouts]\nheader = -1\n[[host]]\n",
            "v.toml:2:10: timeouts.header: \"-1\": write seconds such as 10 or 2.5, or a number with a unit: 500ms, 10s, 2m, 1h",
        ),
        (
            "[limits]\nbody_bytes = \"99999999999999T\"\n[[host]]\n",
            "v.toml:2:14: limits.body_bytes: \"99999999999999T\": more bytes than can be counted",
        ),
        (
            "[limits]\nheader_count = 99999999999999999999\n[[host]]\n",
            "v.toml:2:16: limits.header_count: this number is negative, or too large",
        ),
        (
            "[php]\nsource = \"unix:php.sock\"\n[[host]]\nphp = true\n",
            "v.toml:2:10: php.source: write the path of the socket from the root, such as \"unix:/run/php/php-fpm.sock\"",
        ),
    ]);
}
