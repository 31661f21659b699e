import BundleValues

@testable import BundlePublish

/// A location that calls back before it reads a file or removes a release. It has no lock, like a bucket.
final class HookedLocation: FeedLocation {
    let inner: any FeedLocation
    var beforeRead: (String) -> Void = { _ in }
    var beforeRemoval: (String) throws -> Void = { _ in }
    var afterWrite: (String) throws -> Void = { _ in }

    init(_ inner: any FeedLocation) { self.inner = inner }

    var address: LocationAddress { inner.address }
    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        beforeRead(name)
        return try inner.read(name, maximumBytes: maximumBytes)
    }
    func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        try inner.stream(name, maximumBytes: maximumBytes, body: body)
    }
    func create(_ name: String, with content: FeedContent) throws -> Bool {
        let isNew = try inner.create(name, with: content)
        try afterWrite(name)
        return isNew
    }
    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        try inner.replace(name, with: bytes, version: version)
        try afterWrite(name)
    }
    func remove(_ name: String) throws {
        if name.hasSuffix("/") { try beforeRemoval(name) }
        try inner.remove(name)
    }
    func list(_ folder: String) throws -> [FeedEntry] { try inner.list(folder) }
}
