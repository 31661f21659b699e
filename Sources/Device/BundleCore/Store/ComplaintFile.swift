import BundleFormats
import BundleValues
import BundleDisk

/// The errors of each client's pages since its last launch, such as violations of the content security policy.
/// `complaints.json` of a store stores them for people. Only the shell that shows the pages writes it.
package struct ComplaintFile: Sendable {
    private static let maximumBytes = 1 << 20
    private static let most = 16

    private static let unconfirmed = "nothing that confirms this start, though it confirmed an earlier one"

    /// Returns the text for a client that confirmed an earlier start but not this one.
    package static func unconfirmed(_ what: String) -> String { "\(unconfirmed) (\(what))" }

    /// Returns whether `complaint` is about an unconfirmed start.
    package static func isUnconfirmed(_ complaint: String) -> Bool { complaint.hasPrefix(unconfirmed) }

    private let store: String

    /// Creates the file's accessor for the store at `store`.
    package init(store: String) { self.store = store }

    /// Returns the errors by client name; empty if the file is missing or unreadable.
    package func read() -> [String: [String]] { (try? Directory.open(store)).map(Self.read) ?? [:] }

    private static func read(_ root: Directory) -> [String: [String]] {
        guard let bytes = try? root.contents(StoreLayout.complaints, maximumBytes: maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: maximumBytes)
        else { return [:] }
        return Dictionary(
            object.members.map { ($0.name, $0.value.arrayValue?.compactMap(\.stringValue) ?? []) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Adds an error of a page of `name`, unless it is there already or there are 16.
    package func add(_ complaint: String, of name: ClientName) throws {
        try change { complaints in
            guard complaints[name.description, default: []].count < Self.most else { return }
            if complaints[name.description, default: []].contains(complaint) { return }
            complaints[name.description, default: []].append(complaint)
        }
    }

    /// Removes the errors of `name`, which is being launched.
    package func clear(_ name: ClientName) throws { try change { $0[name.description] = nil } }

    private func change(_ body: (inout [String: [String]]) -> Void) throws {
        let root = try Directory.open(store)
        let before = Self.read(root)
        var after = before
        body(&after)
        if after == before { return }
        let there = Set(try Inventory.read(at: store).bundles.map(\.name.description))
        let kept = after.filter { $0.key == ClientName.embedded.description || there.contains($0.key) }
        var object: JSONObject = [:]
        for (name, complaints) in kept.sorted(by: { $0.key < $1.key }) {
            object[name] = .array(complaints.map(JSONValue.string))
        }
        try root.replaceFile(
            StoreLayout.complaints, with: JSONWriter.bytes(of: .object(object), layout: .pretty), mode: 0o600)
    }
}
