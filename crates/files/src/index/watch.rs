//! The tree of watched folders, with the names that records depend on.
//!
//! The tree follows the folders below each site's root as far as records need them. A node is an
//! inotify watch. The node has its watched children and, per name, the records that depend on that
//! name. A change to a name affects the records of the name and, for a folder, everything below its
//! node. A folder that is created, removed or renamed also loses its node, because the path now
//! leads elsewhere.
//!
//! The tree adopts a child only if no event of its parent was handled since before the child was
//! opened ([`ParentNode`]). Any later change of its name therefore has an event still in the queue,
//! and that event will find the node in its place.
//!
//! `index.rs` has the records. The races are tested in `watch/tests.rs`, the rest in
//! `tests/changes.rs` and `tests/bounds.rs`.

use super::SiteId;
use rustix::{
    fs::inotify::{self, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use slab::Slab;
use std::{
    collections::HashMap,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

#[cfg(test)]
mod tests;

/// The events of a folder to watch. `CLOSE_WRITE` beside `MODIFY`, because the close ends the last
/// writer's mapping.
const INTEREST: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Events after which a name may mean another file.
const REBOUND: ReadFlags =
    ReadFlags::CREATE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM).union(ReadFlags::MOVED_TO);

/// Events after which a folder has left its place.
const GONE: ReadFlags =
    ReadFlags::DELETE_SELF.union(ReadFlags::MOVE_SELF).union(ReadFlags::UNMOUNT).union(ReadFlags::IGNORED);

/// Bytes per read from the kernel: some 200 events.
const READ_BYTES: usize = 8192;

/// The key of a record in the index.
pub(crate) type RecordId = usize;

/// A reference to a node that may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId {
    key: usize,
    serial: u64,
}

/// A node, and its count of changes when the look-up read the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParentNode {
    pub(crate) node: NodeId,
    changes: u64,
}

/// How far the folders of a path are watched.
pub(crate) enum Descent<'p> {
    /// All folders are watched; the last component is `name` in `node`.
    Complete { node: NodeId, name: &'p [u8] },
    /// The folders up to `parent` are watched; `folder` is the path of the next folder, called
    /// `name` in `parent`.
    Partial { parent: ParentNode, folder: &'p [u8], name: &'p [u8] },
    /// The root is not watched.
    Unwatched,
}

/// The result of adopting a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The folder is watched.
    Done,
    /// The parent changed meanwhile: repeat the look-up.
    Raced,
    /// The kernel or the bound allows no watch.
    Refused,
}

pub(crate) struct WatchTree {
    inotify: Option<Arc<OwnedFd>>,
    watches_max: usize,
    nodes: Slab<WatchNode>,
    roots: HashMap<SiteId, NodeId>,
    /// Several nodes may share a watch, because a watch belongs to an inode. The inode has several
    /// places where sites overlap, and while the event of a move is still in the queue.
    by_watch: HashMap<i32, Vec<NodeId>>,
    serial: u64,
}

/// The place of a node in the tree.
#[derive(Clone)]
enum TreePlace {
    /// At the top, as the root of a site.
    Root(SiteId),
    /// In its parent, under this name.
    In(NodeId, Arc<[u8]>),
}

struct WatchNode {
    serial: u64,
    watch: i32,
    place: TreePlace,
    children: HashMap<Arc<[u8]>, NodeId>,
    names: HashMap<Arc<[u8]>, Vec<RecordId>>,
    /// Counts events that may have changed the target of a name in the folder.
    changes: u64,
}

impl WatchTree {
    pub(crate) fn new(inotify: Option<Arc<OwnedFd>>, watches_max: usize) -> Self {
        Self {
            inotify,
            watches_max,
            nodes: Slab::new(),
            roots: HashMap::new(),
            by_watch: HashMap::new(),
            serial: 0,
        }
    }

    pub(crate) fn watches(&self) -> usize {
        self.by_watch.len()
    }

    pub(crate) fn has_root(&self, site: SiteId) -> bool {
        self.roots.contains_key(&site)
    }

    /// Replaces the tree of `site` by the folder `root`, or by nothing if the folder cannot be
    /// watched. Records that depended on names below the old root now depend on nothing.
    pub(crate) fn set_root(&mut self, site: SiteId, root: Option<BorrowedFd<'_>>) {
        if let Some(&old) = self.roots.get(&site) {
            self.remove(old);
        }
        if let Some(watch) = root.and_then(|root| self.watch(root)) {
            let id = self.insert(watch, TreePlace::Root(site));
            self.roots.insert(site, id);
        }
    }

    /// Follows `path` of `site` as far as its folders are watched.
    pub(crate) fn descend<'p>(&self, site: SiteId, path: &'p [u8]) -> Descent<'p> {
        let Some(&(mut id)) = self.roots.get(&site) else { return Descent::Unwatched };
        let mut at = 0;
        loop {
            let Some(length) = path[at..].iter().position(|&byte| byte == b'/') else {
                return Descent::Complete { node: id, name: &path[at..] };
            };
            let (node, name) = (&self.nodes[id.key], &path[at..at + length]);
            match node.children.get(name) {
                Some(&child) => id = child,
                None => {
                    let parent = ParentNode { node: id, changes: node.changes };
                    return Descent::Partial { parent, folder: &path[..at + length], name };
                }
            }
            at += length + 1;
        }
    }

    /// Watches `folder`, opened as `name` in `parent`.
    pub(crate) fn adopt(&mut self, parent: ParentNode, name: &[u8], folder: BorrowedFd<'_>) -> Adoption {
        if !self.unchanged(parent) || self.nodes[parent.node.key].children.contains_key(name) {
            return Adoption::Raced;
        }
        let Some(watch) = self.watch(folder) else { return Adoption::Refused };
        let name: Arc<[u8]> = name.into();
        let child = self.insert(watch, TreePlace::In(parent.node, name.clone()));
        self.nodes[parent.node.key].children.insert(name, child);
        Adoption::Done
    }

    /// Whether no event changed `parent` since the look-up read the folder.
    pub(crate) fn unchanged(&self, parent: ParentNode) -> bool {
        self.get(parent.node).is_some_and(|node| node.changes == parent.changes)
    }

    /// Makes `record` depend on `name` in `node`; returns the name to pass to [`Self::detach`].
    pub(crate) fn attach(&mut self, record: RecordId, node: NodeId, name: &[u8]) -> Option<Arc<[u8]>> {
        let names = &mut self.get_mut(node)?.names;
        let name = names.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        let records = names.entry(name.clone()).or_default();
        if !records.contains(&record) {
            records.push(record);
        }
        Some(name)
    }

    /// Undoes [`Self::attach`], and removes watches without dependents.
    pub(crate) fn detach(&mut self, record: RecordId, node: NodeId, name: &[u8]) {
        let Some(found) = self.get_mut(node) else { return };
        if let Some(records) = found.names.get_mut(name) {
            records.retain(|&other| other != record);
            if records.is_empty() {
                found.names.remove(name);
            }
        }
        self.prune(node);
    }

    /// Handles pending kernel events, never waiting, and appends the affected records. Returns
    /// whether events were lost, in which case anything may have changed.
    pub(crate) fn drain(&mut self, concerned: &mut Vec<RecordId>) -> Drained {
        let Some(inotify) = self.inotify.clone() else { return Drained::All };
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut events = Reader::new(&*inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return Drained::Lost,
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes()).filter(|name| !name.is_empty());
                    self.on_event(event.wd(), event.events(), name, concerned);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Drained::All,
                // No other error is expected from this descriptor. Events that cannot be read count
                // as lost.
                Err(_) => return Drained::Lost,
            }
        }
    }

    fn on_event(
        &mut self,
        watch: i32,
        events: ReadFlags,
        name: Option<&[u8]>,
        concerned: &mut Vec<RecordId>,
    ) {
        let Some(nodes) = self.by_watch.get(&watch).cloned() else { return };
        for id in nodes {
            match name {
                Some(name) => self.on_name(id, events, name, concerned),
                None => self.on_folder(id, events, concerned),
            }
        }
    }

    /// Handles an event for a name in a folder.
    fn on_name(&mut self, id: NodeId, events: ReadFlags, name: &[u8], concerned: &mut Vec<RecordId>) {
        let Some(node) = self.get_mut(id) else { return };
        concerned.extend(node.names.get(name).into_iter().flatten());
        if !events.intersects(REBOUND.union(ReadFlags::ATTRIB)) {
            return;
        }
        node.changes += 1;
        if let Some(&child) = node.children.get(name) {
            self.collect(child, concerned);
            if events.intersects(REBOUND) {
                self.remove(child);
            }
        }
    }

    /// Handles an event for a folder itself.
    fn on_folder(&mut self, id: NodeId, events: ReadFlags, concerned: &mut Vec<RecordId>) {
        let Some(node) = self.get_mut(id) else { return };
        node.changes += 1;
        let is_root = matches!(node.place, TreePlace::Root(_));
        self.collect(id, concerned);
        // A root stays the root wherever it is moved, because the site holds the root open.
        if events.intersects(GONE) && (!is_root || events.contains(ReadFlags::IGNORED)) {
            self.remove(id);
        }
    }

    /// Appends the records that depend on a node or on any node below.
    fn collect(&self, id: NodeId, concerned: &mut Vec<RecordId>) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(node) = self.get(id) else { continue };
            concerned.extend(node.names.values().flatten());
            open.extend(node.children.values());
        }
    }

    /// Removes a node and all nodes below, with the watches that no other node shares.
    fn remove(&mut self, id: NodeId) {
        match self.get(id).map(|node| node.place.clone()) {
            Some(TreePlace::Root(site)) => {
                self.roots.remove(&site);
            }
            Some(TreePlace::In(parent, name)) => {
                if let Some(parent) = self.get_mut(parent) {
                    parent.children.remove(&name);
                }
            }
            None => {}
        }
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if self.get(id).is_none() {
                continue;
            }
            let node = self.nodes.remove(id.key);
            open.extend(node.children.values());
            self.unwatch(node.watch, id);
        }
    }

    /// Removes a node without dependents, then its parent if the parent has none either.
    fn prune(&mut self, mut id: NodeId) {
        while let Some(node) = self.get(id)
            && node.names.is_empty()
            && node.children.is_empty()
            && let TreePlace::In(parent, _) = node.place
        {
            self.remove(id);
            id = parent;
        }
    }

    fn watch(&self, folder: BorrowedFd<'_>) -> Option<i32> {
        let inotify = self.inotify.as_ref().filter(|_| self.by_watch.len() < self.watches_max)?;
        inotify::add_watch(inotify, format!("/proc/self/fd/{}", folder.as_raw_fd()), INTEREST).ok()
    }

    fn unwatch(&mut self, watch: i32, id: NodeId) {
        let Some(nodes) = self.by_watch.get_mut(&watch) else { return };
        nodes.retain(|&other| other != id);
        if nodes.is_empty() {
            self.by_watch.remove(&watch);
            // Fails if the folder is gone together with its watch.
            self.inotify.as_ref().map(|inotify| inotify::remove_watch(inotify, watch));
        }
    }

    fn insert(&mut self, watch: i32, place: TreePlace) -> NodeId {
        self.serial += 1;
        let serial = self.serial;
        let node =
            WatchNode { serial, watch, place, children: HashMap::new(), names: HashMap::new(), changes: 0 };
        let id = NodeId { key: self.nodes.insert(node), serial };
        self.by_watch.entry(watch).or_default().push(id);
        id
    }

    fn get(&self, id: NodeId) -> Option<&WatchNode> {
        self.nodes.get(id.key).filter(|node| node.serial == id.serial)
    }

    fn get_mut(&mut self, id: NodeId) -> Option<&mut WatchNode> {
        self.nodes.get_mut(id.key).filter(|node| node.serial == id.serial)
    }
}

/// Whether the kernel reported all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// All events were reported.
    All,
    /// The kernel's queue overflowed.
    Lost,
}
