/// The facts about an installed client that pages may read before it runs.
package struct ClientFacts: Sendable, Equatable {
    /// The sum of the files' sizes in bytes.
    package let size: Int
    /// The beginning of the release notes; nil if there are none.
    package let notes: String?
    /// Whether its channel marks it as urgent.
    package let isUrgent: Bool

    /// Describes `name`. Returns nil for the seed and for a client that is not installed.
    package init?(_ name: ClientName, _ ledger: Ledger) {
        guard let version = name.version, let entry = ledger.entry(version) else { return nil }
        (size, notes, isUrgent) = (entry.installedSize, entry.notes, ledger.isUrgent(version))
    }
}
