//! The output of a program before its document: read at once or byte by byte, the same answer or
//! the same rejection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::gateway::{HeadLimits, HeadReader};

fuzz_target!(|output: &[u8]| {
    let whole = HeadReader::new(HeadLimits::default()).read(output);
    let mut reader = HeadReader::new(HeadLimits::default());
    let decided =
        (0..=output.len()).map(|len| reader.read(&output[..len])).find(|read| !matches!(read, Ok(None)));
    assert_eq!(decided.unwrap_or(Ok(None)), whole);
});
