//! `cargo xtask pictures`: a page of a report as the pictures in `docs/img`, drawn by Chromium.
//!
//! Makes two pictures of the page from its first figure on, on a wide window and on a phone, and
//! refuses a picture that is too large for the repository. Leaves out the page, which `vermeil
//! scale` or another command writes.

use std::fs;
use std::path::PathBuf;

use vermeil_bench::peers::find_program;

use crate::browser::Browser;
use crate::error::{Error, Result};
use crate::workspace::Workspace;

/// The windows: a word in the picture's name, width and height.
const WINDOWS: [(&str, u32, u32); 2] = [("wide", 1000, 760), ("phone", 390, 844)];

/// The greatest size of a picture in the repository.
const PICTURE_BYTES_MAX: u64 = 150 << 10;

/// The arguments of `pictures`.
#[derive(Debug, clap::Args)]
pub(crate) struct PicturesArgs {
    /// The page, for example of `vermeil scale --form html`.
    page: PathBuf,
    /// The name of the pictures: NAME-wide.png and NAME-phone.png.
    name: String,
}

/// Runs the command.
pub(crate) fn run(args: &PicturesArgs) -> Result<()> {
    let page = args.page.canonicalize().map_err(Error::path("find", &args.page))?;
    let chromium = find_program("chromium").ok_or_else(|| Error::form("chromium", "is not here"))?;
    let folder = tempfile::tempdir().map_err(Error::path("create", &std::env::temp_dir()))?;
    let mut browser = Browser::start(&chromium, folder.path(), None)?;
    let images = Workspace::load()?.root.join("docs/img");
    for (word, width, height) in WINDOWS {
        browser.resize(width, height)?;
        browser.go(&format!("file://{}", page.display()))?;
        browser.until("document.body.innerText != ''")?;
        // The text above the figures stands in the documentation.
        browser.value("document.querySelector('h2')?.scrollIntoView()")?;
        let picture = images.join(format!("{}-{word}.png", args.name));
        browser.keep_picture(&picture)?;
        let bytes = fs::metadata(&picture).map_err(Error::path("read", &picture))?.len();
        if bytes > PICTURE_BYTES_MAX {
            let problem = format!("{bytes} bytes, more than {PICTURE_BYTES_MAX}: make the window smaller");
            return Err(Error::form(picture.display(), problem));
        }
    }
    Ok(())
}
