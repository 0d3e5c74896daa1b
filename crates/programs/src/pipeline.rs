//! Handlers in a row: each stage passes an item on to the next.
//!
//! Each stage is a handler with a separate color, so a stage never runs twice at once and items
//! stay in order, while stages work on different items in parallel: the model of Genevès' thesis,
//! in which whole handlers are placed.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use vermeil::{Exclusion, Full, Handle, Handler, Spec};

/// A row of stages; items enter with [`start`](Self::start).
pub struct Pipeline<T: 'static> {
    stages: Arc<OnceLock<Box<[Handler<T>]>>>,
}

impl<T> Clone for Pipeline<T> {
    fn clone(&self) -> Self {
        Self { stages: self.stages.clone() }
    }
}

impl<T: Send + 'static> Pipeline<T> {
    /// `stages` handlers, called `name-1` and so on. Each runs `work` with its position and passes
    /// the item on; a run is expected to take `cost`. The last stage passes the item to `end`, on
    /// the stage's color.
    ///
    /// # Panics
    /// Without stages.
    pub fn new(
        handle: &Handle,
        name: &str,
        stages: usize,
        cost: Duration,
        work: impl Fn(usize, &mut T) + Send + Sync + 'static,
        end: impl Fn(&Self, T) + Send + Sync + 'static,
    ) -> Self {
        assert!(stages > 0, "a pipeline has a stage");
        let pipeline = Self { stages: Arc::default() };
        let (work, end) = (Arc::new(work), Arc::new(end));
        let made = (0..stages).map(|position| {
            let (pipeline, work, end) = (pipeline.clone(), work.clone(), end.clone());
            let spec = Spec::new(format!("{name}-{}", position + 1)).exclusion(Exclusion::Handler).cost(cost);
            handle.handler(spec, move |mut item| {
                work(position, &mut item);
                if position + 1 < stages {
                    pipeline.hand(position + 1, item);
                } else {
                    end(&pipeline, item);
                }
            })
        });
        let made = made.collect();
        assert!(pipeline.stages.set(made).is_ok(), "a pipeline is built once");
        pipeline
    }

    /// Gives an item to the first stage.
    ///
    /// # Errors
    /// [`Full`] when the stage's core has no room; the item comes back.
    pub fn start(&self, item: T) -> Result<(), Full<T>> {
        self.post(0, item)
    }

    /// Passes an item to the stage at `position`. The code that starts items must keep their number
    /// far below the bound of events.
    fn hand(&self, position: usize, item: T) {
        if let Err(full) = self.post(position, item) {
            panic!("{full}: start fewer items at a time");
        }
    }

    fn post(&self, position: usize, item: T) -> Result<(), Full<T>> {
        let stages = self.stages.get().expect("set before the first item");
        stages[position].send(item)
    }
}
