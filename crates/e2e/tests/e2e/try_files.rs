//! The key `try`: other files and programs answer when a request's own path names nothing.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual};

on_usual!(
    front_controller_gets_the_paths_without_a_file,
    pages_have_short_addresses,
    candidate_of_a_guarded_route_is_passed_over,
    route_has_candidates_of_its_own,
);

fn front_controller_gets_the_paths_without_a_file(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.remove("index.html");
    site.write(
        "index.php",
        b"<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ',\n\
          $_SERVER['PATH_INFO'] ?? '-', ' ', $_GET['x'] ?? '-', ' ', file_get_contents('php://input');",
    );
    site.write("style.css", b"css");
    site.write("folder/a.txt", b"a");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\nphp = true\ntry = [\"{path}\", \"/index.php\"]\n",
    );
    let mut client = server.client();
    for (target, x) in [
        ("/blog/2026/hello", "-"),
        ("/wp-json/?x=1", "1"),
        ("/a/missing.php/b", "-"),
        ("/caf%C3%A9", "-"),
        ("/wiki/AC%2FDC", "-"),
        ("/a/missing.php/b%2Fc", "-"),
        // The file has one name only.
        ("/folder%2Fa.txt", "-"),
    ] {
        let response = client.get(target);
        assert_eq!((response.status, response.text()), (200, &*format!("GET {target} /index.php - {x} ")));
    }
    for target in ["/comment", "/comment/", "/comment%2F", "/missing.php"] {
        client.send(format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"));
        let response = client.read(ExpectedContent::Follows);
        assert_eq!(
            (response.status, response.text()),
            (200, &*format!("POST {target} /index.php - - hello"))
        );
    }
    site.write("length.php", b"<?php header('Content-Length: 3'); echo 'abc';");
    assert_eq!(client.request("HEAD", "/length.php", &[]).field("content-length"), "3");
    assert_eq!(client.get("/style.css").text(), "css");
    assert_eq!(client.get("/folder/a.txt").text(), "a");
    let folder = client.get("/folder");
    assert_eq!((folder.status, folder.field("location")), (301, "/folder/"));
    assert_eq!(client.get("/a%00b").status, 400);
    site.write("blog", b"a file now");
    assert_eq!(client.get("/blog").text(), "a file now");
    server.stops_clean();
}

fn pages_have_short_addresses(io: Io) {
    let site = TestSite::new();
    site.write("about.html", b"about");
    site.write("docs/index.html", b"docs");
    site.write("docs.html", b"page of docs");
    site.write("app/shell.html", b"shell");
    site.write("404.html", b"none");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\ntry = [\"{path}\", \"{path}.html\", \"{path}/index.html\"]\n\
         [[host.route]]\nprefix = \"/app\"\naction = \"files\"\ntry = [\"{path}\", \"/app/shell.html\"]\n",
    );
    let mut client = server.client();
    let about = client.get("/about");
    assert_eq!((about.status, about.text()), (200, "about"));
    assert!(about.field("content-type").starts_with("text/html"));
    assert_eq!(client.get("/about.html").text(), "about");
    assert_eq!(client.get("/about?x").text(), "about");
    let tag = about.field("etag").to_owned();
    let unchanged = client.get_with("/about", &[&format!("If-None-Match: {tag}")]);
    assert_eq!(unchanged.status, 304);
    assert_eq!(client.get("/docs/").text(), "docs");
    assert_eq!(client.get("/docs").status, 301);
    assert_eq!(client.get("/app/any/route").text(), "shell");
    let missing = client.get("/missing");
    assert_eq!((missing.status, missing.text()), (404, "none"));
    for target in ["/docs%2Findex.html", "/docs%2Findex", "/%2Fdocs"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(client.request("POST", "/about", &[]).status, 405);
    server.stops_clean();
}

fn candidate_of_a_guarded_route_is_passed_over(io: Io) {
    let site = TestSite::new();
    site.write("secret.html", b"SECRET");
    site.write("moved.html", b"MOVED");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\ntry = [\"{path}\", \"{path}.html\"]\n\
         [[host.route]]\nprefix = \"/secret.html\"\naction = \"files\"\nfrom = [\"192.0.2.0/24\"]\n\
         [[host.route]]\nprefix = \"/moved.html\"\naction = \"redirect\"\nto = \"/\"\n",
    );
    let mut client = server.client();
    for target in ["/secret", "/secret.html", "/moved"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    server.stops_clean();
}

fn route_has_candidates_of_its_own(io: Io) {
    let site = TestSite::new();
    site.write("a/shell.html", b"shell of a");
    site.write("shell.html", b"shell");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\ntry = [\"{path}\", \"/shell.html\"]\n\
         [[host.route]]\nprefix = \"/a\"\naction = \"files\"\ntry = [\"{path}\", \"/a/shell.html\"]\n\
         [[host.route]]\nprefix = \"/api\"\naction = \"files\"\ntry = [\"{path}\"]\n",
    );
    let mut client = server.client();
    assert_eq!(client.get("/a/x").text(), "shell of a");
    assert_eq!(client.get("/x").text(), "shell");
    assert_eq!(client.get("/api/x").status, 404);
    server.stops_clean();
}
