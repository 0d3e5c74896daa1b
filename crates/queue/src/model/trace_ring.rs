//! A reader reads a ring while the owner writes: no record mixes two records.

use crate::TraceRing;
use loom::thread;
use std::sync::Arc;

#[test]
fn ring_reader_sees_whole_records() {
    loom::model(|| {
        let ring = Arc::new(TraceRing::<2>::new(2));
        let reader = ring.clone();
        let thread = thread::spawn(move || {
            let (first, records) = reader.recent();
            for (number, record) in (first..).zip(records) {
                assert_eq!(record, [number + 1; 2]);
            }
        });
        (1..4).for_each(|value| ring.push([value, value]));
        thread.join().unwrap();
        assert_eq!(ring.recent(), (2, vec![[3, 3]]));
    });
}
