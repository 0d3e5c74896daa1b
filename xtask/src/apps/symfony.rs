//! An application on Symfony, with the folders of its skeleton: fed by curl, used in Chromium.
//!
//! The framework comes from Debian's packages, the application is in `symfony/`.

use std::fs;

use super::client::AppClient;
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront, write};
use super::unpacked::{UnpackedApp, open_folder, run_script};
use crate::error::{Error, Result};

/// The framework and the packages that it needs.
const PACKAGES: [&str; 21] = [
    "php-psr-cache",
    "php-psr-container",
    "php-psr-event-dispatcher",
    "php-psr-log",
    "php-symfony-cache",
    "php-symfony-cache-contracts",
    "php-symfony-config",
    "php-symfony-dependency-injection",
    "php-symfony-deprecation-contracts",
    "php-symfony-error-handler",
    "php-symfony-event-dispatcher",
    "php-symfony-event-dispatcher-contracts",
    "php-symfony-filesystem",
    "php-symfony-finder",
    "php-symfony-framework-bundle",
    "php-symfony-http-foundation",
    "php-symfony-http-kernel",
    "php-symfony-routing",
    "php-symfony-service-contracts",
    "php-symfony-var-dumper",
    "php-symfony-var-exporter",
];

/// The heading of the page.
const HEADING: &str = "Symfony, Laravel";

/// The front controller.
const INDEX: &str = include_str!("symfony/index.php");
/// The application.
const KERNEL: &str = include_str!("symfony/Kernel.php");

/// Titles with special characters, and the addresses that the framework gives them.
const TITLES: [(&str, &str); 4] = [
    ("Girl with a pearl", "/paintings/Girl%20with%20a%20pearl"),
    ("A.php/b?", "/paintings/A.php/b%3F"),
    ("Größe & 100%", "/paintings/Gr%C3%B6%C3%9Fe%20%26%20100%25"),
    ("style.css", "/paintings/style.css"),
];

/// Makes the site `$2` of the packages in `$1`.
const SET_UP: &str = r#"
mkdir -p "$2/public" "$2/src" "$2/var"
cp -r "$1/usr/share/php" "$2/vendor"
echo 'h1 { color: rgb(1, 2, 3) }' > "$2/public/style.css"
chmod -R a+rX "$2"
chmod a+rwX "$2/var"
"#;

/// Fetches the packages.
pub(super) fn prepare() -> Result<UnpackedApp> {
    UnpackedApp::fetch("symfony", &PACKAGES)
}

/// Adds paintings, and reads them.
pub(super) fn use_it(tools: &AppTools, unpacked: &UnpackedApp, front: SiteFront) -> Result<()> {
    let folder = open_folder("shop")?;
    let folder = folder.path();
    let root = folder.join("site");
    run_script(SET_UP, &[unpacked.packages(), &root])?;
    write(&root, "public/index.php", INDEX)?;
    write(&root, "src/Kernel.php", KERNEL)?;
    let config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("/srv/www/shop", &root.display().to_string())?
        .replace("user = \"shop\"", &format!("user = \"{SITE_USER}\""))?;
    let site = AppSite::start(tools, folder, front, config, "shop")?;
    let client = AppClient::new(folder, &site.authority());
    add(&client, &site)?;
    let style = client.get(&site.url("/style.css"))?.expect(200)?;
    let path = root.join("public/style.css");
    if style.body != fs::read(&path).map_err(Error::path("read", &path))? {
        return Err(style.wrong("the file has another content"));
    }
    client.get(&site.url("/no/such/page"))?.expect(404)?.expect_text("Not Found")?;
    client.get(&site.url("/src/Kernel.php"))?.expect(404)?;
    add_in_browser(tools, &site, front)
}

/// Adds paintings, and follows the redirects to their addresses.
fn add(client: &AppClient, site: &AppSite) -> Result<()> {
    for (title, path) in TITLES {
        let answer = client.post(&site.url("/paintings"), &[("title", title)])?.expect(302)?;
        if answer.field("location") != Some(&site.url(path)) {
            return Err(answer.wrong(&format!("the redirect does not lead to {}", site.url(path))));
        }
        let title = title.replace('&', "&amp;");
        let page = client.get(&site.url(path))?.expect(200)?.expect_text(&format!("<h1>{title}</h1>"))?;
        page.expect_text("TLS 127.0.0.1")?;
    }
    println!("read {} pages with special addresses", TITLES.len());
    Ok(())
}

/// Adds a painting like a person.
fn add_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/"))?;
    browser.until("document.querySelector('input[name=title]')")?;
    browser.type_into("input[name=title]", "View of Delft")?;
    browser.click("button")?;
    browser.until("location.pathname == '/paintings/View%20of%20Delft'")?;
    browser.until("document.querySelector('p').innerText == 'TLS 127.0.0.1'")?;
    browser.click("a")?;
    browser
        .until("location.pathname == '/' && document.querySelector('li a').innerText == 'View of Delft'")?;
    browser.until("getComputedStyle(document.querySelector('h1')).color == 'rgb(1, 2, 3)'")?;
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("symfony-{}", front.word()))
}
