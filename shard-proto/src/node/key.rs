//! An entity's id as it travels through a node.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};

use bytes::Bytes;

/// An entity's id: cheap to clone, whatever its length.
///
/// Ids up to [`EntityKey::INLINE`] bytes are kept in place, so passing a message on neither allocates nor touches a
/// reference count that another core holds.
///
/// ```
/// use shard_proto::node::EntityKey;
/// let key = EntityKey::from("user-42");
/// assert_eq!(key.as_bytes(), b"user-42");
/// let long = [7; 1000];
/// assert_eq!(EntityKey::new(&long).as_bytes(), long);
/// ```
#[derive(Clone)]
pub struct EntityKey(Repr);

#[derive(Clone)]
enum Repr {
    Inline {
        len: u8,
        bytes: [u8; EntityKey::INLINE],
    },
    Shared(Bytes),
}

impl EntityKey {
    /// The longest id that is kept in place.
    pub const INLINE: usize = 38;

    /// The key of an id: copies it.
    #[must_use]
    pub fn new(id: &[u8]) -> Self {
        Self::from_slice(id, || Bytes::copy_from_slice(id))
    }

    /// The key of an id that lies in a shared buffer. `share` makes a handle to the same bytes; it is called for long
    /// ids only.
    #[must_use]
    pub fn from_slice(id: &[u8], share: impl FnOnce() -> Bytes) -> Self {
        let mut bytes = [0; Self::INLINE];
        match (u8::try_from(id.len()), bytes.get_mut(..id.len())) {
            (Ok(len), Some(head)) => {
                head.copy_from_slice(id);
                Self(Repr::Inline { len, bytes })
            }
            _ => Self(Repr::Shared(share())),
        }
    }

    /// The id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl From<Bytes> for EntityKey {
    fn from(id: Bytes) -> Self {
        Self::from_slice(&id, || id.clone())
    }
}

impl From<&[u8]> for EntityKey {
    fn from(id: &[u8]) -> Self {
        Self::new(id)
    }
}

impl From<&str> for EntityKey {
    fn from(id: &str) -> Self {
        Self::new(id.as_bytes())
    }
}

impl AsRef<[u8]> for EntityKey {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for EntityKey {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for EntityKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for EntityKey {}

impl PartialOrd for EntityKey {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntityKey {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for EntityKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}
