//! Who a peer is.

use core::fmt;
use core::str::FromStr;

use shard_proto::NodeId;
use shard_proto::hash::node_id;

/// What a peer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// A node of the cluster.
    Node,
    /// A client: no member, and never one.
    Client,
}

impl Peer {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Node => "shard",
            Self::Client => "shard-client",
        }
    }
}

/// Who a peer is, as its transport proved it, or who this node is.
///
/// Written as a URI, `shard://<cluster>/<node>` or `shard-client://<cluster>/<name>`, as in a certificate's subject
/// alternative name. Cluster and name are 1 to 255 bytes of letters, digits, `-`, `_`, `.` and `~`, the characters that a URI
/// never escapes, so that a name has one spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    cluster: String,
    name: String,
    kind: Peer,
}

impl Identity {
    /// Longest cluster and name, in bytes.
    pub const MAX_LEN: usize = 255;

    /// A peer of that kind and name in a cluster.
    ///
    /// # Errors
    /// [`IdentityError`]: the cluster's or the peer's name cannot be part of one.
    pub fn new(
        kind: Peer,
        cluster: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, IdentityError> {
        let (cluster, name) = (cluster.into(), name.into());
        for part in [&cluster, &name] {
            if part.is_empty() || part.len() > Self::MAX_LEN || !part.bytes().all(is_plain) {
                return Err(IdentityError(shown(part)));
            }
        }
        Ok(Self {
            cluster,
            name,
            kind,
        })
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Peer {
        self.kind
    }

    /// The id of the node of that name.
    #[must_use]
    pub fn node(&self) -> NodeId {
        node_id(&self.name)
    }
}

/// RFC 3986, section 2.3.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

/// Short, and without control characters: it comes from a peer and goes into logs.
fn shown(text: &str) -> String {
    text.chars()
        .take(80)
        .collect::<String>()
        .escape_debug()
        .collect()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.kind.scheme(), self.cluster, self.name)
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let parse = || {
            let (scheme, rest) = uri.split_once("://")?;
            let kind = [Peer::Node, Peer::Client]
                .into_iter()
                .find(|kind| kind.scheme() == scheme)?;
            let (cluster, name) = rest.split_once('/')?;
            Self::new(kind, cluster, name).ok()
        };
        parse().ok_or_else(|| IdentityError(shown(uri)))
    }
}

/// A name or URI that is no [`Identity`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError(String);

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" names no peer: `shard://<cluster>/<node>` or `shard-client://<cluster>/<name>` does, with names of 1 to \
             {} letters, digits, `-`, `_`, `.` and `~`",
            self.0,
            Identity::MAX_LEN
        )
    }
}

impl core::error::Error for IdentityError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_name() {
        let node = Identity::new(Peer::Node, "shop", "node-a").unwrap();
        assert_eq!(node.to_string(), "shard://shop/node-a");
        assert_eq!("shard://shop/node-a".parse(), Ok(node.clone()));
        assert_eq!(node.node(), node_id("node-a"));
        let client: Identity = "shard-client://shop/till_1.x~".parse().unwrap();
        assert_eq!((client.kind(), client.name()), (Peer::Client, "till_1.x~"));
        let long = "n".repeat(255);
        assert!(Identity::new(Peer::Node, "shop", &*long).is_ok());
        assert!(Identity::new(Peer::Node, "shop", long.clone() + "n").is_err());
        for bad in [
            "",
            "shard",
            "shard:shop/a",
            "shard://shop",
            "shard://shop/",
            "shard:///a",
            "shard://shop/a/",
            "shard://shop/a/b",
            "shard://shop/a?b",
            "shard://shop/a#b",
            "shard://shop:1/a",
            "shard://me@shop/a",
            "shard://shop/%61",
            "shard://shop/a b",
            "shard://shop/ä",
            "shard://shop/a\0",
            "SHARD://shop/a",
            "https://shop/a",
            " shard://shop/a",
            "shard://shop/a\n",
        ] {
            assert!(bad.parse::<Identity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_peer_wrote_is_shown_in_one_short_line() {
        let error = format!("shard://x\n{}", "y".repeat(1000)).parse::<Identity>();
        let text = error.unwrap_err().to_string();
        assert!(text.len() < 300 && !text.contains('\n'), "{text}");
    }
}
