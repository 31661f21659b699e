import BundleDisk
package import BundleValues
import Synchronization

/// Whether the page that should be on the screen is there, as far as a server knows.
package struct ScreenNote: Sendable, Equatable {
    /// Why a browser has to load a page.
    package enum Cause: String, Sendable {
        /// The server started.
        case started
        /// A session ended, or the device was locked: the page of before is for nobody who comes.
        case replaced
    }

    /// Why a page is expected.
    package let cause: Cause
    /// Since when.
    package let since: Timestamp

    /// States what is expected.
    package init(_ cause: Cause, since: Timestamp) { (self.cause, self.since) = (cause, since) }

    /// How long each may take, in seconds.
    private var patience: Int {
        switch cause {
        case .started: 60
        case .replaced: 10
        }
    }

    /// What that means at `time`, for people; nil while it may be on its way. Pure.
    package func complaint(at time: Timestamp) -> String? {
        guard time.secondsSinceEpoch - since.secondsSinceEpoch >= patience else { return nil }
        return switch cause {
        case .started: "no browser has loaded a page since serve started at \(since)"
        case .replaced:
            "the page of before \(since), of a session that ended or a device that was not locked, may still be on the screen: no browser has "
                + "loaded another one since"
        }
    }
}

/// What a server that shows pages waits for: `screen.json` of a store, which is there as long as it waits.
package final class ScreenFile: Sendable {
    private static let maximumBytes = 4096

    private let store: String
    private let isWaiting = Mutex(false)

    /// For the store at `store`.
    package init(store: String) { self.store = store }

    /// What is waited for; nil for nothing, and where it cannot be read.
    package func read() -> ScreenNote? {
        guard let root = try? Directory.open(store),
            let bytes = try? root.contents(StoreLayout.screen, maximumBytes: Self.maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes),
            let cause = object["waitsSince"]?.stringValue.flatMap({ try? Timestamp(parsing: $0) }),
            let word = object["cause"]?.stringValue.flatMap(ScreenNote.Cause.init)
        else { return nil }
        return ScreenNote(word, since: cause)
    }

    /// Notes that a browser has to load a page. A disk that takes no notes keeps no page from being shown.
    package func expect(_ note: ScreenNote) {
        isWaiting.withLock { isWaiting in
            isWaiting = true
            let object: JSONObject = [
                "cause": .string(note.cause.rawValue), "waitsSince": .string(note.since.description),
            ]
            let bytes = JSONWriter.bytes(of: .object(object), layout: .pretty)
            try? Directory.open(store).replaceFile(StoreLayout.screen, with: bytes, mode: 0o600)
        }
    }

    /// A browser has loaded a page, or the server ends.
    package func settle() {
        isWaiting.withLock { isWaiting in
            guard isWaiting else { return }
            isWaiting = false
            try? Directory.open(store).removeFile(StoreLayout.screen)
        }
    }
}
