import BundleFormats
import BundleFetch
import BundleValues

extension BucketLocation {
    private static let probeName = ".clientctl-probe"
    private static let probeBytes = Array("clientctl asks here whether conditional writes work.\n".utf8)

    package var probe: FeedWrite? {
        if isProbed || terms.isSingleWriter { return nil }
        return FeedWrite(
            kind: .probe, name: Self.probeName, size: Self.probeBytes.count, headers: headers(of: Self.probeName))
    }

    package func headers(of name: String) -> [(name: String, value: String)] {
        BucketHeaders.of(name, documentMaxAge: terms.documentMaxAge).map { ($0.key.rawValue, $0.value) }
            .sorted { $0.0 < $1.0 }
    }

    /// Tests conditional writes, because some stores accept and ignore the conditions.
    func requireConditions() throws {
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
            .configInvalid, subject: address,
            "The store of \(address) \(what), so two publishers could overwrite each other's work. Use "
                + "another store, or give --single-writer if this is its only writer, permanently.")
    }
}
