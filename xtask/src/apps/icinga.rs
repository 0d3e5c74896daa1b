//! Icinga Web 2, whose front controller answers pages, style sheets and scripts: fed and read in
//! Chromium.

use std::fs;

use super::client::AppClient;
use super::database::Database;
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront};
use super::unpacked::{UnpackedApp, open_folder, run_script};
use crate::browser::Browser;
use crate::error::{Error, Result};

/// The application and its libraries.
const PACKAGES: [&str; 5] =
    ["icingaweb2", "icingaweb2-common", "php-icinga", "icinga-php-library", "icinga-php-thirdparty"];

/// The heading of the page.
const HEADING: &str = "Icinga Web 2";

/// The administrator and the password.
const ADMIN: (&str, &str) = ("painter", "pearl-earring-1665");

/// Makes the site `$2` of the packages in `$1`, with settings in `$3` for the database at the
/// socket `$4`, whose administrator is `$5`. The application names its folders itself, so the
/// copies have new names.
const SET_UP: &str = r#"
cp -r "$1/usr/share/icingaweb2" "$2"
cp -r "$1/usr/share/php" "$1/usr/share/icinga-php" "$2"
grep -rl -e /usr/share/php/Icinga -e /usr/share/icinga-php -e /var/lib/icingaweb2 "$2/public" "$2/php" |
    xargs sed -i "s,/usr/share/php/Icinga,$2/php/Icinga,; s,/usr/share/icinga-php,$2/icinga-php,; s,/var/lib/icingaweb2,$3/data,"
mkdir -p "$3/enabledModules" "$3/data"
cat > "$3/config.ini" <<END
[global]
config_resource = "site"
[logging]
log = "file"
level = "WARNING"
file = "$3/data/log"
END
cat > "$3/resources.ini" <<END
[site]
type = "db"
db = "mysql"
host = "localhost;unix_socket=$4"
dbname = "icinga"
username = "root"
password = ""
charset = "utf8mb4"
END
cat > "$3/authentication.ini" <<END
[site]
backend = "db"
resource = "site"
END
cat > "$3/roles.ini" <<END
[admins]
users = "$5"
permissions = "*"
END
chmod -R a+rX "$2"
chmod -R a+rwX "$3"
"#;

/// Fetches the packages.
pub(super) fn prepare() -> Result<UnpackedApp> {
    UnpackedApp::fetch("icinga", &PACKAGES)
}

/// Logs in, adds a user and an announcement, and reads pages.
pub(super) fn use_it(tools: &AppTools, unpacked: &UnpackedApp, front: SiteFront) -> Result<()> {
    let folder = open_folder("icinga")?;
    let folder = folder.path();
    let database = Database::start(folder)?;
    let (root, settings) = (folder.join("site"), folder.join("settings"));
    run_script(SET_UP, &[unpacked.packages(), &root, &settings, database.socket(), ADMIN.0.as_ref()])?;
    let schema = root.join("schema/mysql.schema.sql");
    let schema = fs::read_to_string(&schema).map_err(Error::path("read", &schema))?;
    database.run(&format!("create database icinga; use icinga; {schema}"))?;
    let config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("/usr/share/icingaweb2", &root.display().to_string())?
        .replace("/etc/icingaweb2", &settings.display().to_string())?
        .replace("user = \"icinga\"", &format!("user = \"{SITE_USER}\""))?;
    add_admin(&database)?;
    let site = AppSite::start(tools, folder, front, config, "icinga")?;
    let client = AppClient::new(folder, &site.authority());
    log_in(&client, &site)?;
    read_parts(&client, &site)?;
    use_in_browser(tools, &site, front)
}

/// Adds the administrator with a hash that PHP makes.
fn add_admin(database: &Database) -> Result<()> {
    let hash = format!("echo password_hash('{}', PASSWORD_DEFAULT);", ADMIN.1);
    let hash = std::process::Command::new("php").args(["-r", &hash]).output();
    let hash = hash.map_err(Error::path("start", "php".as_ref()))?.stdout;
    let (name, hash) = (ADMIN.0, String::from_utf8_lossy(&hash).into_owned());
    database.run(&format!(
        "insert into icinga.icingaweb_user (name, active, password_hash) values ('{name}', 1, '{hash}')"
    ))
}

/// Logs in with a form.
fn log_in(client: &AppClient, site: &AppSite) -> Result<()> {
    let start = client.get(&site.url("/dashboard"))?.expect(302)?;
    let to = start.field("location").unwrap_or_default();
    if !to.starts_with("/authentication/login") {
        return Err(start.wrong("this is no redirect to the login"));
    }
    // The first answers check whether the client keeps cookies.
    for path in ["/authentication/login", "/authentication/login?_checkCookie=1"] {
        client.get(&site.url(path))?.expect(302)?;
    }
    let page = client.get(&site.url("/authentication/login"))?.expect(200)?;
    let token = page.form_value("name=\"CSRFToken\"")?;
    let fields = [
        ("username", ADMIN.0),
        ("password", ADMIN.1),
        ("rememberme", "0"),
        ("redirect", ""),
        ("formUID", "form_login"),
        ("CSRFToken", &token),
        ("btn_submit", "Login"),
    ];
    let answer = client.post(&site.url("/authentication/login"), &fields)?.expect(302)?;
    let is_cookie = |line: &&str| line.to_lowercase().starts_with("set-cookie:");
    let cookies: Vec<String> = answer.head.lines().filter(is_cookie).map(str::to_lowercase).collect();
    if !cookies.iter().any(|cookie| cookie.contains("icingaweb2=") && cookie.contains("secure")) {
        return Err(answer.wrong("no cookie for https"));
    }
    client.get(&site.url("/account"))?.expect(200)?.expect_text("My Account").map(drop)
}

/// The front controller makes style sheets, scripts and pictures, also below a name that ends in
/// `.php`.
fn read_parts(client: &AppClient, site: &AppSite) -> Result<()> {
    for (path, kind) in [
        ("/css/icinga.min.css", "text/css"),
        ("/js/icinga.min.js", "application/javascript"),
        ("/img/icinga-logo.svg", "image/svg+xml"),
        ("/svg/chart.php?data=1,2,3&colors=red,green,blue", "image/svg+xml"),
        ("/lib/icinga/icinga-php-library/font/Icinga-Icons.svg", "image/svg+xml"),
    ] {
        let answer = client.get(&site.url(path))?.expect(200)?;
        if !answer.field("content-type").is_some_and(|this| this.starts_with(kind)) {
            return Err(answer.wrong(&format!("this is no {kind}")));
        }
    }
    client.get(&site.url("/no/such/page"))?.expect(404)?.expect_text("not found").map(drop)
}

/// Logs in like a person, adds a user and an announcement, and reads both.
fn use_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/"))?;
    browser.until("document.querySelector('#login form')")?;
    browser.type_into("#login input[name=username]", ADMIN.0)?;
    browser.type_into("#login input[name=password]", ADMIN.1)?;
    browser.click("#login input[type=submit]")?;
    browser.until("document.querySelector('#menu') && location.pathname != '/authentication/login'")?;
    site.check_page(&mut browser)?;
    add_user(&mut browser, site)?;
    announce(&mut browser, site)?;
    browser.go(&site.url("/user/list?backend=site"))?;
    browser.until("document.querySelector('#announcements')?.innerText.includes('Girl with a pearl')")?;
    browser.until("document.querySelector('#col1')?.innerText.includes('model')")?;
    browser.until("[...document.images].every(image => image.naturalWidth > 0)")?;
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("icinga-{}", front.word()))
}

/// Adds a user with a form, which the application sends by a script.
fn add_user(browser: &mut Browser, site: &AppSite) -> Result<()> {
    browser.go(&site.url("/user/add?backend=site"))?;
    browser.until("document.querySelector('input[name=user_name]')")?;
    browser.type_into("input[name=user_name]", "model")?;
    browser.type_into("input[name=password]", "turban-1665")?;
    browser.click("#col1 form input[type=submit]")?;
    browser.until(
        "location.pathname == '/user/list' && document.querySelector('#col1').innerText.includes('model')",
    )
}

/// Adds an announcement, which every page shows.
fn announce(browser: &mut Browser, site: &AppSite) -> Result<()> {
    browser.go(&site.url("/announcements/new"))?;
    browser.until("document.querySelector('textarea[name=message]')")?;
    browser.type_into("textarea[name=message]", "Girl with a pearl")?;
    // A person chooses these times from calendars.
    for (name, time) in [("start", "2020-01-01T00:00:00"), ("end", "2099-01-01T00:00:00")] {
        browser.value(&format!("document.querySelector('input[name={name}]').value = '{time}'"))?;
    }
    browser.click("#col1 form input[type=submit]")?;
    browser.until(
        "location.pathname == '/announcements' && document.querySelector('#col1').innerText.includes('pearl')",
    )
}
