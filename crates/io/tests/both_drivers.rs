//! Every case of `suite`, on both drivers.
//!
//! A case is a plain function over a driver; the macro makes one test per driver of it, so a difference in behavior
//! shows as one red test of a pair.

mod suite;

macro_rules! on_both_drivers {
    ($($module:ident :: { $($case:ident),* $(,)? })*) => {
        mod epoll {
            $(mod $module { $(
                #[test]
                fn $case() { crate::suite::on_epoll(crate::suite::$module::$case); }
            )* })*
        }
        mod uring {
            $(mod $module { $(
                #[test]
                fn $case() { crate::suite::on_uring(crate::suite::$module::$case); }
            )* })*
        }
    };
}

on_both_drivers! {
    echo::{
        many_sizes,
        many_streams,
    }
}
