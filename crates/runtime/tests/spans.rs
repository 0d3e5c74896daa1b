//! A subscriber of `tracing` sees every event in its own span, with the log messages of the event.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use vermeil::Runtime;

/// The seen spans and messages: the fields of each span by its number, and for each message the
/// span of its thread.
#[derive(Default)]
struct SeenSpans {
    numbers: AtomicU64,
    spans: Mutex<HashMap<u64, HashMap<&'static str, String>>>,
    logged: Mutex<Vec<(String, Option<u64>)>>,
}

thread_local! {
    static INSIDE: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

struct FieldVisitor<'a>(&'a mut HashMap<&'static str, String>);

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

struct Watcher(Arc<SeenSpans>);

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "vermeil" || metadata.target() == "program"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = HashMap::from([("span", span.metadata().name().to_owned())]);
        span.record(&mut FieldVisitor(&mut fields));
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.spans.lock().unwrap().insert(number, fields);
        Id::from_u64(number)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = HashMap::new();
        event.record(&mut FieldVisitor(&mut fields));
        let message = fields.remove("message").unwrap_or_default();
        self.0.logged.lock().unwrap().push((message, INSIDE.get()));
    }

    fn enter(&self, span: &Id) {
        assert_eq!(INSIDE.replace(Some(span.into_u64())), None, "events are not within each other");
    }

    fn exit(&self, span: &Id) {
        assert_eq!(INSIDE.take(), Some(span.into_u64()));
    }
}

#[test]
fn events_have_spans_that_contain_their_logs() {
    let seen = Arc::new(SeenSpans::default());
    tracing::subscriber::set_global_default(Watcher(seen.clone())).expect("the only one of this process");
    let runtime = Runtime::builder().build().expect("a runtime starts");
    let handle = runtime.handle();
    let color = handle.color();
    let greet = handle.handler("greet", |name: &str| {
        tracing::info!(target: "program", "hello {name}");
        assert!(name != "nobody", "planted");
    });
    greet.post(&color, "nobody").expect("there is room");
    greet.post(&color, "you").expect("there is room");
    handle
        .spawn_on(&color, async { tracing::info!(target: "program", "from a task") })
        .wait()
        .expect("the task ends");
    runtime.shutdown(Duration::from_secs(20));

    let spans = seen.spans.lock().unwrap();
    let within = |message: &str| {
        let logged = seen.logged.lock().unwrap();
        let (_, span) = logged.iter().find(|(said, _)| said == message).expect(message);
        spans[&span.expect("it was said in a span")].clone()
    };
    for (message, handler) in [
        ("hello nobody", "greet"),
        ("hello you", "greet"),
        ("from a task", "task spans::events_have_spans_that_contain_their_logs"),
    ] {
        let span = within(message);
        assert_eq!((span["span"].as_str(), span["handler"].as_str()), ("event", handler));
        assert_eq!(span["color"], color.id().0.to_string());
        assert!(span["core"].parse::<usize>().expect("a number") < handle.cores().len());
    }
}
