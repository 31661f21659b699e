import BundleDisk
import BundleFormats
package import BundleValues

/// `check.json` of a store, which exists while the checks for updates of a running `serve` fail.
package struct CheckFile: Sendable {
    /// The failure of the last check.
    package struct FailedCheck: Sendable, Equatable {
        /// The time of the first check that failed.
        package let since: Timestamp
        package let code: FailureCode
        package let reason: String
    }

    private static let maximumBytes = 1 << 16

    private let store: String

    /// Creates the file's accessor for the store at `store`.
    package init(store: String) { self.store = store }

    /// Returns the failure of the last check; nil if it succeeded, or if the file is unreadable.
    package func read() -> FailedCheck? { (try? Directory.open(store)).flatMap(Self.read) }

    private static func read(_ root: Directory) -> FailedCheck? {
        guard let bytes = try? root.contents(StoreLayout.check, maximumBytes: maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: maximumBytes),
            let since = object["failsSince"]?.stringValue.flatMap({ try? Timestamp(parsing: $0) }),
            let code = object["code"]?.stringValue.flatMap(FailureCode.init(rawValue:)),
            let reason = object["reason"]?.stringValue
        else { return nil }
        return FailedCheck(since: since, code: code, reason: reason)
    }

    /// Records the end of a check at `now`, with its failure or nil. Writes only what changed.
    package func record(_ failure: UpdateFailure?, at now: Timestamp) throws {
        let root = try Directory.open(store)
        let before = Self.read(root)
        guard let failure else {
            if before != nil { try root.removeFile(StoreLayout.check) }
            return
        }
        let after = FailedCheck(
            since: min(before?.since ?? now, now), code: failure.code,
            reason: UntrustedName.display(failure.message, limit: 1000))
        if after == before { return }
        let object: JSONObject = [
            "failsSince": .string(after.since.description), "code": .string(after.code.rawValue),
            "reason": .string(after.reason),
        ]
        try root.replaceFile(
            StoreLayout.check, with: JSONWriter.bytes(of: .object(object), layout: .pretty), mode: 0o600)
    }
}
