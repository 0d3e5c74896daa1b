//! The definition of a table of the configuration, by a macro: one definition feeds reading, the
//! reference page and the hints in errors.
//!
//! Leaves out the keys themselves (`keys.rs`). Tested in `tests.rs`.

/// The identifier of a key: a raw identifier if the key is a keyword of Rust.
pub(super) fn ident(key: &str) -> &str {
    if key == "try" { "r#try" } else { key }
}

/// The key of an identifier.
pub(super) fn plain(ident: &'static str) -> &'static str {
    ident.strip_prefix("r#").unwrap_or(ident)
}

/// Defines a table of the configuration: a struct, its reader and its description. A field is a
/// key:
///
/// `/// What it is.` `key: Type = default; from least, to most,`. A key without a default is
/// required.
macro_rules! table {
    ($(#[doc = $about:literal])+ $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $type:ty $(= $default:expr)? $(; from $least:expr, to $most:expr)?,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($(#[doc = $doc])+ $vis $key: $type,)+
        }

        impl $name {
            /// The values of a missing table; `None` if a key is required.
            #[allow(dead_code, reason = "tables in lists have no default")]
            $vis fn unwritten() -> Option<Self> {
                Some(Self { $($key: {
                    let default: Option<$type> = table!(@default $($default)?);
                    default?
                },)+ })
            }
        }

        impl $crate::file::read::ConfigSetting for $name {
            fn kind() -> $crate::file::describe::ValueKind {
                $crate::file::describe::ValueKind::Table
            }

            fn read(
                node: &$crate::file::read::ConfigNode<'_>,
                reader: &mut $crate::file::read::ConfigReader,
            ) -> Option<Self> {
                let table = reader.table(node)?;
                $(let mut $key: Option<Option<$type>> = None;)+
                for (key, value) in table {
                    match $crate::file::tables::ident(key.get_ref()) {
                        $(stringify!($key) => {
                            $key = Some(reader.within($crate::file::tables::plain(stringify!($key)), |reader| {
                                let read = <$type as $crate::file::read::ConfigSetting>::read(value, reader)?;
                                $(let read = reader.bounded(value, read, $least, $most)?;)?
                                Some(read)
                            }));
                        })+
                        _ => reader.unknown_key(
                            key.span(),
                            key.get_ref(),
                            &[$($crate::file::tables::plain(stringify!($key))),+],
                        ),
                    }
                }
                $(
                    // A wrong value has been reported already. A missing key gets its default, or
                    // is reported now.
                    let $key: Option<$type> = $key.unwrap_or_else(|| {
                        let default: Option<$type> = table!(@default $($default)?);
                        if default.is_none() {
                            reader.missing(node.span(), $crate::file::tables::plain(stringify!($key)));
                        }
                        default
                    });
                )+
                Some(Self { $($key: $key?,)+ })
            }

            fn shown(&self) -> Option<String> {
                None
            }

            fn tables(path: &str, into: &mut Vec<$crate::file::describe::TableDoc>) {
                use $crate::file::{describe::{KeyDoc, Presence, TableDoc}, read::ConfigSetting};
                into.push(TableDoc {
                    heading: path.to_owned(),
                    about: concat!($($about, "\n"),+).to_owned(),
                    keys: vec![$({
                        let default: Option<$type> = table!(@default $($default)?);
                        KeyDoc {
                            key: $crate::file::tables::plain(stringify!($key)),
                            kind: <$type as ConfigSetting>::kind(),
                            presence: match default {
                                Some(default) => Presence::Default(default.shown()),
                                None => Presence::Required,
                            },
                            bounds: table!(@bounds $type $(, $least, $most)?),
                            about: concat!($($doc, "\n"),+).to_owned(),
                        }
                    }),+],
                });
                $(
                    let below = $crate::file::describe::heading(path, $crate::file::tables::plain(stringify!($key)), &<$type as ConfigSetting>::kind());
                    <$type as ConfigSetting>::tables(&below, into);
                )+
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@bounds $type:ty) => { None };
    (@bounds $type:ty, $least:expr, $most:expr) => {{
        use $crate::file::read::BoundedSetting;
        Some((<$type>::shown_amount($least), <$type>::shown_amount($most)))
    }};
}
pub(super) use table;
