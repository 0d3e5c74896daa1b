//! The rules that refuse requests: routes that deny, and rules about clients.
//!
//! Leaves out the checks themselves (`crates/answer`). Tested in `tests.rs`, and through the binary
//! (`crates/e2e/tests/e2e/access.rs`).

use super::{Action, Asked, Guard, Hosts, Route, Rules};

impl Hosts {
    /// Whether the route of an index page may refuse the page, or may have rules for the answer,
    /// for any host.
    #[inline]
    pub fn routes_concern_index_pages(&self) -> bool {
        self.needs.index_pages
    }
}

impl Rules {
    /// The route before [`Asked::first`] that refuses a request for `path`: it denies all requests,
    /// or is not for the client. Earlier rewrites do not count.
    #[cold]
    pub fn refusal(&self, path: &[u8], asked: Asked<'_>) -> Option<(usize, &Route)> {
        let counts =
            |route: &Route| route.refuses(asked.peer) || !matches!(route.action, Action::Rewrite { .. });
        let mut earlier = self.routes.iter().enumerate().take(asked.first);
        let first = earlier.find(|(_, route)| counts(route) && route.matches(path, asked));
        first.filter(|(_, route)| route.refuses(asked.peer))
    }

    /// The route that refuses the program or the index page at `path`, decoded, to the client. The
    /// request has another path, so the routes did not see this path.
    pub fn refusal_of_other(&self, path: &[u8], asked: Asked<'_>) -> Option<&Route> {
        self.route(path, asked).map(|(_, route)| route).filter(|route| route.refuses(asked.peer))
    }

    /// Whether a route has rules about clients of its own for the index page at `page`, decoded.
    /// Otherwise the rules for the folder decide, because a redirect from a page to its folder is
    /// common.
    pub fn guards_index_page(&self, page: &[u8], asked: Asked<'_>) -> bool {
        let routes = [self.route(page, asked), self.route_before_rewrite(page, asked)];
        routes.into_iter().flatten().any(|(_, route)| route.guard.is_some())
    }

    /// Whether the route for `path`, decoded, names a part of the path behind the program `script`.
    /// Such a part has rules of its own.
    pub fn names_part_behind(&self, script: &[u8], path: &[u8], asked: Asked<'_>) -> bool {
        let is_behind =
            |text: &str| text.as_bytes().strip_prefix(script).is_some_and(|behind| behind.starts_with(b"/"));
        let route = self.route(path, asked).map(|(_, route)| route);
        let texts = route.map(|route| [&route.prefix, &route.path]);
        texts.into_iter().flatten().flatten().any(|text| is_behind(text))
    }

    /// The rules about clients for a path, decoded, with their numbers in this host: those of the
    /// route that answers. After a rewrite, the rules of the first earlier route with this path
    /// come before, because a rewrite must not lead past them.
    pub fn guards_at(&self, path: &[u8], asked: Asked<'_>) -> impl Iterator<Item = (u32, &Guard)> {
        let earlier = self.route_before_rewrite(path, asked);
        let answers = self.route(path, asked).or(earlier);
        let before = earlier.map(|earlier| self.guard_of(Some(earlier)));
        [before.flatten(), self.guard_of(answers)].into_iter().flatten()
    }

    /// The first route before [`Asked::first`] that matches `path`. Rewrites do not count.
    fn route_before_rewrite(&self, path: &[u8], asked: Asked<'_>) -> Option<(usize, &Route)> {
        let is_rewrite = |route: &Route| matches!(route.action, Action::Rewrite { .. });
        let mut earlier = self.routes.iter().enumerate().take(asked.first);
        earlier.find(|(_, route)| !is_rewrite(route) && route.matches(path, asked))
    }

    /// The rules about clients of a route, or of the host if the route has none.
    fn guard_of<'r>(&'r self, route: Option<(usize, &'r Route)>) -> Option<(u32, &'r Guard)> {
        let of_route = route.and_then(|(number, route)| Some((number, route.guard.as_deref()?)));
        match of_route {
            Some((number, guard)) => {
                Some((u32::try_from(number).expect("a file has fewer routes") + 1, guard))
            }
            None => Some((0, self.guard.as_deref()?)),
        }
    }

    /// The rules about clients with a number of [`guards_at`](Self::guards_at).
    pub fn guard(&self, number: u32) -> Option<&Guard> {
        match number.checked_sub(1) {
            Some(route) => self.routes.get(route as usize)?.guard.as_deref(),
            None => self.guard.as_deref(),
        }
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guard.is_some() || self.routes.iter().any(|route| route.guard.is_some())
    }
}
