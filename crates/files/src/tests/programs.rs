//! The text of a program is never sent, whatever path leads to the program.

use super::*;
use std::os::unix::fs::symlink;

fn world(follow_symlinks: FollowSymlinks) -> FilesWorld {
    let part = (SitePart { prefix: Some("/bin".into()), suffix: None }, RouteEffect::ToCgi);
    let programs = SitePrograms { last_index: Some("index.php".into()), parts: vec![part] };
    let index_names = ["index.html", "app.php", "index.cgi"].map(str::to_owned).to_vec();
    FilesWorld::serving(SiteOptions { follow_symlinks, index_names, programs, ..SiteOptions::default() })
}

#[test]
fn folder_answers_with_its_program() {
    let mut world = world(FollowSymlinks::Within);
    for (folder, page, expected) in [
        ("a", "app.php", "program /a/app.php"),
        ("b", "index.cgi", "program /b/index.cgi"),
        ("c", "index.php", "program /c/index.php"),
        ("d", "index.html", "secret"),
    ] {
        world.write(&format!("{folder}/{page}"), "secret");
        world.settle(&format!("/{folder}/"), expected);
    }
    world.write("d/app.php", "secret");
    world.settle("/d/", "secret");
}

#[test]
fn no_name_of_a_program_is_opened() {
    let mut world = world(FollowSymlinks::Within);
    for name in
        ["x.php", "x.PHP", "x.phtml", "x.phar", "x.php7", "x.phps", "x.php.gz", "x.php~", "bin/x", "bin/x.gz"]
    {
        world.write(name, "secret");
        world.settle(&format!("/{name}"), &format!("program /{name}"));
    }
    let names = world.site.store().usage();
    assert_eq!((names.content_bytes, names.descriptors), (0, 0), "no program is read");
}

#[test]
fn links_to_programs_are_forbidden() {
    for follow in [FollowSymlinks::Within, FollowSymlinks::All] {
        let mut world = world(follow);
        world.write("x.php", "secret");
        world.write("bin/tool", "secret");
        world.write("page", "page");
        world.write("packed", "packed");
        for (target, link) in [
            ("x.php", "text.txt"),
            ("bin/tool", "tool.txt"),
            ("bin", "door"),
            ("x.php", "page.gz"),
            ("x.php", "404.html"),
        ] {
            symlink(target, world.at(link)).unwrap();
        }
        symlink("text.txt", world.at("again.txt")).unwrap();
        for path in ["/text.txt", "/tool.txt", "/door/tool", "/again.txt"] {
            assert_eq!(world.text(path), "403", "{path}");
        }
        let page = world.get("/page");
        let EntryOutcome::File(file) = page.outcome() else { panic!("a file") };
        assert!(file.codings().is_empty(), "a sibling that is a program is none");
        assert_eq!(world.text("/missing"), "404", "a page that is a program is none");
    }
    let mut world = world(FollowSymlinks::All);
    fs::write(world.root.with_file_name("out.php"), "secret").unwrap();
    symlink("../out.php", world.at("out.txt")).unwrap();
    assert_eq!(world.text("/out.txt"), "403");
}

#[test]
fn index_page_that_links_to_a_program_is_forbidden() {
    let mut world = world(FollowSymlinks::Within);
    world.write("a/secret.php", "secret");
    symlink("secret.php", world.at("a/index.html")).unwrap();
    assert_eq!(world.text("/a/"), "403");
}

/// Regression: the folder was listed.
#[test]
fn last_index_behind_a_forbidden_link_is_forbidden() {
    let mut world = world(FollowSymlinks::Within);
    fs::create_dir(world.at("a")).unwrap();
    symlink("/etc/passwd", world.at("a/index.php")).unwrap();
    assert_eq!(world.text("/a/"), "403");
}

#[test]
fn no_link_leads_to_a_dotfile() {
    for follow in [FollowSymlinks::Within, FollowSymlinks::All] {
        let mut world = world(follow);
        world.write(".git/config", "secret");
        world.write(".env", "secret");
        world.write("a/.htpasswd", "secret");
        world.write(".well-known/contact", "contact");
        world.write("..data/page", "mounted");
        for (target, link) in [
            (".git/config", "config"),
            (".env", "env.txt"),
            (".git", "repository"),
            ("a/.htpasswd", "passwords"),
            (".well-known/contact", "contact"),
            ("..data/page", "page"),
        ] {
            symlink(target, world.at(link)).unwrap();
        }
        for path in ["/config", "/env.txt", "/repository", "/repository/", "/repository/config", "/passwords"]
        {
            assert_eq!(world.text(path), "404", "{path}");
        }
        assert_eq!(world.text("/contact"), "contact");
        assert_eq!(world.text("/page"), "mounted", "as Kubernetes mounts its volumes");
    }
}
