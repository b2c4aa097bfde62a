//! Where a stub keeps its tables.

use super::{Belief, Candidate, Provider};

/// The tables of an [`Overlay`](super::Overlay), borrowed in one go; the shortest says how many nodes there is room for.
#[derive(Debug)]
#[non_exhaustive]
pub struct OverlayTables<'a> {
    /// What policies see, one per member.
    pub candidates: &'a mut [Candidate],
    /// What they do not, one per member.
    pub beliefs: &'a mut [Belief],
    /// Which are eligible, as many as members.
    pub eligible: &'a mut [u16],
    /// The hashes of those, side by side: what [`Rendezvous`](super::Rendezvous) reads.
    pub hashes: &'a mut [u64],
}

impl<'a> OverlayTables<'a> {
    /// From slices.
    pub const fn new(
        candidates: &'a mut [Candidate],
        beliefs: &'a mut [Belief],
        eligible: &'a mut [u16],
        hashes: &'a mut [u64],
    ) -> Self {
        Self {
            candidates,
            beliefs,
            eligible,
            hashes,
        }
    }
}

/// Storage of an [`Overlay`](super::Overlay): slices whose lengths never change.
pub trait OverlayStorage {
    /// The tables, to write to.
    fn tables(&mut self) -> OverlayTables<'_>;
    /// What policies see.
    fn candidates(&self) -> &[Candidate];
    /// What they do not.
    fn beliefs(&self) -> &[Belief];
    /// Which are eligible.
    fn eligible(&self) -> &[u16];
    /// The hashes of those.
    fn hashes(&self) -> &[u64];
}

impl<O: OverlayStorage + ?Sized> OverlayStorage for &mut O {
    fn tables(&mut self) -> OverlayTables<'_> {
        (**self).tables()
    }

    fn candidates(&self) -> &[Candidate] {
        (**self).candidates()
    }

    fn beliefs(&self) -> &[Belief] {
        (**self).beliefs()
    }

    fn eligible(&self) -> &[u16] {
        (**self).eligible()
    }

    fn hashes(&self) -> &[u64] {
        (**self).hashes()
    }
}

/// Implements the trait for a struct whose fields have the names of the tables.
macro_rules! overlay_storage {
    ([$($generics:tt)*] $name:ty) => {
        impl<$($generics)*> OverlayStorage for $name {
            fn tables(&mut self) -> OverlayTables<'_> {
                OverlayTables::new(&mut self.candidates, &mut self.beliefs, &mut self.eligible, &mut self.hashes)
            }

            fn candidates(&self) -> &[Candidate] {
                &self.candidates
            }

            fn beliefs(&self) -> &[Belief] {
                &self.beliefs
            }

            fn eligible(&self) -> &[u16] {
                &self.eligible
            }

            fn hashes(&self) -> &[u64] {
                &self.hashes
            }
        }
    };
}

/// Tables of a fixed size, by value. Fits a `static`.
#[derive(Clone, Debug)]
pub struct OverlayArray<const NODES: usize> {
    candidates: [Candidate; NODES],
    beliefs: [Belief; NODES],
    eligible: [u16; NODES],
    hashes: [u64; NODES],
}

impl<const NODES: usize> OverlayArray<NODES> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            candidates: [Candidate::EMPTY; NODES],
            beliefs: [Belief::EMPTY; NODES],
            eligible: [0; NODES],
            hashes: [0; NODES],
        }
    }
}

impl<const NODES: usize> Default for OverlayArray<NODES> {
    fn default() -> Self {
        Self::new()
    }
}

overlay_storage!([const NODES: usize] OverlayArray<NODES>);

/// Borrowed tables.
#[derive(Debug)]
pub struct OverlaySlices<'a> {
    candidates: &'a mut [Candidate],
    beliefs: &'a mut [Belief],
    eligible: &'a mut [u16],
    hashes: &'a mut [u64],
}

impl<'a> OverlaySlices<'a> {
    /// From slices; what they contain does not matter.
    #[must_use]
    pub const fn new(
        candidates: &'a mut [Candidate],
        beliefs: &'a mut [Belief],
        eligible: &'a mut [u16],
        hashes: &'a mut [u64],
    ) -> Self {
        Self {
            candidates,
            beliefs,
            eligible,
            hashes,
        }
    }
}

impl OverlayStorage for OverlaySlices<'_> {
    fn tables(&mut self) -> OverlayTables<'_> {
        OverlayTables::new(self.candidates, self.beliefs, self.eligible, self.hashes)
    }

    fn candidates(&self) -> &[Candidate] {
        self.candidates
    }

    fn beliefs(&self) -> &[Belief] {
        self.beliefs
    }

    fn eligible(&self) -> &[u16] {
        self.eligible
    }

    fn hashes(&self) -> &[u64] {
        self.hashes
    }
}

/// Tables on the heap, sized once.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct OverlayHeap {
    candidates: alloc::boxed::Box<[Candidate]>,
    beliefs: alloc::boxed::Box<[Belief]>,
    eligible: alloc::boxed::Box<[u16]>,
    hashes: alloc::boxed::Box<[u64]>,
}

#[cfg(feature = "alloc")]
impl OverlayHeap {
    /// Empty tables for so many nodes.
    #[must_use]
    pub fn new(nodes: u16) -> Self {
        let nodes = usize::from(nodes);
        Self {
            candidates: alloc::vec![Candidate::EMPTY; nodes].into_boxed_slice(),
            beliefs: alloc::vec![Belief::EMPTY; nodes].into_boxed_slice(),
            eligible: alloc::vec![0; nodes].into_boxed_slice(),
            hashes: alloc::vec![0; nodes].into_boxed_slice(),
        }
    }
}

#[cfg(feature = "alloc")]
overlay_storage!([] OverlayHeap);

/// Storage of a [`Stub`](super::Stub): what its view and its overlay are kept in.
pub trait StubStorage {
    /// What the view is kept in.
    type Members: AsRef<[Provider]> + AsMut<[Provider]>;
    /// What the overlay is kept in.
    type Overlay: OverlayStorage;

    /// Hands both out.
    fn split(self) -> (Self::Members, Self::Overlay);
}

/// Tables of a fixed size, by value. Fits a `static`.
#[derive(Clone, Debug)]
pub struct StubArray<const NODES: usize> {
    members: [Provider; NODES],
    overlay: OverlayArray<NODES>,
}

impl<const NODES: usize> StubArray<NODES> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            members: [Provider::EMPTY; NODES],
            overlay: OverlayArray::new(),
        }
    }
}

impl<const NODES: usize> Default for StubArray<NODES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const NODES: usize> StubStorage for StubArray<NODES> {
    type Members = [Provider; NODES];
    type Overlay = OverlayArray<NODES>;

    fn split(self) -> (Self::Members, Self::Overlay) {
        (self.members, self.overlay)
    }
}

/// Borrowed tables.
#[derive(Debug)]
pub struct StubSlices<'a> {
    members: &'a mut [Provider],
    overlay: OverlaySlices<'a>,
}

impl<'a> StubSlices<'a> {
    /// From slices; what they contain does not matter.
    #[must_use]
    pub const fn new(members: &'a mut [Provider], overlay: OverlaySlices<'a>) -> Self {
        Self { members, overlay }
    }
}

impl<'a> StubStorage for StubSlices<'a> {
    type Members = &'a mut [Provider];
    type Overlay = OverlaySlices<'a>;

    fn split(self) -> (Self::Members, Self::Overlay) {
        (self.members, self.overlay)
    }
}

/// Tables on the heap, sized once.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct StubHeap {
    members: alloc::boxed::Box<[Provider]>,
    overlay: OverlayHeap,
}

#[cfg(feature = "alloc")]
impl StubHeap {
    /// Empty tables for so many nodes.
    #[must_use]
    pub fn new(nodes: u16) -> Self {
        Self {
            members: alloc::vec![Provider::EMPTY; usize::from(nodes)].into_boxed_slice(),
            overlay: OverlayHeap::new(nodes),
        }
    }
}

#[cfg(feature = "alloc")]
impl StubStorage for StubHeap {
    type Members = alloc::boxed::Box<[Provider]>;
    type Overlay = OverlayHeap;

    fn split(self) -> (Self::Members, Self::Overlay) {
        (self.members, self.overlay)
    }
}
