//! Access logs as load: the same requests in the same order, at their recorded times.
//!
//! Reads the common and the combined log format. Log times are whole seconds, so the requests of a
//! second are spread evenly over the second. Methods, targets and the version HTTP/1.0 are sent as
//! logged, with escapes decoded: `\xHH` of Vermeil and nginx, and the short escapes of Apache
//! (`\"`, `\\`, `\t`, …). A log contains no bodies. Lines without a complete, sendable request line
//! are skipped and counted. Tested here, and on the server's own log in `crates/e2e/tests/load.rs`.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::uri::PathAndQuery;

use crate::pace::Arrivals;
use crate::plan::Logged;
use crate::protocol::Protocol;

/// A parsed access log.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Arrival times of the requests.
    pub arrivals: Arrivals,
    /// The distinct requests.
    pub requests: Vec<Logged>,
    /// For each arrival, the index into `requests`.
    pub order: Vec<u32>,
    /// Number of skipped lines: not in a log format, or without a request that the protocol can
    /// carry.
    pub skipped: usize,
}

/// Parses a log, for a replay over `protocol`; `speed` is the replay speed as a multiple of the
/// recorded speed.
///
/// # Errors
/// No line can be replayed.
pub fn replay(log: &[u8], speed: f64, protocol: Protocol) -> Result<Replay, String> {
    let lines = || log.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let carries = |(_, logged): &(i64, Logged)| match protocol {
        Protocol::Http1 => true,
        Protocol::Http2 => is_http2_path(&logged.target),
    };
    let mut requests: Vec<(i64, Logged)> = lines().filter_map(request).filter(carries).collect();
    let skipped = lines().count() - requests.len();
    // Servers log a request at its end, so the lines are not sorted by time.
    requests.sort_by_key(|(second, _)| *second);
    let Some(&(first, _)) = requests.first() else {
        return Err(
            "the log has no line such as: 1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5"
                .into(),
        );
    };
    let mut times = Vec::with_capacity(requests.len());
    for second in requests.chunk_by(|one, other| one.0 == other.0) {
        for index in 0..second.len() {
            let at = (second[0].0 - first) as f64 + index as f64 / second.len() as f64;
            times.push(Duration::from_secs_f64(at / speed));
        }
    }
    let mut places = HashMap::new();
    let (mut different, mut order) = (Vec::new(), Vec::with_capacity(requests.len()));
    for (_, request) in requests {
        let place = *places.entry(request.clone()).or_insert_with(|| {
            different.push(request);
            different.len() as u32 - 1
        });
        order.push(place);
    }
    Ok(Replay { arrivals: Arrivals::Recorded(times.into()), requests: different, order, skipped })
}

/// The time in seconds since 1970 and the request of a line, if the request can be sent again.
fn request(line: &[u8]) -> Option<(i64, Logged)> {
    let (_, rest) = split(line, b" [")?;
    let (time, rest) = split(rest, b"] \"")?;
    let (request, rest) = quoted(rest)?;
    let mut words = request.split(|&byte| byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_sent = |byte: &u8| *byte > b' ' && *byte != 0x7F;
    let is_whole = words.next().is_none()
        && version.starts_with(b"HTTP/")
        && !method.is_empty()
        && method.iter().all(is_token)
        && !target.is_empty()
        && target.iter().all(is_sent)
        // The server truncated the field.
        && !target.ends_with(b"\\...");
    let status = rest.trim_ascii_start().split(|&byte| byte == b' ').next().and_then(text);
    let logged = Logged {
        method: text(method)?.to_owned(),
        target: target.to_vec(),
        is_old: version == b"HTTP/1.0",
        status: status.and_then(|status| status.parse().ok()).filter(|status| *status >= 400),
    };
    Some((seconds(text(time)?)?, logged)).filter(|_| is_whole)
}

/// Whether a target can be the `:path` of an HTTP/2 request, as logged. A `#` would begin a
/// fragment, which no request has.
fn is_http2_path(target: &[u8]) -> bool {
    target.starts_with(b"/") && !target.contains(&b'#') && PathAndQuery::try_from(target).is_ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The bytes before and after the first `mark`.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

/// A field up to the closing quote, with escapes decoded, and the rest of the line. A backslash
/// that begins no known escape is kept as a backslash.
fn quoted(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut field, mut rest) = (Vec::new(), bytes);
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return Some((field, rest)),
            [b'\\', b'x' | b'X', high, low, rest @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digits = [*high, *low];
                field.push(u8::from_str_radix(text(&digits)?, 16).ok()?);
                rest
            }
            [b'\\', escape @ (b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'v'), rest @ ..] => {
                field.push(match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'v' => 11,
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                field.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

/// Converts `10/Oct/2000:13:55:36 -0700` to seconds since 1970.
fn seconds(time: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, zone) = time.split_once(' ')?;
    let mut parts = date.split(['/', ':']);
    let mut next = || parts.next();
    let number = |text: &str, bounds: RangeInclusive<u16>| {
        text.parse().ok().filter(|number| bounds.contains(number)).map(i64::from)
    };
    let day = number(next()?, 1..=31)?;
    let month = next()?;
    let month = MONTHS.iter().position(|&name| name == month)? as i64 + 1;
    let year = number(next()?, 0..=9999)?;
    let hour = number(next()?, 0..=23)?;
    let minute = number(next()?, 0..=59)?;
    // 60 is a leap second.
    let second = number(next()?, 0..=60)?;
    let (sign, zone) = (if zone.starts_with('-') { -1 } else { 1 }, zone.trim_start_matches(['+', '-']));
    let zone = number(zone, 0..=9999)?;
    let zone_seconds = sign * (zone / 100 * 3600 + zone % 100 * 60);
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_seconds)
}

/// Days from 1970 to a Gregorian date. Years begin in March, so the leap day is the last day of a
/// year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        assert_eq!(seconds("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(seconds("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(seconds("29/Feb/2024:12:00:00 +0130"), Some(1_709_202_600));
        // Regression: the last of these was a panic.
        for wrong in [
            "29/Foo/2024:12:00:00 +0000",
            "32/Oct/2024:12:00:00 +0000",
            "29/Feb/2024:-12:00:00 +0000",
            "29/Feb/2024:24:00:00 +0000",
            "29/Feb/2024:12:00:00 +999999999",
            "29/Feb/9223372036854775807:12:00:00 +0000",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    fn log_of(requests: &[&str]) -> Vec<u8> {
        let line = |request: &&str| {
            format!("1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] \"{request}\" 200 5 \"-\" \"x\"\n")
        };
        requests.iter().map(line).collect::<String>().into_bytes()
    }

    fn read(request: &str) -> Option<(String, Vec<u8>, bool)> {
        let replay = replay(&log_of(&[request]), 1.0, Protocol::Http1).ok()?;
        let Logged { method, target, is_old, .. } = replay.requests[0].clone();
        Some((method, target, is_old))
    }

    #[test]
    fn a_log_is_replayed_in_order_and_time() {
        let log = concat!(
            "1.1.1.1 - - [10/Oct/2000:13:55:38 +0000] \"GET /b?c HTTP/1.1\" 200 5 \"-\" \"x\"\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 5\n",
            "1.1.1.1 - u [10/Oct/2000:13:55:36 +0000] \"HEAD /b?c HTTP/1.0\" 200 -\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:37 +0000] \"POST /a HTTP/1.1\" 404 5\n",
            "nonsense\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:37 +0000] \"-\" 408 0\n",
        );
        let replay = replay(log.as_bytes(), 2.0, Protocol::Http1).unwrap();
        let line = |logged: &Logged| String::from_utf8(logged.line()).unwrap().trim_end().to_owned();
        let lines: Vec<_> = replay.requests.iter().map(line).collect();
        assert_eq!(lines, ["GET /a HTTP/1.1", "HEAD /b?c HTTP/1.0", "POST /a HTTP/1.1", "GET /b?c HTTP/1.1"]);
        assert_eq!((replay.order, replay.skipped), (vec![0, 1, 2, 3], 2));
        let statuses: Vec<_> = replay.requests.iter().map(|logged| logged.status).collect();
        assert_eq!(statuses, [None, None, Some(404), None]);
        let times = [0.0, 0.25, 0.5, 1.0].map(Duration::from_secs_f64);
        assert_eq!(replay.arrivals, Arrivals::Recorded(times.into()));
        assert!(super::replay(b"nonsense\n", 1.0, Protocol::Http1).is_err());
    }

    /// Regression: a line with another target, such as that of a scanner, refused the whole log.
    #[test]
    fn target_that_http2_cannot_carry_is_skipped() {
        let carried = ["/page?x=\u{e9}", "/%41", "//b"];
        let others = ["*", "http://a/b", "a:443", "/a#b", r"/a\xFFb", "/a<b"];
        let lines: Vec<String> =
            carried.iter().chain(&others).map(|target| format!("GET {target} HTTP/1.1")).collect();
        let log = log_of(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(replay(&log, 1.0, Protocol::Http1).unwrap().skipped, 0);
        let replay = replay(&log, 1.0, Protocol::Http2).unwrap();
        let targets: Vec<_> = replay.requests.iter().map(|logged| logged.target.as_slice()).collect();
        assert_eq!((targets, replay.skipped), (carried.map(str::as_bytes).to_vec(), others.len()));
        let plan = crate::SimplePlan {
            protocol: Protocol::Http2,
            logged: Some(replay.requests),
            ..crate::SimplePlan::new("http://127.0.0.1:1/".parse().unwrap())
        };
        assert!(crate::simple::prepare_simple(&plan).is_ok());
    }

    /// The log has the escape of a quote; the request had the four characters of the escape.
    #[test]
    fn escapes_are_decoded() {
        let target = |target: &str| read(&format!("GET {target} HTTP/1.1")).map(|(_, target, _)| target);
        assert_eq!(target(r"/six\x22q").unwrap(), b"/six\"q");
        assert_eq!(target(r"/a\x5Cb\xC3\xA9").unwrap(), b"/a\\b\xC3\xA9");
        assert_eq!(target(r#"/apache\"\\"#).unwrap(), b"/apache\"\\");
        assert_eq!(target("*").unwrap(), b"*");
        assert_eq!(target("http://a/b").unwrap(), b"http://a/b");
        assert_eq!(target(r"/a\x0Ab"), None, "a line end cannot be sent in a target");
        assert_eq!(target(r"/cut\..."), None);
    }

    #[test]
    fn line_without_request_is_skipped() {
        for request in [
            "-",
            "",
            "GET",
            "GET /a",
            "GET /a b HTTP/1.1",
            r"\x16\x03\x01",
            "G@T /a HTTP/1.1",
            "GET  HTTP/1.1",
        ] {
            assert_eq!(read(request), None, "{request}");
        }
        assert_eq!(read("DELETE /a HTTP/1.0").unwrap(), ("DELETE".to_owned(), b"/a".to_vec(), true));
        assert_eq!(read("PROPFIND /a HTTP/2.0").unwrap(), ("PROPFIND".to_owned(), b"/a".to_vec(), false));
    }
}
