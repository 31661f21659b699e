import BundleFormats
import BundleValues

/// The change of the memory after a feed scan.
package struct FeedUpdate: Sendable, Equatable {
    /// The memory before the scan.
    package let before: FeedMemory
    /// The memory after the scan.
    package let after: FeedMemory

    package init(before: FeedMemory, after: FeedMemory) {
        self.before = before
        self.after = after
    }

    /// Returns `memory` with this change. `memory` may have changed since the scan began: for the trust root, each
    /// channel and the clock, the newer value is kept.
    func added(to memory: FeedMemory) -> FeedMemory {
        var known = memory
        if memory.deviceId == before.deviceId {
            (known.deviceId, known.deviceIdSource) = (after.deviceId, after.deviceIdSource)
        }
        if after.groups != before.groups { known.groups = after.groups }
        if after.channels != before.channels, let channel = after.followed {
            known.follow(newer(of: channel, in: memory))
        }
        known.trust =
            memory.trust == before.trust || rootVersion(memory) <= rootVersion(after) ? after.trust : memory.trust
        if after.neededShell != before.neededShell { known.neededShell = after.neededShell }
        // The clock may go back after the key that signed a wrong time was replaced.
        known.clock = memory.clock == before.clock ? after.clock : [memory.clock, after.clock].compactMap(\.self).max()
        return known
    }

    private func rootVersion(_ memory: FeedMemory) -> Int { memory.trust?.version ?? 0 }

    /// Returns the newer of `channel` and the one in `memory`: by the root's version, then by sequence. It keeps the
    /// recalls and the minimum version of the older one.
    private func newer(of channel: FeedMemory.ChannelMemory, in memory: FeedMemory) -> FeedMemory.ChannelMemory {
        guard let other = memory.channel(channel.name), other != before.channel(channel.name) else { return channel }
        if rootVersion(memory) != rootVersion(after) {
            return rootVersion(memory) > rootVersion(after) ? other : channel
        }
        return other.sequence >= channel.sequence ? other.following(channel) : channel.following(other)
    }
}
