import BundleDisk
package import BundleValues
import Synchronization

/// A page that a browser is expected to load.
package struct ScreenNote: Sendable, Equatable {
    /// The reason why a browser has to load a page.
    package enum NoteCause: String, Sendable {
        /// The server started.
        case started
        /// A session ended or the device was locked, so the next user must not see the previous page.
        case replaced
    }

    package let cause: NoteCause
    /// The start of the wait.
    package let since: Timestamp

    package init(_ cause: NoteCause, since: Timestamp) { (self.cause, self.since) = (cause, since) }

    /// The time in seconds after which a missing page is reported.
    private var timeout: Int {
        switch cause {
        case .started: 60
        case .replaced: 10
        }
    }

    /// Returns a message for people at `time`; nil while the page may still be loading.
    package func complaint(at time: Timestamp) -> String? {
        guard time.secondsSinceEpoch - since.secondsSinceEpoch >= timeout else { return nil }
        return switch cause {
        case .started: "no browser has loaded a page since serve started at \(since)"
        case .replaced:
            "a page from before \(since), of an ended session or an unlocked device, may still be on the screen: no browser has "
                + "loaded another page since"
        }
    }
}

/// `screen.json` of a store, which exists while a server waits for a browser to load a page.
package final class ScreenFile: Sendable {
    private static let maximumBytes = 4096

    private let store: String
    private let isWaiting = Mutex(false)

    package init(store: String) { self.store = store }

    /// Returns the expected page; nil if there is none, or if the file is unreadable.
    package func read() -> ScreenNote? {
        guard let root = try? Directory.open(store),
            let bytes = try? root.contents(StoreLayout.screen, maximumBytes: Self.maximumBytes),
            case .object(let object)? = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes),
            let cause = object["waitsSince"]?.stringValue.flatMap({ try? Timestamp(parsing: $0) }),
            let word = object["cause"]?.stringValue.flatMap(ScreenNote.NoteCause.init)
        else { return nil }
        return ScreenNote(word, since: cause)
    }

    /// Records that a browser has to load a page. A failure to write is ignored, so that it does not stop the server.
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

    /// Records that a browser has loaded a page, or that the server ends.
    package func settle() {
        isWaiting.withLock { isWaiting in
            guard isWaiting else { return }
            isWaiting = false
            try? Directory.open(store).removeFile(StoreLayout.screen)
        }
    }
}
