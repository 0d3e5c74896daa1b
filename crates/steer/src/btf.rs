//! Finds the offset of a member of a kernel structure on the running kernel, from the kernel's own
//! description (BTF; `Documentation/bpf/btf.rst`).
//!
//! Contains the necessary part of the format: type names, structures and unions, and their members,
//! also through nameless structures. Malformed data gives `None`. Tested on an invented description
//! and on this machine's.

/// First bytes of `/sys/kernel/btf/vmlinux`.
const MAGIC: u16 = 0xeb9f;

/// Kinds of types.
mod kind {
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const INT: u32 = 1;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

/// A kernel's types.
pub(crate) struct Btf<'a> {
    strings: &'a [u8],
    /// By number, from 1.
    types: Vec<Type<'a>>,
}

struct Type<'a> {
    name: u32,
    kind: u32,
    /// Whether members' offsets carry the width of bit fields in their upper byte.
    bit_fields: bool,
    /// Twelve bytes each, of a structure or union.
    members: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Reads a description.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |at: usize| Some(word(bytes, at)? as usize);
        let header = word(4)?;
        let part = |at: usize, length: usize| bytes.get(header.checked_add(at)?..)?.get(..length);
        let (mut rest, strings) = (part(word(8)?, word(12)?)?, part(word(16)?, word(20)?)?);
        // The first number belongs to void.
        let mut types = vec![Type { name: 0, kind: 0, bit_fields: false, members: &[] }];
        while !rest.is_empty() {
            let info = word_of(rest, 4)?;
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let length = match kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
                kind::ENUM | kind::FUNC_PROTO => 8 * count,
                _ => 0,
            };
            let members = rest.get(12..12 + length)?;
            types.push(Type { name: word_of(rest, 0)?, kind, bit_fields: info >> 31 == 1, members });
            rest = &rest[12 + length..];
        }
        Some(Btf { strings, types })
    }

    /// The offset in bytes of `member` in the structure `name`.
    pub(crate) fn offset(&self, name: &str, member: &str) -> Option<u32> {
        let found = |of: &Type<'_>| of.kind == kind::STRUCT && self.is_named(of.name, name);
        let of = self.types.iter().find(|of| found(of))?;
        Some(self.bits(of, member, 0)? / 8)
    }

    /// `depth` bounds nested nameless structures, because the kernel has at most three.
    fn bits(&self, of: &Type<'_>, member: &str, depth: u32) -> Option<u32> {
        if !matches!(of.kind, kind::STRUCT | kind::UNION) || depth > 8 {
            return None;
        }
        of.members.chunks_exact(12).find_map(|entry| {
            let (name, inner, offset) = (word_of(entry, 0)?, word_of(entry, 4)?, word_of(entry, 8)?);
            let offset = if of.bit_fields { offset & 0xff_ffff } else { offset };
            if self.is_named(name, member) {
                return Some(offset);
            }
            if name != 0 {
                return None;
            }
            Some(offset + self.bits(self.types.get(inner as usize)?, member, depth + 1)?)
        })
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let text = self.strings.get(at as usize..).and_then(|text| text.strip_prefix(name.as_bytes()));
        text.is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    word_of(bytes, at)
}

fn word_of(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct sock { int x; union { struct { short a; short num; }; }; }`
    fn made_up() -> Vec<u8> {
        let strings = b"\0sock\0x\0a\0num\0";
        let (sock, x, a, num) = (1u32, 6u32, 8u32, 10u32);
        let structure = |kind: u32, count: u32, name| [name, kind << 24 | count, 8];
        let types: Vec<u32> = [
            &[0, kind::INT << 24, 4, 0][..],
            &structure(kind::STRUCT, 2, 0),
            &[a, 1, 0, num, 1, 16],
            &structure(kind::UNION, 1, 0),
            &[0, 2, 0],
            &structure(kind::STRUCT, 2, sock),
            &[x, 1, 0, 0, 3, 32],
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, types, strings.to_vec()].concat()
    }

    #[test]
    fn members_are_found_through_nameless_ones() {
        let bytes = made_up();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.offset("sock", "x"), Some(0));
        assert_eq!(btf.offset("sock", "num"), Some(6));
        assert_eq!(btf.offset("sock", "nu"), None);
        assert_eq!(btf.offset("socket", "x"), None);
        for cut in 0..bytes.len() {
            if let Some(btf) = Btf::parse(&bytes[..cut]) {
                assert_eq!(btf.offset("sock", "num"), None);
            }
        }
    }

    #[test]
    fn this_kernels_sockets_are_described() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        let btf = Btf::parse(&bytes).expect("a description");
        assert!(btf.offset("sock_common", "skc_incoming_cpu").is_some());
        assert!(btf.offset("sock_common", "skc_num").is_some());
    }
}
