//! The programs of a core: the channel to the spawner, and the tasks that wait for events of the
//! spawner.
//!
//! When the task drops a program, the program is killed unless it was let go. A program holds the
//! turn until the process ends, not until the answer ends. Until then [`watch`] also reads the
//! error output of a program that was let go, so that a write does not end the program. Leaves out
//! a program's start parameters. Tested through the binary (`crates/e2e/tests/e2e/cgi.rs`).

use super::pipes::LeftErrors;
use crate::parts::ProgramRead;
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io,
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};
use vermeil::{Source, sleep, yield_now};
use vermeil_log::{NoticeKind, Notices};
use vermeil_routing::turns::HostTurn;
use vermeil_spawn::{
    Channel, JobId, ProgramEvent, ProgramExit, ProgramRequest, SEND_RETRY, SendObstacle, SpawnError, Stdio,
};

thread_local! {
    static SPAWNING: RefCell<Option<Spawning>> = const { RefCell::new(None) };
}

/// A core's connection to the spawner.
struct Spawning {
    channel: Channel,
    slots: HashMap<JobId, SpawnSlot>,
    /// The error output of programs without a task; the program heard last is at the end. Each
    /// program has a slot, which holds a turn, so the turns bound the open pipes.
    left_errors: VecDeque<(JobId, LeftErrors)>,
    /// The task of [`watch`], while the task waits.
    watcher: Option<Waker>,
    notices: Arc<Notices>,
}

/// A requested program.
struct SpawnSlot {
    state: SpawningState,
    waker: Option<Waker>,
    /// Whether a task waits for the program or uses the output.
    is_awaited: bool,
    _turn: HostTurn,
}

enum SpawningState {
    Asked,
    Running,
    Ended(ProgramExit),
    /// The error is `None` once a task has taken it.
    Failed(Option<SpawnError>),
}

impl Spawning {
    /// Requests a program.
    fn ask(&mut self, request: ProgramRequest, stdio: Stdio, turn: HostTurn) -> Result<JobId, SpawnError> {
        let job = self.channel.spawn(request, stdio)?;
        let state = SpawningState::Asked;
        let slot = SpawnSlot { state, waker: None, is_awaited: true, _turn: turn };
        self.slots.insert(job, slot);
        self.tell_watcher();
        Ok(job)
    }

    /// The watching task waits. Returns why requests wait in the channel, if any do.
    fn watcher_waits(&mut self, context: &mut Context<'_>) -> Option<SendObstacle> {
        self.watcher = Some(context.waker().clone());
        self.channel.obstacle()
    }

    /// Wakes the watching task if a request waits, so that the task waits for room too.
    fn tell_watcher(&mut self) {
        if self.channel.obstacle().is_some() {
            self.wake_watcher();
        }
    }

    fn wake_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }

    /// Handles the spawner's events.
    fn take_events(&mut self) {
        loop {
            match self.channel.receive() {
                Ok(Some(event)) => self.take(event),
                Ok(None) => break,
                Err(error) => {
                    self.notices
                        .say(NoticeKind::SpawnerTrouble, format_args!("hearing the spawner: {error}"));
                    break;
                }
            }
        }
        if self.channel.is_gone() {
            let line = format_args!("{}; CGI programs get 503 until then", SpawnError::Gone);
            self.notices.say(NoticeKind::SpawnerTrouble, line);
        }
    }

    fn take(&mut self, event: ProgramEvent) {
        let (job, state) = match event {
            ProgramEvent::Started { job, .. } => (job, SpawningState::Running),
            ProgramEvent::Exited { job, exit } => (job, SpawningState::Ended(exit)),
            ProgramEvent::Failed { job, error } => {
                if matches!(error, SpawnError::Lost | SpawnError::Gone) {
                    self.notices.say(NoticeKind::SpawnerTrouble, format_args!("{error}"));
                }
                (job, SpawningState::Failed(Some(error)))
            }
        };
        let Some(slot) = self.slots.get_mut(&job) else { return };
        let is_over = !matches!(state, SpawningState::Running);
        if is_over && !slot.is_awaited {
            self.slots.remove(&job);
            let place = self.left_errors.iter().position(|(left, _)| *left == job);
            if let Some((_, errors)) = place.and_then(|place| self.left_errors.remove(place)) {
                errors.finish();
            }
            return;
        }
        slot.state = state;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Reads the remaining error output of `job` until the program ends.
    fn keep_errors(&mut self, job: JobId, errors: LeftErrors) {
        let Some(slot) = self.slots.get(&job) else { return };
        match slot.state {
            SpawningState::Asked | SpawningState::Running => {
                self.left_errors.push_back((job, errors));
                self.wake_watcher();
            }
            SpawningState::Ended(_) | SpawningState::Failed(_) => errors.finish(),
        }
    }

    /// The task of `job` has gone. `fate` says whether the program must end.
    fn leave(&mut self, job: JobId, fate: ProgramFate) {
        let Some(slot) = self.slots.get_mut(&job) else { return };
        match (&slot.state, fate) {
            (SpawningState::Ended(_) | SpawningState::Failed(_), _) => {
                self.slots.remove(&job);
            }
            (SpawningState::Asked | SpawningState::Running, ProgramFate::LetGo) => slot.is_awaited = false,
            (SpawningState::Asked | SpawningState::Running, ProgramFate::Kill) => {
                slot.is_awaited = false;
                self.channel.kill(job);
                self.tell_watcher();
                // The request may have been withdrawn, which is reported at once.
                self.take_events();
            }
        }
    }
}

/// Reads the error output of the first program that has some, and puts this program last. Returns
/// whether there was any.
fn hear_next<J>(left: &mut VecDeque<(J, LeftErrors)>, context: &mut Context<'_>) -> bool {
    for _ in 0..left.len() {
        let Some((_, errors)) = left.front_mut() else { break };
        match errors.poll(context) {
            Poll::Ready(ProgramRead::Some) => {
                left.rotate_left(1);
                return true;
            }
            Poll::Ready(ProgramRead::End) => drop(left.pop_front()),
            Poll::Pending => left.rotate_left(1),
        }
    }
    false
}

/// The work that the watching task has found.
enum WatchedWork {
    /// The channel has an event, or room for a waiting request.
    Channel,
    /// Some error output was read, and there may be more.
    Errors,
}

/// The treatment of a program without a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgramFate {
    Kill,
    LetGo,
}

/// Makes CGI available on this core, by the core's own channel to the spawner. Returns the
/// readiness of the channel, for [`watch`].
///
/// # Errors
/// Out of descriptors.
pub fn install(channel: Channel, notices: Arc<Notices>) -> io::Result<OwnedFd> {
    let readiness = channel.readiness()?;
    let (slots, left_errors) = (HashMap::new(), VecDeque::new());
    SPAWNING.set(Some(Spawning { channel, slots, left_errors, watcher: None, notices }));
    Ok(readiness)
}

/// Handles the spawner's events on this core, sends waiting requests, and reads the error output of
/// programs without a task, until the spawner is gone.
pub async fn watch(readiness: Source) {
    while let Ok(work) = next_work(&readiness).await {
        let is_gone = with(|spawning| {
            // Between error outputs the task does not wait for room in the channel, so this also
            // sends waiting requests.
            spawning.take_events();
            spawning.channel.is_gone()
        });
        if is_gone {
            return;
        }
        if let WatchedWork::Errors = work {
            // A program may write without end, so the core does other work first.
            yield_now().await;
        }
    }
}

/// Waits until the channel has an event, until a waiting request may be sent, or until error output
/// was read.
async fn next_work(readiness: &Source) -> io::Result<WatchedWork> {
    let (mut readable, mut writable) = (pin!(readiness.readable()), pin!(readiness.writable()));
    let mut retry = sleep(SEND_RETRY);
    poll_fn(|context| {
        if let Poll::Ready(ready) = readable.as_mut().poll(context) {
            return Poll::Ready(ready.map(|()| WatchedWork::Channel));
        }
        if with(|spawning| hear_next(&mut spawning.left_errors, context)) {
            return Poll::Ready(Ok(WatchedWork::Errors));
        }
        let has_room = match with(|spawning| spawning.watcher_waits(context)) {
            None => Poll::Pending,
            Some(SendObstacle::FullSocket) => writable.as_mut().poll(context),
            Some(SendObstacle::Refused) => Pin::new(&mut retry).poll(context).map(Ok),
        };
        has_room.map_ok(|()| WatchedWork::Channel)
    })
    .await
}

fn with<R>(f: impl FnOnce(&mut Spawning) -> R) -> R {
    SPAWNING.with_borrow_mut(|spawning| f(spawning.as_mut().expect("there are programs")))
}

/// A requested program. Dropping this value kills the program and its process group.
pub(super) struct SpawnedProgram {
    job: JobId,
    fate: ProgramFate,
}

impl SpawnedProgram {
    /// Requests a program. The slot holds `turn` until the program has ended.
    pub(super) fn ask(request: ProgramRequest, stdio: Stdio, turn: HostTurn) -> Result<Self, SpawnError> {
        with(|spawning| spawning.ask(request, stdio, turn)).map(|job| Self { job, fate: ProgramFate::Kill })
    }

    /// Why the program's exit status is unknown.
    pub(super) fn failure(&self) -> SpawnError {
        with(|spawning| match spawning.slots.get_mut(&self.job).map(|slot| &mut slot.state) {
            Some(SpawningState::Failed(error)) => why(error),
            _ => SpawnError::Lost,
        })
    }

    /// Waits until the program has ended. Returns `None` if the exit status will never be known.
    pub(super) async fn ended(&self) -> Option<ProgramExit> {
        self.when(|state| match state {
            SpawningState::Asked | SpawningState::Running => None,
            SpawningState::Ended(exit) => Some(Some(*exit)),
            SpawningState::Failed(_) => Some(None),
        })
        .await
    }

    /// Asks whether the program runs. [`SpawnedProgram::seen`] waits for the answer.
    pub(super) fn look(&self) {
        with(|spawning| {
            let Some(slot) = spawning.slots.get_mut(&self.job) else { return };
            if let SpawningState::Running = slot.state {
                slot.state = SpawningState::Asked;
            }
            spawning.channel.look(self.job);
            spawning.tell_watcher();
        });
    }

    /// Waits until the program was seen to run, or has ended.
    pub(super) async fn seen(&self) -> ProgramSight {
        self.when(|state| match state {
            SpawningState::Asked => None,
            SpawningState::Running => Some(ProgramSight::Runs),
            SpawningState::Ended(exit) => Some(ProgramSight::Ended(Some(*exit))),
            SpawningState::Failed(_) => Some(ProgramSight::Ended(None)),
        })
        .await
    }

    /// Lets the program continue within the time limit. [`watch`] reads `errors` meanwhile.
    pub(super) fn let_go(mut self, errors: Option<LeftErrors>) {
        self.fate = ProgramFate::LetGo;
        if let Some(errors) = errors {
            with(|spawning| spawning.keep_errors(self.job, errors));
        }
    }

    async fn when<R>(&self, mut look: impl FnMut(&mut SpawningState) -> Option<R>) -> R {
        poll_fn(|context| {
            with(|spawning| {
                let slot = spawning.slots.get_mut(&self.job).expect("it is kept as long as it is awaited");
                match look(&mut slot.state) {
                    Some(result) => Poll::Ready(result),
                    None => {
                        slot.waker = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            })
        })
        .await
    }
}

/// The answer to [`SpawnedProgram::look`].
pub(super) enum ProgramSight {
    Runs,
    /// `None` if the exit status will never be known.
    Ended(Option<ProgramExit>),
}

fn why(error: &mut Option<SpawnError>) -> SpawnError {
    error.take().unwrap_or(SpawnError::Lost)
}

impl Drop for SpawnedProgram {
    fn drop(&mut self) {
        let (job, fate) = (self.job, self.fate);
        // The core may have gone.
        let _ = SPAWNING.try_with(|cell| {
            if let Ok(mut spawning) = cell.try_borrow_mut()
                && let Some(spawning) = spawning.as_mut()
            {
                spawning.leave(job, fate);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cgi::pipes,
        parts::{ErrorLines, ErrorSink, RequestBody},
    };
    use std::{fs::File, io::Write as _};
    use vermeil::Runtime;

    /// Regression: a pass read the error output of all programs before other work of the core.
    #[test]
    fn pass_reads_errors_of_one_program() {
        let runtime = Runtime::builder().cpus([0]).build().expect("it starts");
        let first = runtime.handle().spawn(async {
            let null = File::open("/dev/null").expect("it is there");
            let sink = ErrorSink::new(Arc::new(Notices::kept()));
            let (mut left, mut writers) = (VecDeque::new(), Vec::new());
            for number in 0..2 {
                let (stdio, pipes) = pipes::open(&RequestBody::None, &null).expect("descriptors");
                let lines = ErrorLines::of_program(sink.clone(), "cgi");
                left.push_back((number, pipes.into_errors(lines).expect("it goes on")));
                writers.push(File::from(stdio.stderr));
            }
            for writer in &mut writers {
                writer.write_all(b"a line\n").expect("room");
            }
            poll_fn(|context| {
                let first = [0, 1].map(|_| {
                    assert!(hear_next(&mut left, context), "there is a line");
                    left[0].0
                });
                Poll::Ready(first)
            })
            .await
        });
        assert_eq!(first.wait().expect("no panic"), [1, 0]);
    }
}
