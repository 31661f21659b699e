import BundleValues
import BundleDisk

/// What the pages of each client complained of since its last launch, such as what the content security policy kept from them:
/// `complaints.json` of a store, for people. Whoever shows pages writes it, alone.
package struct ComplaintFile: Sendable {
    private static let maximumBytes = 1 << 20
    private static let most = 16

    private static let unconfirmed = "nothing that confirms this start, though it confirmed an earlier one"

    /// Returns what `status` shows of a client that confirmed an earlier start and not this one.
    package static func unconfirmed(_ what: String) -> String { "\(unconfirmed) (\(what))" }

    /// Whether `complaint` says that a start was not confirmed.
    package static func isUnconfirmed(_ complaint: String) -> Bool { complaint.hasPrefix(unconfirmed) }

    private let store: String

    /// For the store at `store`.
    package init(store: String) { self.store = store }

    /// By the names of clients; nothing where the file is not there or cannot be read.
    package func read() -> [String: [String]] { (try? Directory.open(store)).map(Self.read) ?? [:] }

    private static func read(_ root: Directory) -> [String: [String]] {
        guard let bytes = try? root.contents(StoreLayout.complaints, maximumBytes: maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: maximumBytes)
        else { return [:] }
        return Dictionary(
            object.members.map { ($0.name, $0.value.arrayValue?.compactMap(\.stringValue) ?? []) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Adds what a page of `name` complained of; each once, and no more than 16.
    package func add(_ complaint: String, of name: ClientName) throws {
        try change { complaints in
            guard complaints[name.description, default: []].count < Self.most else { return }
            if complaints[name.description, default: []].contains(complaint) { return }
            complaints[name.description, default: []].append(complaint)
        }
    }

    /// Begins anew for `name`, which is launched.
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
