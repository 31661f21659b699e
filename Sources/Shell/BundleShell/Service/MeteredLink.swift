import BundleDisk
import BundleValues

/// Whether the bytes of a device's link cost money, as NetworkManager reports it.
package enum MeteredLink {
    /// Returns whether NetworkManager knows or assumes that the link is metered; false without NetworkManager.
    package static func isMetered() async -> Bool {
        (try? await onThread { NetworkManagerLink.isMetered }) ?? false
    }
}
