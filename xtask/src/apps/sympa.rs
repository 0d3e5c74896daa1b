//! Sympa, mailing lists by a CGI program: a password chosen by mail, a list made in Chromium, and
//! a picture uploaded by curl.

use std::fs;
use std::path::Path;

use super::client::{AppAnswer, AppClient};
use super::page_config::PageConfig;
use super::site::{AppSite, AppTools, SITE_USER, SiteFront, write};
use super::unpacked::{UnpackedApp, open_folder, run_script};
use crate::browser::Browser;
use crate::error::{Error, Result};
use crate::packages;

/// The application, and the packages with the scripts and fonts of its pages.
const PACKAGES: [&str; 7] = [
    "sympa",
    "fonts-font-awesome",
    "libjs-jquery",
    "libjs-jquery-migrate-1",
    "libjs-jquery-minicolors",
    "libjs-jquery-ui",
    "node-html5shiv",
];

/// The heading of the page.
const HEADING: &str = "Sympa";

/// The list master and the password.
const ADMIN: (&str, &str) = ("painter@example.org", "pearl-earring-1665");

/// Makes the site `$2` of the packages in `$1`, for the user `$3` if the superuser runs the
/// script. The application names its folders and its user itself, so the copies have new names.
/// The modes are those of the package's installation.
const SET_UP: &str = r#"
cp -r "$1" "$2"
mkdir -p "$2/run/sympa"
folders='/(usr/(share|lib|lib/cgi-bin)|etc|etc/mail|var/(lib|spool)|run)/sympa'
grep -rlIE "$folders" "$2/usr/share/sympa" "$2/usr/lib" | xargs sed -i -E "s,$folders,$2&,g"
user="$(id -un)"
test "$(id -u)" != 0 || user="$3"
sed -i "/USER/s,'sympa','$user',; /GROUP/s,'sympa','$(id -gn "$user")'," \
    "$2/usr/share/sympa/lib/Sympa/Constants.pm"
chmod -R a+rX "$2"
find "$2/var/lib/sympa" "$2/var/spool/sympa" -type d -exec chmod 0771 {} +
test "$(id -u)" != 0 || chown -R "$user:" "$2/etc" "$2/var" "$2/run"
"#;

/// Makes the database of the site `$1`, as the package's installation does, for the user `$2` if
/// the superuser runs the script.
const MAKE_DATABASE: &str = r#"
sympa="$1/usr/lib/sympa/bin/sympa"
version="$("$sympa" version)"
printf '# Version of the data\n%s\n' "${version#* }" > "$1/etc/sympa/data_structure.version"
if test "$(id -u)" = 0
then setpriv --reuid "$2" --regid "$(id -g "$2")" --clear-groups "$sympa" check
else "$sympa" check
fi
"#;

/// Fetches the packages.
pub(super) fn prepare() -> Result<UnpackedApp> {
    packages::install_sympa()?;
    UnpackedApp::fetch("sympa", &PACKAGES)
}

/// Chooses a password, makes a list, and subscribes to it.
pub(super) fn use_it(tools: &AppTools, unpacked: &UnpackedApp, front: SiteFront) -> Result<()> {
    let folder = open_folder("lists")?;
    let folder = folder.path();
    let root = folder.join("site");
    run_script(SET_UP, &[unpacked.packages(), &root, SITE_USER.as_ref()])?;
    let mut config = PageConfig::read(&tools.root, HEADING, "toml")?
        .replace("user = \"sympa\"", &format!("user = \"{SITE_USER}\""))?;
    for path in ["/usr/lib/cgi-bin/sympa", "/usr/share/sympa", "/var/lib/sympa"] {
        config = config.replace(path, &format!("{}{path}", root.display()))?;
    }
    let site = AppSite::start(tools, folder, front, config, "lists")?;
    configure(tools, &site, &root)?;
    let client = AppClient::new(folder, &site.authority());
    read_pages(&client, &site)?;
    choose_password(&client, &site, &root)?;
    make_list_in_browser(tools, &site, front)?;
    join_list(&client, &site, folder)
}

/// Configures the application: the address of the page, and settings that belong to the test.
fn configure(tools: &AppTools, site: &AppSite, root: &Path) -> Result<()> {
    let settings = PageConfig::read(&tools.root, HEADING, "conf")?
        .replace("https://lists.example.org", &site.url(""))?;
    // The package's installation asks for the first four settings. The others replace programs that
    // the test has not: the mail system and the system log.
    let settings = format!(
        "{}domain lists.example.org\nlistmaster {}\ndb_type SQLite\ndb_name {}\n\
         css_url /css-sympa\npictures_url /pictures-sympa\n\
         sendmail /bin/true\nsendmail_aliases none\nlog_socket_type none\n",
        settings.text(),
        ADMIN.0,
        root.join("var/lib/sympa/sympa.sqlite").display()
    );
    write(root, "etc/sympa/sympa/sympa.conf", &settings)?;
    run_script(MAKE_DATABASE, &[root, SITE_USER.as_ref()])
}

/// The address of a page of the program.
fn page(site: &AppSite, path: &str) -> String {
    site.url(&format!("/wwsympa.fcgi{path}"))
}

/// Reads the first page and the files of its look.
fn read_pages(client: &AppClient, site: &AppSite) -> Result<()> {
    let start = client.get(&site.url("/"))?.expect(302)?;
    if start.field("location") != Some("/wwsympa.fcgi/home") {
        return Err(start.wrong("the redirect leads to another address"));
    }
    let home = client.get(&page(site, "/home"))?.expect(200)?.expect_text("Welcome")?;
    let home = home.expect_text(&format!("href=\"{}", page(site, "/rss/latest_lists")))?;
    if home.text().contains("http://lists.") {
        return Err(home.wrong("links without https"));
    }
    for (path, kind) in [
        ("/css-sympa/lists.example.org/style.css", "text/css"),
        ("/static-sympa/js/sympa.js", "text/javascript"),
        // Links to other packages.
        ("/static-sympa/js/jquery.js", "text/javascript"),
        ("/static-sympa/fonts/font-awesome/css/font-awesome.css", "text/css"),
        ("/static-sympa/icons/logo_sympa.png", "image/png"),
    ] {
        let answer = client.get(&site.url(path))?.expect(200)?;
        if !answer.field("content-type").is_some_and(|this| this.starts_with(kind)) {
            return Err(answer.wrong(&format!("this is no {kind}")));
        }
    }
    for path in ["/sympa_soap_server.fcgi", "/css-sympa/none.css", "/lists"] {
        client.get(&site.url(path))?.expect(404)?;
    }
    Ok(())
}

/// Sends a form of the application with its token.
fn send_form(
    client: &AppClient,
    site: &AppSite,
    form: &AppAnswer,
    fields: &[(&str, &str)],
) -> Result<AppAnswer> {
    let token = form.form_value("name=\"csrftoken\"")?;
    client.post(&page(site, ""), &[&[("csrftoken", token.as_str())], fields].concat())
}

/// Asks for a first password, and follows the link in the mail to choose one.
fn choose_password(client: &AppClient, site: &AppSite, root: &Path) -> Result<()> {
    let form = client.get(&page(site, "/firstpasswd"))?.expect(200)?;
    let request = [("email", ADMIN.0), ("reason", "firstpasswd"), ("action", "requestpasswd")];
    let form = send_form(client, site, &form, &request)?.expect(200)?.expect_text("Do you really want")?;
    let confirmed = [&request[..], &[("response_action_confirm", "Confirm")]].concat();
    send_form(client, site, &form, &confirmed)?.expect(200)?.expect_text("Message sent")?;
    let link = link_in_mail(&root.join("var/spool/sympa/bulk/msg"), &page(site, "/ticket/"))?;
    let form = client.get(&link)?.expect(200)?;
    let fields = [("newpasswd1", ADMIN.1), ("newpasswd2", ADMIN.1), ("action_setpasswd", "Submit")];
    let answer = send_form(client, site, &form, &fields)?.expect(200)?;
    let answer = answer.expect_text("setpasswd: action completed")?;
    let answer = send_form(client, site, &answer, &[("action_logout", "Logout")])?.expect(200)?;
    if answer.text().contains("action_logout") {
        return Err(answer.wrong("the client is still logged in"));
    }
    println!("chose a password with a link in a mail: {link}");
    Ok(())
}

/// The link that begins with `start` in a mail that waits in `folder`.
fn link_in_mail(folder: &Path, start: &str) -> Result<String> {
    let entries = fs::read_dir(folder).map_err(Error::path("list", folder))?;
    let mails = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let link = mails.into_iter().find_map(|mail| {
        let rest = mail.split_once(start)?.1;
        Some(format!("{start}{}", rest.split_whitespace().next()?))
    });
    link.ok_or_else(|| Error::form(folder.display(), format!("no mail with {start}")))
}

/// Logs in like a person, makes a list, changes its description, and logs out.
fn make_list_in_browser(tools: &AppTools, site: &AppSite, front: SiteFront) -> Result<()> {
    let mut browser = site.browser(tools)?;
    browser.go(&site.url("/"))?;
    browser.until("location.pathname == '/wwsympa.fcgi/home' && document.querySelector('main.home')")?;
    site.check_page(&mut browser)?;
    browser.go(&page(site, "/login"))?;
    browser.until("document.querySelector('#email_login')")?;
    browser.type_into("#email_login", ADMIN.0)?;
    browser.type_into("#passwd", ADMIN.1)?;
    browser.click("main button[name=action_login]")?;
    browser.until("document.querySelector('[name=action_logout]')")?;
    site.check_page(&mut browser)?;
    make_list(&mut browser, site)?;
    browser.go(&page(site, "/editfile/pearls/info"))?;
    browser.until("document.querySelector('textarea[name=content]')")?;
    browser.type_into("textarea[name=content]", "Girls with pearls, Mädchen mit Perlen.")?;
    browser.click("input[name=action_savefile]")?;
    browser.until("document.querySelector('#ephemeralMsg .success')")?;
    browser.go(&page(site, "/info/pearls"))?;
    browser.until(
        "document.querySelector('main').innerText.includes('Girls with pearls, Mädchen mit Perlen.')",
    )?;
    browser.until("[...document.images].every(image => image.naturalWidth > 0)")?;
    site.check_page(&mut browser)?;
    tools.keep_picture(&mut browser, &format!("sympa-{}", front.word()))?;
    log_out(&mut browser)
}

/// Makes a list with the form of the application.
fn make_list(browser: &mut Browser, site: &AppSite) -> Result<()> {
    browser.go(&page(site, "/create_list_request"))?;
    browser.until("document.querySelector('#listname')")?;
    browser.type_into("#listname", "pearls")?;
    browser.click("input[value=discussion_list]")?;
    browser.type_into("#subject", "Pearls & painters")?;
    // A person chooses the topic from a menu.
    browser.value("document.querySelector('#topics').value = 'art/finearts'")?;
    browser.type_into("#info", "Written in a browser.")?;
    browser.click("input[name=action_create_list]")?;
    browser.until("location.pathname == '/wwsympa.fcgi/admin/pearls'")?;
    browser.until("document.querySelector('main').innerText.includes('Pearls & painters')")?;
    site.check_page(browser)
}

/// Logs out with the menu of the user.
fn log_out(browser: &mut Browser) -> Result<()> {
    browser.click("li:has([name=action_logout]) > a")?;
    browser.click("[name=action_logout]")?;
    browser.until("!document.querySelector('[name=action_logout]')")
}

/// Logs in, subscribes to the list, and uploads a picture of the subscriber.
fn join_list(client: &AppClient, site: &AppSite, folder: &Path) -> Result<()> {
    let form = client.get(&page(site, "/login"))?.expect(200)?;
    let fields = [("email", ADMIN.0), ("passwd", ADMIN.1), ("action_login", "Login"), ("submit", "submit")];
    let answer = send_form(client, site, &form, &fields)?.expect(302)?;
    // The application leads back to the last page of the session.
    if !answer.field("location").is_some_and(|to| to.starts_with(&page(site, "/"))) {
        return Err(answer.wrong("the redirect leads to another address"));
    }
    let cookie = answer.field("set-cookie").unwrap_or_default();
    if !(cookie.starts_with("sympa_session=") && cookie.contains("secure")) {
        return Err(answer.wrong("no cookie for https"));
    }
    let form = client.get(&page(site, "/info/pearls"))?.expect(200)?.expect_text("Girls with pearls")?;
    let request = [("list", "pearls"), ("email", ADMIN.0), ("action", "subscribe")];
    let form = send_form(client, site, &form, &request)?.expect(200)?.expect_text("Do you really want")?;
    let confirmed = [&request[..], &[("response_action_confirm", "Confirm")]].concat();
    send_form(client, site, &form, &confirmed)?.expect(200)?;
    let form = client.get(&page(site, "/suboptions/pearls"))?.expect(200)?;
    upload_picture(client, site, &form, folder)
}

/// Uploads the logo of the application as the picture of the subscriber, and reads it again.
fn upload_picture(client: &AppClient, site: &AppSite, form: &AppAnswer, folder: &Path) -> Result<()> {
    let sent = client.get(&site.url("/static-sympa/icons/logo_sympa.png"))?.expect(200)?.body;
    let picture = folder.join("logo.png");
    fs::write(&picture, &sent).map_err(Error::path("write", &picture))?;
    let token = format!("csrftoken={}", form.form_value("name=\"csrftoken\"")?);
    let file = format!("uploaded_file=@{}", picture.display());
    let fields = ["-F", &token, "-F", "list=pearls", "-F", "action_upload_pictures=Submit", "-F", &file];
    let answer = client.send(&page(site, ""), &fields)?.expect(200)?;
    let text = answer.text();
    let path = text.split("src=\"").filter_map(|rest| rest.split('"').next());
    let path = path.into_iter().find(|path| path.starts_with("/pictures-sympa/"));
    let path = path.ok_or_else(|| answer.wrong("no picture"))?;
    let received = client.get(&site.url(path))?.expect(200)?;
    if received.body != sent || received.field("content-type") != Some("image/png") {
        return Err(received.wrong("the picture has changed"));
    }
    println!("uploaded: {path}");
    Ok(())
}
