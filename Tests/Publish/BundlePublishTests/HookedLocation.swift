import BundleValues

@testable import BundlePublish

/// A location that calls back before it reads a file or removes a release. Without a lock, it behaves like a bucket.
final class HookedLocation: FeedLocation {
    let inner: any FeedLocation
    var beforeRead: (String) -> Void = { _ in }
    var beforeRemoval: (String) throws -> Void = { _ in }
    var hasLock = false

    init(_ inner: any FeedLocation) { self.inner = inner }

    var address: String { inner.address }
    var folder: String? { nil }
    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        beforeRead(name)
        return try inner.read(name, maximumBytes: maximumBytes)
    }
    func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        try inner.stream(name, maximumBytes: maximumBytes, body: body)
    }
    func create(_ name: String, with content: FeedContent) throws -> Bool { try inner.create(name, with: content) }
    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        try inner.replace(name, with: bytes, version: version)
    }
    func remove(_ name: String) throws { try inner.remove(name) }
    func removeRelease(_ release: String) throws {
        try beforeRemoval(release)
        try inner.removeRelease(release)
    }
    func list(_ folder: String) throws -> [FeedEntry] { try inner.list(folder) }
    func isIncomplete(_ release: String) throws -> Bool { try inner.isIncomplete(release) }
    func draft(_ wait: FeedWait) throws -> any ReleaseDraft { try inner.draft(wait) }
    func make() throws { try inner.make() }
    func requireExists() throws { try inner.requireExists() }
    func sync(_ folder: String) throws { try inner.sync(folder) }
    func locked<Answer>(_ wait: FeedWait, work: () throws -> Answer) throws -> Answer { try work() }
}
