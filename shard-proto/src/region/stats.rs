//! What a region counted.

/// Counters since the region was made; they saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionStats {
    /// Messages given to entities here.
    pub delivered: u64,
    /// Messages of this node sent to another.
    pub sent: u64,
    /// Messages put into the buffer.
    pub buffered: u64,
    /// Messages of other nodes sent back because the shard is elsewhere.
    pub returned: u64,
    /// Messages of other nodes sent back because a buffer was full.
    pub returned_full: u64,
    /// Messages of this node that came back because the shard had moved.
    pub came_back: u64,
    /// Messages of this node not taken because a buffer was full, here or there.
    pub rejected_full: u64,
    /// Messages of this node reported because the region stopped.
    pub rejected_stopped: u64,
    /// Messages of this node that came back after their path had been given up.
    pub rejected_given_up: u64,
    /// Messages of other nodes whose incarnation ended while they waited here.
    pub rejected_origin_ended: u64,
    /// Envelopes and markers from no member, or for no shard. Worth a warning.
    pub refused_envelopes: u64,
    /// Returns and answers to markers that nothing was outstanding for. Answers to a marker that was sent twice are
    /// counted, too; many of them, or any returns, are worth a warning.
    pub refused_returns: u64,
    /// Directives from another node than the adopted leader, of another term, or malformed. Worth a warning.
    pub refused_directives: u64,
    /// Markers for which no buffer slot was left; their origins send them again.
    pub dropped_markers: u64,
    /// Grants taken.
    pub grants: u64,
    /// Grants not taken, and answered.
    pub refused_grants: u64,
    /// Grants dropped since the lease was not valid.
    pub dropped_grants: u64,
    /// Handoffs begun.
    pub handoffs: u64,
    /// Shards whose drain was cut short.
    pub forced_stops: u64,
    /// Times the lease lapsed or the session ended while something was hosted.
    pub lapses: u64,
    /// Paths flushed.
    pub flushed: u64,
    /// Paths given up because the old home's incarnation had ended.
    pub paths_ended: u64,
    /// Paths given up because the old home's lease had lapsed.
    pub paths_lapsed: u64,
    /// Paths given up because the old home did not answer in time.
    pub paths_timed_out: u64,
    /// Questions for a home.
    pub asks: u64,
    /// Parts of registrations.
    pub registers: u64,
}

pub(super) const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
