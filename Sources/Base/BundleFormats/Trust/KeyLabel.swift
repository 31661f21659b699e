import BundleSigning
import BundleValues

/// The rule for labels of keys, such as "Alice, token 2".
package enum KeyLabel {
    /// The length of the longest label, in bytes.
    package static let longest = 64

    /// The rule in words.
    package static let rule =
        "1 to \(longest) bytes of printable text in one line, without a backslash, and with no blank at its start or end"

    /// Returns whether `text` is a label. It then looks the same in a terminal, a log and a page.
    package static func isValid(_ text: String) -> Bool {
        guard (1...longest).contains(text.utf8.count), text.first?.isWhitespace == false,
            text.last?.isWhitespace == false
        else { return false }
        return UntrustedName.display(text) == text
    }
}

/// The names under which keys are shown: the labels that trust roots state.
package struct KeyNames: Sendable {
    private var labels: [String: String] = [:]

    package init() {}

    /// Adds the keys of `root`, which replace those of earlier roots. Keys that it does not have keep their labels.
    package mutating func add(_ root: TrustRoot) {
        for key in root.keys { labels[key.publicKey.id] = key.label }
    }

    /// Returns the label of a key; nil if no root states one.
    package func label(of id: String) -> String? { labels[id].map { UntrustedName.display($0) } }

    /// Returns the label of a key, or its ID.
    package func name(of id: String) -> String { label(of: id) ?? UntrustedName.display(id) }

    /// Returns the label of a key, or the beginning of its ID.
    package func shortName(of id: String) -> String { label(of: id) ?? Self.beginning(of: id) }

    /// Returns the beginning of a key's ID.
    package static func beginning(of id: String) -> String {
        let shown = UntrustedName.display(id)
        return "\(shown.prefix(12))\(shown.utf8.count > 12 ? "…" : "")"
    }
}
