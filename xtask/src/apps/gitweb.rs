//! gitweb, a CGI application: a repository with special names, read by curl and in Chromium.

use std::path::Path;

use super::client::AppClient;
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront, write};
use super::unpacked::{open_folder, run_script};
use crate::error::{Error, Result};

/// The program, which Debian's package git installs.
const PROGRAM: &str = "/usr/share/gitweb/gitweb.cgi";

/// The heading of the page.
const HEADING: &str = "gitweb";

/// Files whose addresses have special characters, with their contents in the repository.
const FILES: [(&str, &str); 4] = [
    ("README", "Girl with a pearl"),
    ("Gr%C3%B6%C3%9Fe/a%2Bb.txt", "a plus b"),
    ("100%25%20silk%3F.cgi", "no program"),
    ("index.php", "no program either"),
];

/// Makes the repositories in `$1`.
const SET_UP: &str = r#"
mkdir "$1"
git init -q --bare -b main "$1/pearls.git"
echo 'Pearls of painters' > "$1/pearls.git/description"
git -C "$1/pearls.git" fast-import --quiet <<'END'
commit refs/heads/main
committer Painter <painter@example.org> 1700000000 +0000
data 14
Add the README
M 100644 inline README
data 4
Girl

commit refs/heads/main
committer Painter <painter@example.org> 1700000100 +0000
data 15
Add the pearls

M 100644 inline README
data 17
Girl with a pearl
M 100644 inline Größe/a+b.txt
data 8
a plus b
M 100644 inline 100% silk?.cgi
data 10
no program
M 100644 inline index.php
data 17
no program either
END
chmod -R a+rX "$1"
"#;

/// Looks for the program.
pub(super) fn prepare() -> Result<()> {
    match Path::new(PROGRAM).exists() {
        true => Ok(()),
        false => Err(Error::form(PROGRAM, "is not here")),
    }
}

/// Reads a repository.
pub(super) fn use_it(tools: &AppTools, front: SiteFront) -> Result<()> {
    let folder = open_folder("git")?;
    let folder = folder.path();
    let projects = folder.join("projects");
    run_script(SET_UP, &[&projects])?;
    let settings = PageConfig::read(&tools.root, HEADING, "perl")?
        .replace("/srv/git", &projects.display().to_string())?;
    let settings = write(folder, "gitweb.conf", settings.text())?;
    let config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("/etc/vermeil/gitweb.conf", &settings.display().to_string())?
        .replace("user = \"git\"", &format!("user = \"{SITE_USER}\""))?;
    let site = AppSite::start(tools, folder, front, config, "git")?;
    let client = AppClient::new(folder, &site.authority());
    read_pages(&client, &site)?;
    read_files(&client, &site)?;
    read_in_browser(tools, &site, front)
}

/// Reads pages by their short addresses, and by addresses with the project in the query.
fn read_pages(client: &AppClient, site: &AppSite) -> Result<()> {
    client.get(&site.url("/"))?.expect(200)?.expect_text("Pearls of painters")?;
    for start in ["/pearls.git", "/?p=pearls.git;a=summary"] {
        let summary = client.get(&site.url(start))?.expect(200)?.expect_text("Add the pearls")?;
        if summary.text().contains("http://git.") {
            return Err(summary.wrong("links without https"));
        }
    }
    let base = format!("<base href=\"{}\"", site.url(""));
    client.get(&site.url("/pearls.git/shortlog"))?.expect(200)?.expect_text(&base)?;
    let feed = client.get(&site.url("/pearls.git/atom"))?.expect(200)?;
    feed.expect_text(&format!("href=\"{}", site.url("/pearls.git/commitdiff/")))?;
    let found = client.get(&site.url("/pearls.git?a=search;st=commit;s=pearls"))?.expect(200)?;
    found.expect_text("Add the <span class=\"match\">pearls</span>")?;
    client.get(&site.url("/?p=no-such.git;a=summary"))?.expect(404)?.expect_text("No such project")?;
    client.get(&site.url("/pearls.git/commit/no-such"))?.expect(404)?.expect_text("Unknown commit")?;
    client.get(&site.url("/static/gitweb.css"))?.expect(200)?;
    Ok(())
}

/// Reads files of the repository as they are, and all files in an archive.
fn read_files(client: &AppClient, site: &AppSite) -> Result<()> {
    for (path, content) in FILES {
        let answer = client.get(&site.url(&format!("/pearls.git/blob_plain/HEAD:/{path}")))?.expect(200)?;
        if answer.text() != content {
            return Err(answer.wrong("the file has another content"));
        }
    }
    let archive = client.get(&site.url("/pearls.git/snapshot/HEAD.tar.gz"))?.expect(200)?;
    let is_named = archive.field("content-type").is_some_and(|kind| kind.starts_with("application/x-gzip"));
    if !is_named || !archive.body.starts_with(&[0x1f, 0x8b]) {
        return Err(archive.wrong("this is no archive"));
    }
    println!("read {} files and an archive of {} bytes", FILES.len(), archive.body.len());
    Ok(())
}

/// Follows links from the list of projects to a change, and searches.
fn read_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/"))?;
    browser.until("document.querySelector('a.list[href=\"/pearls.git\"]')")?;
    site.check_page(&mut browser)?;
    browser.click("a.list[href=\"/pearls.git\"]")?;
    browser.until("location.pathname == '/pearls.git' && document.querySelector('table.shortlog a')")?;
    site.check_page(&mut browser)?;
    // The style sheet has a relative address.
    browser.until(
        "getComputedStyle(document.querySelector('.page_header')).backgroundColor == 'rgb(217, 216, 209)'",
    )?;
    browser.click("table.shortlog a[href*=\"/commitdiff/\"]")?;
    // The program writes spaces that do not break.
    let changes = "document.querySelector('.patchset')?.innerText.replaceAll('\u{a0}', ' ')";
    for text in ["+Girl with a pearl", "Größe/a+b.txt"] {
        browser.until(&format!("{changes}.includes('{text}')"))?;
    }
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("gitweb-{}", front.word()))?;
    browser.type_into("input[name=s]", "README")?;
    browser.press_enter()?;
    browser.until("document.querySelector('table.commit_search .match')?.innerText == 'README'")?;
    site.check_page(&mut browser)
}
