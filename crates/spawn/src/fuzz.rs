//! Messages between a server and the keeper and spawner, read from any bytes: for the fuzz targets
//! (`fuzz/targets`).

use crate::{
    keeper_messages::ProfileVerdict,
    profile::Profile,
    reply::Reply,
    request::{SpawnContent, SpawnMessage, arguments, variables},
    wire::{WireReader, WireWriter},
};

/// Reads `bytes` as every kind of message. A message that is understood keeps its meaning when it
/// is written and read again.
///
/// # Panics
///
/// When the meaning changes.
pub fn read(bytes: &[u8]) {
    if let Ok(SpawnMessage { content: SpawnContent::Start(order), .. }) = SpawnMessage::read(bytes) {
        let _ = arguments(order.strings()).count() + variables(order.strings()).count();
    }
    let _ = (Reply::from_bytes(bytes), ProfileVerdict::from_bytes(bytes));
    if let Ok(profile) = Profile::read(&mut WireReader::new(bytes)) {
        let mut written = WireWriter::default();
        profile.write(&mut written);
        let written = written.into_bytes();
        let again = Profile::read(&mut WireReader::new(&written)).expect("it was just written");
        assert_eq!(again, profile);
    }
}
