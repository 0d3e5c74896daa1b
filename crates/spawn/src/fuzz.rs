//! Messages between a server and the keeper and spawner, read from any bytes: for the fuzz targets
//! (`fuzz/targets`).

use crate::{
    keeper_messages::Verdict,
    profile::Profile,
    reply::Reply,
    request::{Content, Message, arguments, variables},
    wire::{Reader, Writer},
};

/// Reads `bytes` as every kind of message. A message that is understood keeps its meaning when it
/// is written and read again.
///
/// # Panics
///
/// When the meaning changes.
pub fn read(bytes: &[u8]) {
    if let Ok(Message { content: Content::Start(order), .. }) = Message::read(bytes) {
        let _ = arguments(order.strings()).count() + variables(order.strings()).count();
    }
    let _ = (Reply::from_bytes(bytes), Verdict::from_bytes(bytes));
    if let Ok(profile) = Profile::read(&mut Reader::new(bytes)) {
        let mut written = Writer::default();
        profile.write(&mut written);
        let written = written.into_bytes();
        let again = Profile::read(&mut Reader::new(&written)).expect("it was just written");
        assert_eq!(again, profile);
    }
}
