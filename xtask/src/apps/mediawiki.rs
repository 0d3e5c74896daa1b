//! MediaWiki with short addresses: fed by curl through its programming interface, edited in
//! Chromium.

use std::fs;

use super::client::AppClient;
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront};
use super::unpacked::{UnpackedApp, open_folder, run_script};
use crate::error::{Error, Result};

const PACKAGES: [&str; 2] = ["mediawiki", "mediawiki-classes"];

/// The heading of the page.
const HEADING: &str = "MediaWiki";

/// The administrator and the password.
const ADMIN: (&str, &str) = ("Painter", "pearl-earring-1665");

/// Titles whose addresses have special characters, with the addresses that MediaWiki gives them.
const TITLES: [(&str, &str); 8] = [
    ("C++", "/wiki/C%2B%2B"),
    ("AC/DC", "/wiki/AC/DC"),
    ("Q&A", "/wiki/Q%26A"),
    ("100% silk", "/wiki/100%25_silk"),
    ("Really?", "/wiki/Really%3F"),
    ("Größe", "/wiki/Gr%C3%B6%C3%9Fe"),
    ("Index.php", "/wiki/Index.php"),
    ("A.php/b", "/wiki/A.php/b"),
];

/// Makes the site `$2` of the packages in `$1`, with the database in the folder `$3`.
const SET_UP: &str = r#"
mkdir -p "$2" "$3"
cp -r "$1/usr/share/mediawiki" "$2/w"
cd "$2/w"
rm extensions config images LocalSettings.php
mv extensions-core extensions
mkdir -p images cache
php maintenance/install.php --dbtype=sqlite --dbpath="$3" --server=https://wiki.localhost --scriptpath=/w \
    --pass="$4" --with-extensions=ParserFunctions Pearls "$5" > "$3/install.log"
cat >> LocalSettings.php <<'END'
# The address that the server reports; a proxy of the test has another port than 443.
$wgServer = WebRequest::detectServer( false );
$wgArticlePath = '/wiki/$1';
$wgEnableUploads = true;
$wgUseImageMagick = false;
$wgPingback = false;
$wgCacheDirectory = "$IP/cache";
$wgShowExceptionDetails = true;
$wgPasswordAttemptThrottle = [];
END
chmod -R a+rX "$2"
chmod -R a+rwX "$2/w/images" "$2/w/cache" "$3"
"#;

/// Fetches the packages.
pub(super) fn prepare() -> Result<UnpackedApp> {
    UnpackedApp::fetch("mediawiki", &PACKAGES)
}

/// Writes and reads pages, and uploads a picture.
pub(super) fn use_it(tools: &AppTools, unpacked: &UnpackedApp, front: SiteFront) -> Result<()> {
    let folder = open_folder("wiki")?;
    let folder = folder.path();
    let (root, data) = (folder.join("site"), folder.join("data"));
    run_script(SET_UP, &[unpacked.packages(), &root, &data, ADMIN.1.as_ref(), ADMIN.0.as_ref()])?;
    let config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("/srv/www/wiki", &root.display().to_string())?
        .replace("user = \"wiki\"", &format!("user = \"{SITE_USER}\""))?;
    let site = AppSite::start(tools, folder, front, config, "wiki")?;
    let client = AppClient::new(folder, &site.authority());
    check_start(&client, &site)?;
    log_in(&client, &site)?;
    edit(&client, &site)?;
    upload(tools, &client, &site)?;
    for path in ["/w/maintenance/install.php", "/w/vendor/", "/w/includes/WebStart.php"] {
        client.get(&site.url(path))?.expect(403)?;
    }
    edit_in_browser(tools, &site, front)
}

/// The start leads to the main page by its short address.
fn check_start(client: &AppClient, site: &AppSite) -> Result<()> {
    let start = client.get(&site.url("/"))?.expect(302)?;
    let second = client.get(&site.url(start.field("location").unwrap_or_default()))?.expect(301)?;
    if second.field("location") != Some(&site.url("/wiki/Main_Page")) {
        return Err(second.wrong("the start does not lead to the main page over https"));
    }
    client.get(&site.url("/wiki/Main_Page"))?.expect(200)?.expect_text("MediaWiki has been installed")?;
    client.get(&site.url("/wiki/No_such_page"))?.expect(404)?.expect_text("There is currently no text")?;
    Ok(())
}

/// A token of the programming interface.
fn token(client: &AppClient, site: &AppSite, kind: &str) -> Result<String> {
    let query = format!("/w/api.php?action=query&meta=tokens&type={kind}&format=json");
    let answer = client.get(&site.url(&query))?.expect(200)?;
    let token = answer.json()?["query"]["tokens"][format!("{kind}token")].as_str().map(str::to_owned);
    token.ok_or_else(|| answer.wrong("no token"))
}

fn log_in(client: &AppClient, site: &AppSite) -> Result<()> {
    let token = token(client, site, "login")?;
    let back = site.url("/");
    let fields = [
        ("action", "clientlogin"),
        ("format", "json"),
        ("loginreturnurl", &back),
        ("username", ADMIN.0),
        ("password", ADMIN.1),
        ("logintoken", &token),
    ];
    let answer = client.post(&site.url("/w/api.php"), &fields)?.expect_text("PASS")?;
    if !answer
        .head
        .lines()
        .any(|line| line.starts_with("Set-Cookie:") && line.to_lowercase().contains("secure"))
    {
        return Err(answer.wrong("no cookie for https"));
    }
    Ok(())
}

/// Writes pages with special titles, and reads each at its short address.
fn edit(client: &AppClient, site: &AppSite) -> Result<()> {
    let token = token(client, site, "csrf")?;
    for (title, path) in TITLES {
        let text = format!("The page about {title}.");
        let fields =
            [("action", "edit"), ("format", "json"), ("title", title), ("text", &text), ("token", &token)];
        client.post(&site.url("/w/api.php"), &fields)?.expect_text("Success")?;
        let text = text.replace('&', "&amp;");
        client.get(&site.url(path))?.expect(200)?.expect_text(&text)?;
    }
    println!("read {} pages with special titles", TITLES.len());
    Ok(())
}

/// Uploads a picture, shows the picture on a page, and reads both sizes.
fn upload(tools: &AppTools, client: &AppClient, site: &AppSite) -> Result<()> {
    let picture = tools.root.join("docs/img/listing.png");
    let file = format!("file=@{}", picture.display());
    let token = format!("token={}", token(client, site, "csrf")?);
    let fields = ["action=upload", "format=json", "filename=Pearl.png", "ignorewarnings=1", &token, &file];
    let arguments: Vec<&str> = fields.iter().flat_map(|field| ["-F", field]).collect();
    let answer = client.send(&site.url("/w/api.php"), &arguments)?.expect_text("Success")?;
    let address = answer.json()?["upload"]["imageinfo"]["url"].as_str().unwrap_or_default().to_owned();
    if !address.starts_with(&site.url("/w/images/")) {
        return Err(answer.wrong("the picture has another address"));
    }
    let sent = fs::read(&picture).map_err(Error::path("read", &picture))?;
    let received = client.get(&address)?.expect(200)?;
    if received.body != sent {
        return Err(received.wrong("the picture has changed"));
    }
    println!("uploaded: {address}");
    Ok(())
}

/// Logs in like a person, edits a page with the picture, and reads the page.
fn edit_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/wiki/Special:UserLogin"))?;
    browser.until("document.querySelector('#wpName1')")?;
    browser.type_into("#wpName1", ADMIN.0)?;
    browser.type_into("#wpPassword1", ADMIN.1)?;
    browser.click("#wpLoginAttempt")?;
    browser.until("location.pathname == '/wiki/Main_Page' && mw.config.get('wgUserName') == 'Painter'")?;
    site.check_page(&mut browser)?;
    browser.go(&site.url("/w/index.php?title=Girl_with_a_pearl&action=edit"))?;
    browser.until("document.querySelector('#wpTextbox1')")?;
    browser.type_into("#wpTextbox1", "== Pearls ==\nWritten '''by hand'''. [[File:Pearl.png|200px]]")?;
    browser.click("#wpSave")?;
    browser.until("location.pathname == '/wiki/Girl_with_a_pearl'")?;
    browser.until("document.querySelector('.mw-parser-output b')?.innerText == 'by hand'")?;
    browser.until(
        "[...document.querySelectorAll('.mw-parser-output img')].some(image => image.naturalWidth == 200)",
    )?;
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("mediawiki-{}", front.word()))
}
