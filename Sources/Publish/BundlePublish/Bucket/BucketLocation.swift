import BundleDisk
package import BundleFetch
import BundleFormats
import BundleSigning
import BundleValues
import CLibrary

/// A feed as objects below a prefix of a bucket. Each write states the version that was read, and the store rejects a write to another version.
package final class BucketLocation: FeedLocation {
    package let address: LocationAddress
    private let client: ObjectClient
    private let prefix: String
    let terms: BucketTerms
    private var isProbed = false
    /// Whether `If-Match` needs an entity tag without quotes, as in radosgw.
    private var takesBareTags = false

    /// Uses the feed at `address` with requests of `client`.
    package init(_ address: BucketAddress, client: ObjectClient, terms: BucketTerms) {
        self.address = .bucket(address)
        prefix = address.prefix
        self.client = client
        self.terms = terms
    }

    // MARK: Files

    package func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        let response = try send(ObjectRequest(.get, try key(name)), maximumBytes: maximumBytes).response
        guard try isFound(response, at: name) else { return nil }
        guard let tag = response.entityTag, !tag.isEmpty else {
            throw UpdateFailure(
                .configInvalid, subject: shown(name),
                "The store sends no ETag for \(shown(name)), so concurrent changes cannot be detected. Use another store."
            )
        }
        return FeedRecord(response.body, version: FeedVersion(tag))
    }

    package func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool {
        let request = ObjectRequest(.get, try key(name))
        return try isFound(try send(request, maximumBytes: maximumBytes, receive: body).response, at: name)
    }

    private func isFound(_ response: ObjectResponse, at name: String) throws -> Bool {
        switch response.status {
        case 200: return true
        case 404 where StoreRefusal(response).code != "NoSuchBucket": return false
        default: throw refusal(response, at: name)
        }
    }

    package func create(_ name: String, with content: FeedContent) throws -> Bool {
        try requireConditions()
        if terms.isSingleWriter, try exists(name) { return false }
        let body: ObjectRequest.ObjectContent =
            switch content {
            case .bytes(let bytes): .bytes(bytes)
            case .file(let file): .file(file)
            }
        let (response, isInDoubt) = try put(
            name, body: body, condition: terms.isSingleWriter ? [:] : [.ifNoneMatch: "*"], repeats409: true)
        switch response.status {
        case 200, 201, 204:
            try requireReadBack(name, of: content)
            return true
        case 409, 412:
            // A request whose response was lost may have succeeded.
            return try isInDoubt && holds(name, digest: content.sha256(), size: content.size()) == true
        default: throw refusal(response, at: name)
        }
    }

    package func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        try requireConditions()
        if terms.isSingleWriter, try read(name, maximumBytes: Self.largestDocument)?.version != version {
            throw FeedConflict(name, in: self)
        }
        let condition: [ObjectRequest.Header: String] =
            terms.isSingleWriter ? [:] : version.map { match($0, bare: takesBareTags) } ?? [.ifNoneMatch: "*"]
        let (response, isInDoubt) = try put(name, body: .bytes(bytes), condition: condition, repeats409: false)
        switch response.status {
        case 200, 201, 204: return
        case 404 where StoreRefusal(response).code == "NoSuchBucket": throw refusal(response, at: name)
        case 404, 409, 412:
            if isInDoubt, try read(name, maximumBytes: Self.largestDocument)?.bytes == bytes { return }
            throw FeedConflict(name, in: self)
        default: throw refusal(response, at: name)
        }
    }

    package func remove(_ name: String) throws {
        if name.hasSuffix("/") { return try removeFiles(below: name) }
        let response = try send(ObjectRequest(.delete, try key(name)), maximumBytes: 0).response
        if ![200, 204, 404].contains(response.status) { throw refusal(response, at: name) }
    }

    private func exists(_ name: String) throws -> Bool {
        do {
            return try stream(name, maximumBytes: .max) { _ in throw FileExists() }
        } catch is FileExists {
            return true
        }
    }

    /// Ends the transfer of an existing file.
    private struct FileExists: Error {}

    /// Reads a file back, because not every store verifies the signed digest of a body.
    private func requireReadBack(_ name: String, of content: FeedContent) throws {
        guard try holds(name, digest: content.sha256(), size: content.size()) == true else {
            throw UpdateFailure(
                .digestMismatch, subject: shown(name),
                "The store returns other bytes for \(shown(name)) than were uploaded. Remove the file, and check the store and any proxy."
            )
        }
    }

    package func list(_ folder: String) throws -> [FeedEntry] {
        let whole = [prefix, folder].filter { !$0.isEmpty }.map { $0 + "/" }.joined()
        let top = prefix.isEmpty ? "" : prefix + "/"
        var entries: [FeedEntry] = []
        var token: String?
        var seen: Set<String> = []
        repeat {
            var request = ObjectRequest(.get, nil)
            request.query = ["list-type": "2"]
            // Up to the first slash, which stores and old versions of libcurl encode differently.
            if let start = whole.split(separator: "/").first { request.query["prefix"] = String(start) }
            request.query["continuation-token"] = token
            let response = try send(request, maximumBytes: 16 << 20).response
            guard response.status == 200 else { throw refusal(response, at: folder) }
            let page = ObjectListing(response.body)
            for object in page.objects where object.name.hasPrefix(whole) {
                let name = String(object.name.dropFirst(top.count))
                if !name.hasPrefix("."), !name.contains("/.") {
                    entries.append(FeedEntry(name: name, size: object.size, written: object.written))
                }
            }
            token = page.next
            // A page has up to a thousand names, and each page has a different token.
            if let token, !seen.insert(token).inserted || seen.count >= Self.mostPages { throw endless }
            if entries.count > Self.mostFiles { throw endless }
        } while token != nil
        return entries
    }

    private var endless: FetchError {
        .invalidResponse(client.bucket, reason: "its list of files does not end. Check the store and any proxy")
    }

    // MARK: Requests

    static let largestDocument = 64 << 20
    private static let mostPages = 1000
    private static let mostFiles = 1_000_000

    private func shown(_ name: String) -> String { "\(address)/\(UntrustedName.display(name))" }

    private func key(_ name: String) throws -> ObjectKey {
        if let key = ObjectKey(prefix.isEmpty ? name : "\(prefix)/\(name)") { return key }
        throw UpdateFailure(
            .configInvalid, subject: shown(name),
            "\(shown(name)) cannot be an object key. Use letters, digits and ._~- only, and no version with a plus sign."
        )
    }

    func put(
        _ name: String, body: ObjectRequest.ObjectContent, condition: [ObjectRequest.Header: String], repeats409: Bool
    ) throws -> (response: ObjectResponse, isInDoubt: Bool) {
        var request = ObjectRequest(.put, try key(name))
        request.body = body
        request.headers = BucketHeaders.of(name, documentMaxAge: terms.documentMaxAge)
        request.headers.merge(condition) { $1 }
        return try send(request, maximumBytes: 64 << 10, repeats409: repeats409)
    }

    /// Sends a request, and repeats it if it may succeed later. A response is in doubt if an earlier one was lost or an error
    /// of the store, because that request may have succeeded.
    private func send(
        _ request: ObjectRequest, maximumBytes: Int, repeats409: Bool = false,
        receive: ((UnsafeRawBufferPointer) throws -> Void)? = nil
    ) throws -> (response: ObjectResponse, isInDoubt: Bool) {
        var isInDoubt = false
        var isReceiving = false
        for attempt in 1... {
            let isLast = attempt >= terms.attempts
            do {
                let response = try client.send(
                    request, maximumBytes: maximumBytes,
                    receive: receive.map { receive in
                        {
                            isReceiving = true
                            try receive($0)
                        }
                    })
                let mayPass =
                    [408, 429, 500, 502, 503, 504].contains(response.status) || repeats409 && response.status == 409
                if isLast || !mayPass { return (response, isInDoubt) }
                isInDoubt = isInDoubt || response.status >= 500
                pause(after: attempt, asked: response.retryAfter)
            } catch let error as FetchError where !isLast && !isReceiving && error.mayPass {
                isInDoubt = true
                pause(after: attempt, asked: nil)
            }
        }
        throw FetchError.timedOut(client.bucket)
    }

    private func pause(after attempt: Int, asked: Duration?) {
        let least = terms.firstPause / .microseconds(1) * Double(1 << (attempt - 1))
        let asked = min(asked ?? .zero, .seconds(30)) / .microseconds(1)
        usleep(UInt32(max(Double.random(in: least...2 * least), asked)))
    }

    func refusal(_ response: ObjectResponse, at name: String) -> UpdateFailure {
        StoreRefusal(response).failure(at: shown(name))
    }
}

extension FetchError {
    /// Whether the same request may succeed later.
    fileprivate var mayPass: Bool {
        switch self {
        case .unreachable, .tooSlow, .timedOut: true
        default: false
        }
    }
}

extension BucketLocation {
    private static let probeName = ".clientctl-probe"
    private static let probeBytes = Array("clientctl asks here whether conditional writes work.\n".utf8)

    package func requests(of write: FeedWrite, isFirst: Bool) -> [FeedWrite] {
        func described(_ kind: FeedWrite.Kind, _ name: String, size: Int) -> FeedWrite {
            let headers = kind == .remove ? [:] : BucketHeaders.of(name, documentMaxAge: terms.documentMaxAge)
            return FeedWrite(
                kind: kind, name: name, size: size,
                headers: headers.map { ($0.key.rawValue, $0.value) }.sorted { $0.0 < $1.0 })
        }
        let hasProbe = isFirst && !isProbed && !terms.isSingleWriter
        return (hasProbe ? [described(.probe, Self.probeName, size: Self.probeBytes.count)] : [])
            + [described(write.kind, write.name, size: write.size)]
    }

    /// Tests conditional writes, because some stores accept and ignore the conditions.
    private func requireConditions() throws {
        if isProbed || terms.isSingleWriter { return }
        let name = Self.probeName
        let bytes = ObjectRequest.ObjectContent.bytes(Self.probeBytes)
        let first = try put(name, body: bytes, condition: [.ifNoneMatch: "*"], repeats409: false).response
        guard [200, 201, 204, 409, 412].contains(first.status) else { throw unprobed(first, at: name) }
        for condition in [[.ifNoneMatch: "*"], match(Self.noVersion, bare: false)] {
            try requireRefused(condition)
        }
        for _ in 1...terms.attempts {
            // A store that rejects everything does not have the file.
            guard let version = try probedVersion() else { throw unprobed(first, at: name) }
            // A store that rejects valid conditions would turn every change into a conflict.
            var last = first
            for bare in [false, true] {
                let (answer, isInDoubt) = try put(
                    name, body: bytes, condition: match(version, bare: bare), repeats409: true)
                last = answer
                let isTaken = [200, 201, 204].contains(last.status)
                guard isTaken || [404, 409, 412].contains(last.status) else { throw unprobed(last, at: name) }
                // A request whose response was lost may have succeeded.
                if try isTaken || isInDoubt && probedVersion() != version {
                    if bare { try requireRefused(match(Self.noVersion, bare: true)) }
                    (isProbed, takesBareTags) = (true, bare)
                    return
                }
            }
            // Another publisher may have probed at the same time.
            if try probedVersion() == version { throw unprobed(last, at: name) }
        }
        throw FeedConflict(name, in: self)
    }

    private func probedVersion() throws -> FeedVersion? {
        try read(Self.probeName, maximumBytes: Self.largestDocument)?.version
    }

    private static let noVersion = FeedVersion("\"00000000000000000000000000000000\"")

    func match(_ version: FeedVersion, bare: Bool) -> [ObjectRequest.Header: String] {
        let tag = version.token
        return [.ifMatch: bare && tag.utf8.count > 2 && tag.hasPrefix("\"") ? String(tag.dropFirst().dropLast()) : tag]
    }

    private func requireRefused(_ condition: [ObjectRequest.Header: String]) throws {
        let answer = try put(Self.probeName, body: .bytes(Self.probeBytes), condition: condition, repeats409: false)
            .response
        guard [409, 412].contains(answer.status) else { throw unprobed(answer, at: Self.probeName) }
    }

    private func unprobed(_ response: ObjectResponse, at name: String) -> UpdateFailure {
        let isAboutConditions = [200, 201, 204, 400, 405, 409, 412, 501].contains(response.status)
        guard isAboutConditions, StoreRefusal(response).isAboutRequest == false else {
            return refusal(response, at: name)
        }
        let what =
            response.status < 300
            ? "ignores the condition of a conditional write" : "responds with \(response.status) to a conditional write"
        return UpdateFailure(
            .configInvalid, subject: "\(address)",
            "The store of \(address) \(what), so two publishers could overwrite each other's work. Use "
                + "another store, or give --single-writer if this is its only writer, permanently.")
    }
}
