use super::*;

fn header() -> RecordingHeader {
    RecordingHeader { recording: VERSION, policy: "none".into(), cpus: vec![4, 5], lost: 2 }
}

fn event(handler: &str, core: u32, start_ns: u64) -> RecordedEvent {
    let (color, posted_ns, run_ns) = (7, start_ns.saturating_sub(10), 5);
    RecordedEvent {
        handler: handler.into(),
        color,
        core,
        posted_ns,
        start_ns,
        run_ns,
        by: None,
        moved_from: None,
    }
}

#[test]
fn events_are_sorted_and_posters_found() {
    let events = vec![
        ((1, 0), Some((0, 9)), event("write", 1, 300)),
        ((0, 9), None, event("read", 0, 100)),
        ((0, 10), Some((0, 3)), event("orphan", 0, 200)),
        ((1, 1), Some((1, 2)), event("before its poster", 1, 310)),
        ((1, 2), None, event("late", 1, 320)),
    ];
    let recording = Recording::assemble(header(), events);
    let posters: Vec<_> = recording.events.iter().map(|event| (event.handler.as_str(), event.by)).collect();
    let expected =
        [("read", None), ("orphan", None), ("write", Some(0)), ("before its poster", None), ("late", None)];
    assert_eq!(posters, expected);
}

#[test]
fn written_recording_reads_back() {
    let moved = RecordedEvent { moved_from: Some(0), ..event("write", 1, 300) };
    let events = vec![((0, 9), None, event("re\"ad", 0, 100)), ((1, 0), Some((0, 9)), moved)];
    let recording = Recording::assemble(header(), events);
    assert_eq!(Recording::parse(&recording.to_text()), Ok(recording));
}

#[test]
fn recordings_beside_each_other_keep_their_posters() {
    let serving = vec![((0, 0), None, event("read", 0, 100)), ((1, 0), Some((0, 0)), event("write", 1, 300))];
    let moved = RecordedEvent { moved_from: Some(0), ..event("step", 1, 250) };
    let idle = vec![((0, 0), None, event("ask", 0, 200)), ((1, 0), Some((0, 0)), moved)];
    let both = Recording::assemble(header(), serving).beside(Recording::assemble(header(), idle));
    let events: Vec<_> =
        both.events.iter().map(|event| (event.handler.as_str(), event.core, event.by)).collect();
    assert_eq!(events, [("read", 0, None), ("ask", 2, None), ("step", 3, Some(1)), ("write", 1, Some(0))]);
    assert_eq!(both.events[2].moved_from, Some(2));
    assert_ne!(both.events[0].color, both.events[1].color);
    assert_eq!((both.header.cpus, both.header.lost), (vec![4, 5, 4, 5], 4));
}

#[test]
fn the_form_is_the_one_on_the_page() {
    let recording = Recording::assemble(
        header(),
        vec![
            ((0, 0), None, event("read", 0, 100)),
            ((1, 0), Some((0, 0)), RecordedEvent { moved_from: Some(0), ..event("write", 1, 300) }),
        ],
    );
    let expected = concat!(
        "{\"recording\":1,\"policy\":\"none\",\"cpus\":[4,5],\"lost\":2}\n",
        "{\"handler\":\"read\",\"color\":7,\"core\":0,\"posted_ns\":90,\"start_ns\":100,\"run_ns\":5}\n",
        "{\"handler\":\"write\",\"color\":7,\"core\":1,\"posted_ns\":290,\"start_ns\":300,\"run_ns\":5,\"by\":0,",
        "\"moved_from\":0}\n",
    );
    assert_eq!(recording.to_text(), expected);
}

#[test]
fn mistakes_are_named_with_their_line() {
    let good = Recording::assemble(
        header(),
        vec![((0, 0), None, event("read", 0, 100)), ((1, 0), Some((0, 0)), event("write", 1, 300))],
    )
    .to_text();
    let message = |text: &str| Recording::parse(text).expect_err(text).to_string();
    assert!(message("").contains("line 1: there is no header"));
    assert!(message("nonsense").contains("line 1: the header"));
    // Regression: a line that was cut off had two line numbers.
    let said = message(&good[..good.len() - 5]);
    assert!(
        said.contains("EOF while parsing") && said.contains(" at column ") && !said.contains("at line"),
        "{said}"
    );
    assert!(message(&good.replace("\"recording\":1", "\"recording\":9")).contains("version 9"));
    assert!(message(&good.replace("\"by\":0", "\"by\":1")).contains("line 3: was posted by"));
    assert!(message(&good.replace("\"core\":1", "\"core\":2")).contains("line 3: there is no such core"));
    assert!(message(&good.replace("\"start_ns\":300", "\"start_ns\":50")).contains("line 3: starts before"));
    assert!(message(&good.replace("\"color\"", "\"colour\"")).contains("line 2: unknown field"));
}

/// Regression: `vermeil sim show` refused a recording whose last line a full disk had cut off.
#[test]
fn events_above_cut_line_are_kept() {
    let whole = Recording::assemble(
        header(),
        vec![((0, 0), None, event("read", 0, 100)), ((1, 0), Some((0, 0)), event("write", 1, 300))],
    );
    let text = whole.to_text();
    assert_eq!(Recording::parse_until_cut(&text), Ok((whole.clone(), None)));
    let begins: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in begins[1] + 1..begins[2] - 1 {
        let (kept, cut) = Recording::parse_until_cut(&text[..end]).expect("a recording");
        assert_eq!(kept.events, whole.events[..1]);
        assert!(cut.is_some_and(|cut| cut.to_string().contains("line 3: EOF")), "{end}");
    }
    // A line that ends is not cut off, so its error is a mistake.
    assert!(Recording::parse_until_cut(&format!("{}\n", &text[..text.len() - 5])).is_err());
    assert!(Recording::parse_until_cut(&text[..begins[0] - 5]).is_err());
}
