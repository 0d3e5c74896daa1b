//! WordPress: installed and fed by curl, written in Chromium's block editor.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::client::AppClient;
use super::database::Database;
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront};
use super::unpacked::{UnpackedApp, open_folder, run_script};
use crate::browser::Browser;
use crate::error::{Error, Result};

/// The application and the libraries that its files link to.
const PACKAGES: [&str; 5] =
    ["wordpress", "wordpress-theme-twentytwentythree", "libjs-cropper", "libjs-underscore", "php-getid3"];

/// The heading of the page.
const HEADING: &str = "WordPress";

/// The administrator and the password.
const ADMIN: (&str, &str) = ("painter", "pearl-earring-1665");

/// Makes the site `$2` of the packages in `$1`, with the database at the socket `$3`. Copies
/// replace links, because the links lead out of the served folder.
const SET_UP: &str = r#"
rm -f "$1/usr/share/wordpress/.htaccess"
cp -rL "$1/usr/share/wordpress" "$2"
mkdir -p "$2/wp-content/uploads"
sed -e "s/database_name_here/blog/; s/username_here/root/; s/password_here//; s,'localhost','localhost:$3'," \
    -e "s/.*That's all, stop editing.*/define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);/" \
    "$2/wp-config-sample.php" > "$2/wp-config.php"
chmod -R a+rX "$2"
chmod -R a+rwX "$2/wp-content/uploads"
"#;

/// Fetches the packages.
pub(super) fn prepare() -> Result<UnpackedApp> {
    UnpackedApp::fetch("wordpress", &PACKAGES)
}

/// Installs the blog, writes and reads posts, and uploads pictures.
pub(super) fn use_it(tools: &AppTools, unpacked: &UnpackedApp, front: SiteFront) -> Result<()> {
    let folder = open_folder("blog")?;
    let folder = folder.path();
    let database = Database::start(folder)?;
    database.run("create database blog")?;
    let root = folder.join("site");
    run_script(SET_UP, &[unpacked.packages(), &root, database.socket()])?;
    let config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("/srv/www/blog", &root.display().to_string())?
        .replace("user = \"blog\"", &format!("user = \"{SITE_USER}\""))?;
    let site = AppSite::start(tools, folder, front, config, "blog")?;
    let client = AppClient::new(folder, &site.authority());
    install(&client, &site)?;
    let token = log_in(&client, &site)?;
    let picture = tools.root.join("docs/img/listing.png");
    let source = upload(&client, &site, &token, &picture)?;
    publish(&client, &site, &token, &source)?;
    check_refusals(&client, &site, &root)?;
    write_in_browser(tools, &site, front)
}

/// Runs the installer.
fn install(client: &AppClient, site: &AppSite) -> Result<()> {
    let start = client.get(&site.url("/"))?.expect(302)?;
    let to = start.field("location").unwrap_or_default();
    if to != site.url("/wp-admin/install.php") {
        return Err(start.wrong("this is no redirect to the installer over https"));
    }
    let fields = [
        ("weblog_title", "Pearls"),
        ("user_name", ADMIN.0),
        ("admin_password", ADMIN.1),
        ("admin_password2", ADMIN.1),
        ("admin_email", "painter@example.org"),
        ("blog_public", "0"),
        ("language", ""),
        ("Submit", "Install WordPress"),
    ];
    let answer = client.post(&site.url("/wp-admin/install.php?step=2"), &fields)?.expect(200)?;
    answer.expect_text("Success!").map(drop)
}

/// Logs in, chooses pretty addresses, and gets the token for the programming interface.
fn log_in(client: &AppClient, site: &AppSite) -> Result<String> {
    let fields = [("log", ADMIN.0), ("pwd", ADMIN.1), ("testcookie", "1"), ("wp-submit", "Log In")];
    client.get(&site.url("/wp-login.php"))?.expect(200)?;
    let answer = client.post(&site.url("/wp-login.php"), &fields)?.expect(302)?;
    if answer.field("location") != Some(&site.url("/wp-admin/")) {
        return Err(answer.wrong("the login leads to another address"));
    }
    let cookies: Vec<&str> = answer.head.lines().filter(|line| line.starts_with("Set-Cookie:")).collect();
    if !cookies.iter().any(|cookie| cookie.contains("wordpress_sec_") && cookie.contains("secure")) {
        return Err(answer.wrong("no cookie for https"));
    }
    let page = site.url("/wp-admin/options-permalink.php");
    let token = client.get(&page)?.expect(200)?.form_value("name=\"_wpnonce\"")?;
    let structure =
        [("_wpnonce", token.as_str()), ("selection", "custom"), ("permalink_structure", "/%postname%/")];
    client.post(&page, &structure)?.expect(302)?;
    Ok(client.get(&site.url("/wp-admin/admin-ajax.php?action=rest-nonce"))?.expect(200)?.text())
}

/// A password for programs. WordPress gives such a password only to a site with https.
fn password(client: &AppClient, site: &AppSite, token: &str) -> Result<String> {
    let address = site.url("/wp-json/wp/v2/users/me/application-passwords");
    let answer =
        client.send(&address, &["-H", &format!("X-WP-Nonce: {token}"), "-d", "name=test"])?.expect(201)?;
    Ok(text_at(&answer.json()?, "/password"))
}

fn text_at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Uploads a picture in both ways, and returns the address of the first copy.
fn upload(client: &AppClient, site: &AppSite, token: &str, picture: &Path) -> Result<String> {
    let content = format!("@{}", picture.display());
    let token = format!("X-WP-Nonce: {token}");
    let arguments = ["-H", &token, "-H", "Content-Type: image/png", "--data-binary", &content];
    let name = ["-H", "Content-Disposition: attachment; filename=pearl.png"];
    let answer =
        client.send(&site.url("/wp-json/wp/v2/media"), &[&arguments[..], &name].concat())?.expect(201)?;
    let source = text_at(&answer.json()?, "/source_url");
    if !source.starts_with(&site.url("/wp-content/uploads/")) {
        return Err(answer.wrong("the picture has another address"));
    }
    let small = text_at(&answer.json()?, "/media_details/sizes/thumbnail/source_url");
    client.get(&small)?.expect(200)?;
    let sent = fs::read(picture).map_err(Error::path("read", picture))?;
    let received = client.get(&source)?.expect(200)?;
    if received.body != sent || received.field("content-type") != Some("image/png") {
        return Err(received.wrong("the picture has changed"));
    }
    let page = client.get(&site.url("/wp-admin/media-new.php"))?.expect(200)?;
    let form = page.text();
    let nonce = form.split("\"_wpnonce\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let nonce = nonce.ok_or_else(|| page.wrong("no token for the upload"))?;
    let (file, nonce) = (format!("async-upload=@{}", picture.display()), format!("_wpnonce={nonce}"));
    let address = site.url("/wp-admin/async-upload.php");
    let fields = ["-F", &file, "-F", "name=listing.png", "-F", "action=upload-attachment", "-F", &nonce];
    let answer = client.send(&address, &fields)?.expect(200)?.expect_text("\"success\":true")?;
    println!("uploaded: {source} {}", text_at(&answer.json()?, "/data/url"));
    Ok(source)
}

/// Publishes a post with a password for programs, and reads it at its pretty address.
fn publish(client: &AppClient, site: &AppSite, token: &str, picture: &str) -> Result<()> {
    let user = format!("{}:{}", ADMIN.0, password(client, site, token)?);
    let content = format!("content=<p>Written by a program.</p><img src=\"{picture}\">");
    let title = "title=真珠 & pearls";
    let fields = ["--data-urlencode", title, "--data-urlencode", &content];
    let arguments = [&["-u", &user, "-d", "status=publish"], &fields[..]].concat();
    let visitor = AppClient::new(Path::new("/dev/null/none"), &site.authority());
    let answer = visitor.send(&site.url("/wp-json/wp/v2/posts"), &arguments)?.expect(201)?;
    let link = text_at(&answer.json()?, "/link");
    if link != site.url("/%e7%9c%9f%e7%8f%a0-pearls/") {
        return Err(answer.wrong("the post has no pretty address"));
    }
    visitor.get(&link)?.expect(200)?.expect_text("Written by a program.")?;
    // WordPress itself leads to the address with the slash.
    let without = visitor.get(link.trim_end_matches('/'))?.expect(301)?;
    if without.field("location") != Some(&link) {
        return Err(without.wrong("the redirect leads to another address"));
    }
    println!("published: {link}");
    Ok(())
}

/// Missing posts have WordPress's page; uploads are not run, and secrets not sent.
fn check_refusals(client: &AppClient, site: &AppSite, root: &Path) -> Result<()> {
    client.get(&site.url("/no/such/post/"))?.expect(404)?.expect_text("Pearls")?;
    let evil = root.join("wp-content/uploads/evil.PHP");
    fs::write(&evil, "<?php echo 'it ran';").map_err(Error::path("write", &evil))?;
    client.get(&site.url("/wp-content/uploads/evil.PHP"))?.expect(403)?;
    client.get(&site.url("/wp-config-sample.php"))?.expect(403)?;
    client.get(&site.url("/wp-content/"))?.expect(403)?;
    Ok(())
}

/// Logs in like a person, writes a post in the block editor, and reads it.
fn write_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/wp-login.php"))?;
    browser.until("document.querySelector('#loginform')")?;
    log_in_like_person(&mut browser)?;
    browser.until("document.querySelector('#wpadminbar') && location.pathname == '/wp-admin/'")?;
    site.check_page(&mut browser)?;
    browser.go(&site.url("/wp-admin/post-new.php"))?;
    browser.until("document.querySelector('.editor-post-title__input')")?;
    // The welcome guide covers the editor.
    browser.value("wp.data.dispatch('core/edit-post').toggleFeature('welcomeGuide')")?;
    browser.until("!document.querySelector('.edit-post-welcome-guide')")?;
    browser.click(".editor-post-title__input")?;
    browser.insert("Girl with a pearl")?;
    browser.press_enter()?;
    browser.insert("Written in the block editor.")?;
    browser.until("!document.querySelector('.editor-post-publish-panel__toggle')?.disabled")?;
    browser.click(".editor-post-publish-panel__toggle")?;
    browser.until("document.querySelector('.editor-post-publish-button')?.ariaDisabled == 'false'")?;
    browser.click(".editor-post-publish-button")?;
    browser.until("document.querySelector('.post-publish-panel__postpublish-buttons a')")?;
    site.check_page(&mut browser)?;
    browser.go(&site.url("/girl-with-a-pearl/"))?;
    browser.until("document.body.innerText.includes('Written in the block editor.')")?;
    browser.until("document.querySelector('h1')?.innerText == 'Girl with a pearl'")?;
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("wordpress-{}", front.word()))
}

/// Fills the form of the login. A script of the page selects the name 0.2 s after the page has
/// loaded, and then typed text replaces the name, so both texts must be there at the end.
fn log_in_like_person(browser: &mut Browser) -> Result<()> {
    browser.until("document.activeElement.id == 'user_login'")?;
    browser.type_into("#user_login", ADMIN.0)?;
    browser.type_into("#user_pass", ADMIN.1)?;
    browser.click("#wp-submit")
}
