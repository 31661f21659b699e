import CLinux

/// The state of the machine's link in NetworkManager.
package enum NetworkManagerLink {
    /// Whether NetworkManager knows or assumes that the link is metered. Waits at most two seconds for the answer.
    package static var isMetered: Bool {
        let value = clinux_network_manager_metered()
        // NM_METERED_YES and NM_METERED_GUESS_YES.
        return value == 1 || value == 3
    }
}
