//! Values of `Accept-Encoding` and the chosen coding: weights, wildcards, preferences.

use super::Choice::*;
use super::*;

const ALL: EncodingSet = EncodingSet::NONE.with(Br).with(Zstd).with(Gzip);
const GZIP: EncodingSet = EncodingSet::NONE.with(Gzip);

#[test]
fn highest_weight_wins_then_preference() {
    let cases: &[(&str, EncodingSet, Choice)] = &[
        ("gzip, deflate, br, zstd", ALL, Br),
        ("gzip, deflate, br, zstd", GZIP.with(Zstd), Zstd),
        ("gzip, deflate, br, zstd", GZIP, Gzip),
        ("gzip, deflate, br, zstd", EncodingSet::NONE, Identity),
        ("gzip, deflate, br", ALL, Br),
        ("gzip, deflate, br", GZIP.with(Zstd), Gzip),
        ("gzip, deflate", ALL, Gzip),
        ("gzip", ALL, Gzip),
        ("GZIP", ALL, Gzip),
        ("x-gzip", ALL, Gzip),
        ("br;q=1, gzip;q=0.8", ALL, Br),
        ("br;q=0.5, gzip;q=0.8", ALL, Gzip),
        ("br;q=0.5,gzip;q=0.8", EncodingSet::NONE.with(Br), Br),
        ("br ; q=0.5 , gzip ; Q=0.4", ALL, Br),
        ("gzip;q=1.000, br;q=0.999", ALL, Gzip),
        ("gzip;q=0.001", ALL, Gzip),
        ("gzip;q=0", ALL, Identity),
        ("gzip;q=0.000", ALL, Identity),
        ("*", ALL, Br),
        ("*", GZIP, Gzip),
        ("*;q=0", ALL, Identity),
        ("br;q=0, *", ALL, Zstd),
        ("gzip, *;q=0", ALL, Gzip),
        ("gzip;q=0.5, *;q=0.1", ALL, Gzip),
        ("identity", ALL, Identity),
        ("identity, gzip;q=0.5", ALL, Identity),
        ("identity;q=0.5, gzip;q=0.5", ALL, Gzip),
        ("identity;q=0", ALL, Identity),
        ("identity;q=0, gzip", ALL, Gzip),
        ("*;q=0, identity;q=0", ALL, Identity),
        ("", ALL, Identity),
        (",,", ALL, Identity),
        ("deflate, compress", ALL, Identity),
        // An element with a malformed weight counts as not there.
        ("gzip;q=2", ALL, Identity),
        ("gzip;q=1.001", ALL, Identity),
        ("gzip;q=0.1234", ALL, Identity),
        ("gzip;q=-1", ALL, Identity),
        ("gzip;q=", ALL, Identity),
        ("gzip;q=.5", ALL, Identity),
        ("gzip;level=9", ALL, Identity),
        ("gzip;q=0.x", ALL, Identity),
        ("gzip gzip", ALL, Identity),
        // The last weight of a coding counts.
        ("gzip;q=1, gzip;q=0", ALL, Identity),
    ];
    for &(value, available, expected) in cases {
        assert_eq!(choose(Some(ListField::Line(value.as_bytes())), available), expected, "{value}");
    }
    assert_eq!(choose(None, ALL), Identity);
}

/// A server that compresses on demand has an order of its own, from the configuration.
#[test]
fn order_of_server_decides_between_equal_weights() {
    for (value, order, expected) in [
        ("gzip, deflate, br, zstd", &[Zstd, Br, Gzip][..], Zstd),
        ("gzip, deflate, br, zstd", &[Gzip, Br], Gzip),
        ("gzip, deflate, br", &[Zstd, Br], Br),
        ("gzip;q=0.5, br;q=0.4, zstd;q=0.4", &[Zstd, Br, Gzip], Gzip),
        ("*", &[Gzip, Br], Gzip),
        ("*;q=0.1, identity", &[Gzip], Identity),
        ("identity;q=0", &[Gzip], Identity),
        ("identity;q=0, *", &[Gzip], Gzip),
        ("gzip;q=0, *", &[Gzip, Br], Br),
        ("*;q=0", &[Gzip], Identity),
        ("identity, gzip", &[Gzip], Gzip),
        ("gzip", &[], Identity),
        ("", &[Gzip], Identity),
    ] {
        let list = Some(ListField::Line(value.as_bytes()));
        assert_eq!(choose_in_order(list, order), expected, "{value} of {order:?}");
    }
    assert_eq!(choose_in_order(None, &[Gzip]), Identity);
}

/// The values of browsers, which `choose` does not parse, give the same coding as a parsed list.
#[test]
fn browser_shortcuts_agree_with_parser() {
    for value in ["gzip, deflate, br, zstd", "gzip, deflate, br", "gzip, deflate", "gzip"] {
        let list = || ListField::Line(value.as_bytes());
        for subset in 0..8 {
            let codings = [(1, Br), (2, Zstd), (4, Gzip)].into_iter().filter(|(bit, _)| subset & bit != 0);
            let available = codings.fold(EncodingSet::NONE, |set, (_, coding)| set.with(coding));
            let parsed = heaviest(&Weights::parse(list()), available);
            assert_eq!(choose(Some(list()), available), parsed, "{value} of {available:?}");
        }
    }
}

#[test]
fn set_holds_members_and_identity() {
    assert!(GZIP.contains(Gzip) && GZIP.contains(Identity) && !GZIP.contains(Br));
    assert!(EncodingSet::NONE.is_empty() && EncodingSet::NONE.with(Identity).is_empty() && !GZIP.is_empty());
    let names: Vec<_> = [Identity, Br, Zstd, Gzip].map(Choice::content_encoding).into();
    assert_eq!(names, [None, Some("br"), Some("zstd"), Some("gzip")]);
}
