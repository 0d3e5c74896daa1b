//! Parts of files, on each way to send, compared byte by byte.

use crate::support::{Io, Response, TestClient, TestServer, TestSite, noise, on_both, on_usual};

on_both! {
    one_range_gives_its_bytes,
    several_ranges_give_their_bytes,
}

on_usual! {
    unsatisfiable_range_is_a_416,
    too_many_or_malformed_ranges_get_the_whole,
}

/// Kept in memory and copied; kept in memory and gathered; sent from the page cache.
const FILES: [(&str, usize); 3] = [("/small.txt", 1000), ("/mid.bin", 60_000), ("/large.bin", 3_000_000)];

fn served(io: Io) -> (TestServer, TestClient, TestSite) {
    let site = TestSite::new();
    for (name, len) in FILES {
        site.write(&name[1..], &noise(len as u64, len));
    }
    let server = TestServer::start(io, &site, &[]);
    let client = server.client();
    (server, client, site)
}

fn ask(client: &mut TestClient, target: &str, ranges: &str) -> Response {
    client.get_with(target, &[&format!("Range: bytes={ranges}")])
}

fn one_range_gives_its_bytes(io: Io) {
    let (server, mut client, _site) = served(io);
    for (target, len) in FILES {
        let content = noise(len as u64, len);
        let whole = client.get(target);
        assert_eq!(whole.field("accept-ranges"), "bytes");
        for (ranges, start, end) in [
            ("0-0".to_owned(), 0, 1),
            ("10-499".to_owned(), 10, 500),
            ("-1".to_owned(), len - 1, len),
            ("-300".to_owned(), len - 300, len),
            (format!("-{}", len + 1), 0, len),
            ("1-".to_owned(), 1, len),
            (format!("{}-", len - 1), len - 1, len),
            (format!("5-{}", len * 2), 5, len),
            (format!("{}-{}", len / 2, len / 2 + len / 4), len / 2, len / 2 + len / 4 + 1),
        ] {
            let part = ask(&mut client, target, &ranges);
            assert_eq!(part.status, 206, "{target} {ranges}");
            assert_eq!(part.field("content-range"), format!("bytes {start}-{}/{len}", end - 1));
            assert!(part.body == content[start..end], "{target} {ranges}");
            assert_eq!(part.field("etag"), whole.field("etag"));
            assert_eq!(part.field("content-type"), whole.field("content-type"));
        }
        // RFC 9110 defines ranges for GET only.
        assert_eq!(client.request("HEAD", target, &["Range: bytes=0-0"]).status, 200);
    }
    server.stops_clean();
}

/// Splits a multipart body into the `Content-Range` and the bytes of each part; strict.
fn parts(response: &Response) -> Vec<(String, String, Vec<u8>)> {
    let media_type = response.field("content-type");
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").expect(media_type);
    let mut rest = &response.body[..];
    let mut parts = Vec::new();
    loop {
        let delimiter = format!("\r\n--{boundary}");
        // The first delimiter needs no preceding line end.
        let delimiter = delimiter.as_bytes();
        let skip = if parts.is_empty() && !rest.starts_with(b"\r\n") { 2 } else { 0 };
        rest = rest.strip_prefix(&delimiter[skip..]).expect("a delimiter");
        if let Some(end) = rest.strip_prefix(b"--") {
            assert_eq!(end, b"\r\n");
            return parts;
        }
        rest = rest.strip_prefix(b"\r\n").expect("a line end");
        let head_len = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a part's head");
        let head = std::str::from_utf8(&rest[..head_len]).unwrap();
        let field = |name: &str| {
            let line = head.split("\r\n").find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().to_owned()
        };
        let range = field("Content-Range:");
        let (start, end) = range["bytes ".len()..].split_once('/').unwrap().0.split_once('-').unwrap();
        let len = end.parse::<usize>().unwrap() + 1 - start.parse::<usize>().unwrap();
        rest = &rest[head_len + 4..];
        parts.push((range.clone(), field("Content-Type:"), rest[..len].to_vec()));
        rest = &rest[len..];
    }
}

fn several_ranges_give_their_bytes(io: Io) {
    let (server, mut client, _site) = served(io);
    for (target, len) in FILES {
        let content = noise(len as u64, len);
        let media_type = client.get(target).field("content-type").to_owned();
        let middle = len / 2;
        for (ranges, wanted) in [
            ("0-9,100-199".to_owned(), vec![(0, 10), (100, 200)]),
            ("500-509, 0-0, -1".to_owned(), vec![(500, 510), (0, 1), (len - 1, len)]),
            (format!("0-{},{}-", len / 4, middle), vec![(0, len / 4 + 1), (middle, len)]),
            // The second range lies beyond the end and is omitted.
            (format!("0-4,300-304,{}-", len + 5), vec![(0, 5), (300, 305)]),
        ] {
            let response = ask(&mut client, target, &ranges);
            assert_eq!((response.status, response.get("content-range")), (206, None), "{target} {ranges}");
            let parts = parts(&response);
            assert_eq!(parts.len(), wanted.len(), "{target} {ranges}");
            for ((range, part_type, bytes), (start, end)) in parts.iter().zip(wanted) {
                assert_eq!(*range, format!("bytes {start}-{}/{len}", end - 1));
                assert_eq!(*part_type, media_type);
                assert!(*bytes == content[start..end], "{target} {ranges}: {range}");
            }
        }
    }
    server.stops_clean();
}

fn unsatisfiable_range_is_a_416(io: Io) {
    let (server, mut client, site) = served(io);
    for (target, len) in FILES {
        for ranges in [format!("{len}-"), format!("{}-{}", len + 1, len + 2), "-0".to_owned()] {
            let response = ask(&mut client, target, &ranges);
            assert_eq!(response.status, 416, "{target} {ranges}");
            assert_eq!(response.field("content-range"), format!("bytes */{len}"));
        }
        assert_eq!(client.get(target).body.len(), len);
    }
    // An empty file has no byte to ask for, so the server sends the whole.
    site.write("empty", b"");
    assert_eq!(ask(&mut client, "/empty", "0-").status, 200);
    server.stops_clean();
}

fn too_many_or_malformed_ranges_get_the_whole(io: Io) {
    let (server, mut client, _site) = served(io);
    let too_many = (0..17).map(|index| format!("{0}-{0}", index * 2)).collect::<Vec<_>>().join(",");
    for (target, len) in FILES {
        for field in [
            &format!("bytes={too_many}"),
            "bytes=5-4",
            "bytes=a-b",
            "bytes=",
            "lines=1-2",
            "bytes=-",
            "bytes 0-1",
        ] {
            let response = client.get_with(target, &[&format!("Range: {field}")]);
            assert_eq!((response.status, response.body.len()), (200, len), "{target} {field}");
        }
    }
    server.stops_clean();
}
