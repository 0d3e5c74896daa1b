//! Access logs as load: the same requests in the same order, when they came.
//!
//! Reads the common and the combined log format. Their times are whole seconds: requests of one second are spread over it
//! evenly. Only what can be asked again is: GET and HEAD lines, the former as they are, the latter as GET. Tested here.

use std::time::Duration;

use crate::pace::Arrivals;

/// An access log, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// What is asked for: each path once.
    pub targets: Vec<String>,
    /// Which of them each arrival is for.
    pub order: Vec<u32>,
    /// Lines that were passed over: other methods, and what is no line of a log.
    pub skipped: usize,
}

/// Reads a log; `speed` is how many times as fast it is replayed.
///
/// # Errors
/// No line can be replayed.
pub fn replay(log: &str, speed: f64) -> Result<Replay, String> {
    let mut requests: Vec<(i64, &str)> = log.lines().filter_map(request).collect();
    let skipped = log.lines().count() - requests.len();
    // Servers log when a request ends; lines of one second may stand in any order, and some come late.
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
    let mut places = std::collections::HashMap::new();
    let (mut targets, mut order) = (Vec::new(), Vec::with_capacity(requests.len()));
    for (_, target) in requests {
        let place = *places.entry(target).or_insert_with(|| {
            targets.push(target.to_owned());
            targets.len() as u32 - 1
        });
        order.push(place);
    }
    Ok(Replay { arrivals: Arrivals::Recorded(times.into()), targets, order, skipped })
}

/// Second since 1970 and path of a line, if it can be asked again.
fn request(line: &str) -> Option<(i64, &str)> {
    let (_, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, _) = rest.split_once('"')?;
    let mut words = request.split(' ');
    let is_asked = matches!(words.next()?, "GET" | "HEAD");
    let target = words.next().filter(|target| target.starts_with('/') && is_asked)?;
    let is_sent = |byte: u8| byte > b' ' && byte < 0x7F;
    Some((seconds(time)?, target)).filter(|_| target.bytes().all(is_sent))
}

/// `10/Oct/2000:13:55:36 -0700` as seconds since 1970.
fn seconds(time: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, zone) = time.split_once(' ')?;
    let mut parts = date.split(['/', ':']);
    let mut next = || parts.next();
    let day: i64 = next()?.parse().ok()?;
    let month = next()?;
    let month = MONTHS.iter().position(|&name| name == month)? as i64 + 1;
    let year: i64 = next()?.parse().ok()?;
    let [hour, minute, second] = [next()?, next()?, next()?].map(|text| text.parse::<i64>().ok());
    let (sign, zone) = (if zone.starts_with('-') { -1 } else { 1 }, zone.trim_start_matches(['+', '-']));
    let zone: i64 = zone.parse().ok()?;
    let zone_seconds = sign * (zone / 100 * 3600 + zone % 100 * 60);
    Some(days(year, month, day) * 86_400 + hour? * 3600 + minute? * 60 + second? - zone_seconds)
}

/// Days since 1970 of a date of the Gregorian calendar: years begin in March, so that the leap day comes last.
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
        assert_eq!(seconds("29/Foo/2024:12:00:00 +0000"), None);
    }

    #[test]
    fn a_log_is_replayed_in_order_and_time() {
        let log = concat!(
            "1.1.1.1 - - [10/Oct/2000:13:55:38 +0000] \"GET /b?c HTTP/1.1\" 200 5 \"-\" \"x\"\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 5\n",
            "1.1.1.1 - u [10/Oct/2000:13:55:36 +0000] \"HEAD /b?c HTTP/1.0\" 200 -\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:37 +0000] \"POST /a HTTP/1.1\" 200 5\n",
            "nonsense\n",
            "1.1.1.1 - - [10/Oct/2000:13:55:37 +0000] \"-\" 408 0\n",
        );
        let replay = replay(log, 2.0).unwrap();
        assert_eq!((replay.targets.join(" "), replay.skipped), ("/a /b?c".to_owned(), 3));
        assert_eq!(replay.order, [0, 1, 1]);
        let times = [0.0, 0.25, 1.0].map(Duration::from_secs_f64);
        assert_eq!(replay.arrivals, Arrivals::Recorded(times.into()));
        assert!(super::replay("nonsense\n", 1.0).is_err());
    }
}
