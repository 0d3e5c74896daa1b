//! A run of sessions: the plan, the compiled model, the users.
//!
//! Tested here, and through `tests/`.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use bytes::Bytes;
use vermeil::{ConnectOptions, Handle};

use super::model::{Check, Judge, KeepAlive, Model, PageSource};
use super::user::SessionUser;
use crate::error::LoadError;
use crate::pace::{Arrivals, Think};
use crate::quality::Quality;
use crate::run::{Outcome, PreparedRun, RunContext, RunObserver, Supply, Waits};
use crate::stream::Dial;
use crate::tls_verify::Tls;
use crate::url::Url;
use crate::wire::{LoadRequest, Reuse};
use crate::{plan::CommonOptions, protocol::Protocol};

/// The arrival of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SessionLoop {
    /// A fixed number of users; each begins one session after the other.
    Closed,
    /// Sessions arrive independently, and the number of users is the maximum at once. Within a
    /// session, a request waits for the previous answer.
    PartlyOpen {
        /// The arrival times.
        arrivals: Arrivals,
    },
}

/// A run of sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionPlan {
    /// The common parameters. The timeout of the model replaces the timeout here.
    pub common: CommonOptions,
    /// The server. The path is ignored.
    pub url: Url,
    /// The behavior of the users.
    pub model: Model,
    /// The number of users. If sessions arrive independently, the maximum number.
    pub users: usize,
    /// The arrival of sessions.
    pub pace: SessionLoop,
    /// The meaning of good and tolerable.
    pub quality: Quality,
    /// The method and the fields of every request.
    pub request: LoadRequest,
    /// Ends the run after this number of pages, if that is before the end of the window.
    pub pages_max: Option<u64>,
}

/// Runs `plan` to the end; `watch` may end the run early. Pages are the counted requests, and all
/// requests on the wire count as objects.
///
/// # Errors
/// The run cannot begin. Failed requests are counted in the [`Outcome`].
pub fn run_sessions(plan: &SessionPlan, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
    prepare_sessions(plan)?.run(watch)
}

/// Prepares `plan`, and checks whether the run can begin.
pub(crate) fn prepare_sessions(plan: &SessionPlan) -> Result<PreparedRun, LoadError> {
    let crowd = Crowd::new(plan)?;
    PreparedRun::new(&plan.common, &plan.url, Box::new(crowd))
}

/// A compiled model, with prepared requests where possible.
pub(super) struct PageScript {
    pub(super) pages: Vec<PageStep>,
    pub(super) host: String,
    pub(super) request: LoadRequest,
    pub(super) think: Think,
    pub(super) connections: usize,
    pub(super) receive_rate: Option<u64>,
    pub(super) keep_alive: KeepAlive,
    pub(super) timeout: Duration,
    pub(super) quality: Quality,
    pub(super) comes_by_itself: bool,
}

/// A compiled page.
pub(super) struct PageStep {
    pub(super) source: PageSource,
    pub(super) next: Vec<(usize, f64)>,
    pub(super) check: Check,
    pub(super) judge: Judge,
    pub(super) objects: Vec<PageObject>,
}

/// A compiled embedded object.
pub(super) struct PageObject {
    pub(super) path: String,
    pub(super) cached: f64,
    pub(super) bytes: Option<u64>,
    /// Requests for kept connections and for other connections.
    pub(super) plain: [Bytes; 2],
    /// The conditional requests, after any user has received validators.
    conditional: RwLock<Option<[Bytes; 2]>>,
}

impl PageObject {
    /// The conditional requests, if validators are known.
    pub(super) fn conditional(&self) -> Option<[Bytes; 2]> {
        self.conditional.read().expect("nothing panics under this lock").clone()
    }

    /// Makes conditional requests with these validator `fields`, in place of earlier validators.
    pub(super) fn learn(&self, fields: &[u8]) {
        let with = |plain: &Bytes| -> Bytes {
            // The empty line ends the head; the content may have empty lines, too.
            let end =
                plain.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(plain.len(), |at| at + 2);
            let (head, rest) = plain.split_at(end);
            [head, fields, rest].concat().into()
        };
        let requests = self.plain.each_ref().map(with);
        *self.conditional.write().expect("nothing panics under this lock") = Some(requests);
    }
}

/// The two forms of a request, in the order of [`PageObject::plain`].
pub(super) const WAYS: [Reuse; 2] = [Reuse::Keep, Reuse::Close];

impl PageScript {
    fn new(plan: &SessionPlan) -> Self {
        let host = plan.url.authority();
        let object = |path: &str, cached, bytes| PageObject {
            path: path.to_owned(),
            cached,
            bytes,
            plain: WAYS.map(|reuse| plan.request.bytes(&host, path, reuse)),
            conditional: RwLock::default(),
        };
        let step = |page: &super::model::Page| PageStep {
            source: page.source.clone(),
            next: page.next.clone(),
            check: page.check.clone(),
            judge: page.judge,
            objects: page
                .embedded
                .iter()
                .map(|embedded| object(&embedded.path, embedded.cached, embedded.bytes))
                .collect(),
        };
        let model = &plan.model;
        Self {
            pages: model.pages.iter().map(step).collect(),
            request: plan.request.clone(),
            think: model.think,
            connections: model.connections,
            receive_rate: model.receive_rate,
            keep_alive: model.keep_alive,
            timeout: model.timeout,
            quality: plan.quality.clone(),
            comes_by_itself: matches!(plan.pace, SessionLoop::PartlyOpen { .. }),
            host,
        }
    }
}

/// Creates the users, and holds their shared parameters.
struct Crowd {
    script: Arc<PageScript>,
    users: usize,
    arrivals: Option<Arrivals>,
    pages_max: Option<u64>,
    ramp_up: Duration,
    tls: Option<Tls>,
}

impl Crowd {
    fn new(plan: &SessionPlan) -> Result<Self, LoadError> {
        plan.model.check().map_err(|error| LoadError::Plan(error.to_string()))?;
        if plan.users == 0 {
            return Err(LoadError::Plan("at least one user is needed".to_owned()));
        }
        let tls = Tls::new(&plan.url, &plan.common.tls_verify, plan.common.tls_sessions, Protocol::Http1)?;
        let arrivals = match &plan.pace {
            SessionLoop::Closed => None,
            SessionLoop::PartlyOpen { arrivals } => Some(arrivals.clone()),
        };
        Ok(Self {
            script: Arc::new(PageScript::new(plan)),
            users: plan.users,
            arrivals,
            pages_max: plan.pages_max,
            ramp_up: plan.common.phases.ramp_up,
            tls,
        })
    }
}

impl Supply for Crowd {
    fn users(&self) -> usize {
        self.users
    }

    fn spawn(&self, handle: &Handle, field: &Arc<RunContext>) {
        let users = self.users;
        let cores: Vec<_> = handle.cores().collect();
        for index in 0..users {
            field.user_begins();
            let begins = field.epoch + self.ramp_up.mul_f64(index as f64 / users as f64);
            let user = SessionUser::new(self.script.clone(), field.clone(), index);
            // A user stays on one core, because the user's connections belong to that core.
            drop(handle.spawn_on(&handle.color_on(cores[index % cores.len()]), user.live(begins)));
        }
    }

    fn arrivals(&self) -> Option<&Arrivals> {
        self.arrivals.as_ref()
    }

    fn requests_max(&self) -> Option<u64> {
        self.pages_max
    }

    fn sockets_max(&self) -> u64 {
        (self.users * self.script.connections) as u64
    }

    fn waits(&self) -> Waits {
        let quality = &self.script.quality;
        Waits::new(self.users, [quality.good, quality.tolerable])
    }

    /// A paced receiver needs a small receive buffer in the kernel. Otherwise the kernel would
    /// receive at full speed.
    fn dial(&self) -> Dial {
        const BOUNDS: (u64, u64) = (16 * 1024, 256 * 1024);
        let half_a_second = |rate: u64| (rate / 2).clamp(BOUNDS.0, BOUNDS.1) as usize;
        let recv_buffer_bytes = self.script.receive_rate.map(half_a_second);
        Dial { options: ConnectOptions { recv_buffer_bytes, local: None }, tls: self.tls.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the validators replaced the last two bytes of the content.
    #[test]
    fn validators_stand_before_content() {
        let request = LoadRequest::default().method("POST").unwrap().content("a=1\r\n\r\nb");
        let object = PageObject {
            path: "/x".to_owned(),
            cached: 1.0,
            bytes: None,
            plain: WAYS.map(|reuse| request.bytes("h", "/x", reuse)),
            conditional: RwLock::default(),
        };
        assert_eq!(object.conditional(), None);
        object.learn(b"If-None-Match: \"1\"\r\n");
        let [kept, closed] = object.conditional().expect("learned");
        let head = "POST /x HTTP/1.1\r\nHost: h\r\n";
        let rest = "Content-Length: 8\r\nIf-None-Match: \"1\"\r\n\r\na=1\r\n\r\nb";
        assert_eq!(kept, format!("{head}{rest}"));
        assert_eq!(closed, format!("{head}Connection: close\r\n{rest}"));
    }
}
