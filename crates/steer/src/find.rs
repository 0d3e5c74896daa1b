//! Locates a saved setting: the card may have another name by now, and the interrupt another
//! number.
//!
//! An interrupt is located by its [`InterruptOwner`]. A setting that is not found is gone, and
//! nothing is written in its place. Leaves out reading and writing (`setting.rs`). Tested here and
//! in `apply/tests/found.rs`.

use std::collections::BTreeMap;

use crate::interrupts::InterruptLine;
use crate::{InterruptOwner, Saved, Setting, Settings};

impl Saved {
    /// The setting with its present names; `None` if the setting is gone. `cards` are the indices
    /// of the saved settings' cards.
    pub(crate) fn setting_now(
        &self,
        settings: &dyn Settings,
        cards: &BTreeMap<String, u32>,
    ) -> Option<Setting> {
        if let Setting::Interrupt { irq, name } = &self.setting {
            let irq = match &self.owner {
                Some(owner) => owned(settings, *irq, name, owner)?,
                // Saved by an earlier version, without an owner.
                None => settings.interrupts().iter().find(|line| is_line(line, *irq, name))?.number,
            };
            return Some(Setting::Interrupt { irq, name: name.clone() });
        }
        let card = self.setting.nic().and_then(|nic| Some((nic, *cards.get(nic)?)));
        match card {
            Some((nic, number)) if settings.number_of(nic) != Some(number) => {
                Some(self.setting.clone().of_card(settings.name_of(number)?))
            }
            _ => Some(self.setting.clone()),
        }
    }
}

fn is_line(line: &InterruptLine, number: u32, name: &str) -> bool {
    line.number == number && line.name == name
}

/// The present number of the interrupt with this name, formerly `number`.
fn owned(settings: &dyn Settings, number: u32, name: &str, owner: &InterruptOwner) -> Option<u32> {
    // Without the card, an interrupt of that name belongs to another card.
    let renamed = renamed(name, &owner.nic, &settings.name_of(owner.index)?);
    let is_listed =
        |number| owner.device.as_deref().is_none_or(|device| settings.lists_interrupt(device, number));
    let mut same = settings.interrupts();
    same.retain(|line| (line.name == name || line.name == renamed) && is_listed(line.number));
    match &same[..] {
        // A card that is down releases the names, but not the numbers.
        [] => (owner.device.is_some() && is_listed(number) && settings.is_unused(number)).then_some(number),
        [one] => Some(one.number),
        _ => same.iter().find(|line| line.number == number).map(|line| line.number),
    }
}

/// The name of an interrupt after the card was renamed, because most drivers include the card's
/// name.
fn renamed(name: &str, from: &str, to: &str) -> String {
    let letter = |c: char| c.is_ascii_alphanumeric();
    let is_word = |before: &str, after: &str| !before.ends_with(letter) && !after.starts_with(letter);
    let mut parts = name.match_indices(from).map(|(at, _)| (&name[..at], &name[at + from.len()..]));
    match parts.find(|(before, after)| is_word(before, after)) {
        Some((before, after)) => format!("{before}{to}{after}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_called_after_their_card() {
        for (name, expected) in [
            ("eth1-TxRx-0", "wan0-TxRx-0"),
            ("i40e-eth1-TxRx-3", "i40e-wan0-TxRx-3"),
            ("eth1", "wan0"),
            ("eth10-TxRx-0", "eth10-TxRx-0"),
            ("veth1-rx-0", "veth1-rx-0"),
            ("virtio1-input.0", "virtio1-input.0"),
        ] {
            assert_eq!(renamed(name, "eth1", "wan0"), expected);
        }
    }
}
