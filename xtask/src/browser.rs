//! A headless Chromium, controlled over a pair of pipes (the DevTools protocol, messages that end
//! with a zero byte on descriptors 3 and 4).
//!
//! Knows pages, expressions, typed text and pictures of pages; leaves out their use. Waits for a
//! condition of the page, with a deadline.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::steps::run_command;

/// Maximum time of any operation on a page: far more than necessary on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the checks of a page.
const LOOK: Duration = Duration::from_millis(50);

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next_id: u64,
    session: Option<String>,
}

impl Browser {
    /// Starts the browser, with all its files in `folder`. The browser trusts the certificate whose
    /// public key has this digest.
    pub(crate) fn start(program: &Path, folder: &Path, trusted: Option<&str>) -> Result<Self> {
        // The browser's pipes are this process's pipes to the shell, moved.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(program);
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]);
        // A container has neither the rights for the browser's sandbox nor much shared memory.
        command.args(["--no-sandbox", "--disable-dev-shm-usage", "--window-size=1100,800"]);
        command.args(trusted.map(|digest| format!("--ignore-certificate-errors-spki-list={digest}")));
        command.arg(format!("--user-data-dir={}", folder.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(Error::path("start", program))?;
        let to = process.stdin.take().expect("piped");
        let mut answers = BufReader::new(process.stdout.take().expect("piped"));
        let (say, from) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && say.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self { process, to, from, next_id: 0, session: None };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let session =
            browser.ask("Target.attachToTarget", attached)?["sessionId"].as_str().map(str::to_owned);
        browser.session = session;
        Ok(browser)
    }

    /// The answer to a command.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next_id += 1;
        let mut message = json!({ "id": self.next_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let lost = |_| Error::form("Chromium", "it ended");
        self.to.write_all(&[message.to_string().as_bytes(), b"\0"].concat()).map_err(lost)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.from.recv_timeout(left);
            let mut answer = answer.map_err(|_| Error::form("Chromium", format!("{method}: no answer")))?;
            // Other messages are events.
            if answer["id"] == self.next_id {
                return match answer.get("error") {
                    Some(error) => Err(Error::form("Chromium", format!("{method}: {error}"))),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }

    /// Goes to a page.
    pub(crate) fn go(&mut self, address: &str) -> Result<()> {
        let answer = self.ask("Page.navigate", json!({ "url": address }))?;
        match answer.get("errorText") {
            Some(error) => Err(Error::form(address, error)),
            None => Ok(()),
        }
    }

    /// The value of an expression on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(Error::form(expression, details)),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true on a page that is complete.
    pub(crate) fn until(&mut self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let complete = format!("document.readyState == 'complete' && Boolean({expression})");
        // While a page is being replaced, queries fail.
        while !matches!(self.value(&complete), Ok(Value::Bool(true))) {
            if Instant::now() > deadline {
                let shown = self.value("document.title + ': ' + document.body.innerText.slice(0, 500)");
                let shown = shown.map(|shown| shown.to_string()).unwrap_or_default();
                return Err(Error::form(expression, format!("it never became true on {shown}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Types text into the element `selector`, in place of the former text. A script of the page
    /// may move the focus in between, so the text is compared, and typed again if it is elsewhere.
    pub(crate) fn type_into(&mut self, selector: &str, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.value(&format!(
                "{{ let e = document.querySelector('{selector}'); e.focus(); e.select(); }}"
            ))?;
            self.insert(text)?;
            if self.value(&format!("document.querySelector('{selector}').value"))? == text {
                return Ok(());
            }
        }
        Err(Error::form(selector, "the text does not stay there"))
    }

    /// Types text into the element that has the focus.
    pub(crate) fn insert(&mut self, text: &str) -> Result<()> {
        self.ask("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Presses the key that ends a line.
    pub(crate) fn press_enter(&mut self) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let params = json!({
                "type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13
            });
            self.ask("Input.dispatchKeyEvent", params)?;
        }
        Ok(())
    }

    /// Clicks on the element `selector`.
    pub(crate) fn click(&mut self, selector: &str) -> Result<()> {
        let place = self.steady_place(selector)?;
        for kind in ["mousePressed", "mouseReleased"] {
            let params =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", params)?;
        }
        Ok(())
    }

    /// The middle of the element `selector`, after two looks found the element at the same place
    /// and uncovered. A script that loads late moves elements, and a click in between gets lost.
    fn steady_place(&mut self, selector: &str) -> Result<Value> {
        let place = format!(
            "(() => {{ let e = document.querySelector('{selector}'); \
             e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             let r = e.getBoundingClientRect(); let [x, y] = [r.x + r.width / 2, r.y + r.height / 2]; \
             return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null }})()"
        );
        let deadline = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        while Instant::now() < deadline {
            let now = self.value(&place)?;
            if !now.is_null() && now == last {
                return Ok(now);
            }
            last = now;
            thread::sleep(LOOK);
        }
        Err(Error::form(selector, "the element moves, or another element covers it"))
    }

    /// Gives the page a window of this size, with a pixel of the picture for each of its points.
    pub(crate) fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size).map(drop)
    }

    /// Writes a picture of the page to a file, as PNG.
    pub(crate) fn keep_picture(&mut self, picture: &Path) -> Result<()> {
        let answer = self.ask("Page.captureScreenshot", json!({ "format": "png" }))?;
        let base64 = picture.with_extension("base64");
        fs::write(&base64, answer["data"].as_str().unwrap_or_default())
            .map_err(Error::path("write", &base64))?;
        let file = fs::File::create(picture).map_err(Error::path("create", picture))?;
        run_command(Command::new("base64").arg("-d").arg(&base64).stdout(file))?;
        fs::remove_file(&base64).map_err(Error::path("remove", &base64))?;
        println!("a picture of the page: {}", picture.display());
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        // The browser ends all its processes on request.
        if self.ask("Browser.close", json!({})).is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
