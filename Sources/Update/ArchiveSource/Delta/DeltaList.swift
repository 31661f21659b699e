import BundleCore
package import BundleSigning
package import BundleValues

/// What a release's `deltas.json` says: which deltas lead to it. It grants nothing: a device takes one only to a release that it
/// has verified and decided to install.
package struct DeltaList: Sendable, Equatable {
    /// One delta.
    package struct Entry: Sendable, Equatable {
        /// The version that it builds on; nil for a seed.
        package let baseVersion: SemanticVersion?
        /// SHA-256 of the canonical tar of what it builds on.
        package let baseContentSha256: SHA256Digest
        /// Where it is: absolute, or relative to the list. A hint.
        package let url: String
        /// Its bytes.
        package let size: Int
        /// Its digest.
        package let sha256: SHA256Digest
        /// Bytes that a device needs to take it, beside what it always needs.
        package let memory: Int

        /// States a delta.
        package init(
            baseVersion: SemanticVersion?, baseContentSha256: SHA256Digest, url: String, size: Int,
            sha256: SHA256Digest, memory: Int
        ) {
            self.baseVersion = baseVersion
            self.baseContentSha256 = baseContentSha256
            self.url = url
            self.size = size
            self.sha256 = sha256
            self.memory = memory
        }

        /// What it builds on, in words.
        package var baseName: String { baseVersion.map { "\($0)" } ?? "the seed" }
    }

    /// The release's version.
    package let version: SemanticVersion
    /// SHA-256 of the canonical tar of the release.
    package let contentSha256: SHA256Digest
    /// The deltas, in the order of the document.
    package var deltas: [Entry]

    /// States a list.
    package init(version: SemanticVersion, contentSha256: SHA256Digest, deltas: [Entry]) {
        self.version = version
        self.contentSha256 = contentSha256
        self.deltas = deltas
    }
}

/// The list on the wire: a DSSE envelope of at most 256 KiB.
package enum DeltaListFormat {
    /// Its name, beside the archive.
    package static let fileName = "deltas.json"
    /// The longest list, in bytes.
    package static let maximumBytes = 256 << 10
    /// The payload's type.
    package static let payloadType = "application/vnd.swap-clients.deltas.v1+json"

    private static let name = "list of deltas"

    /// The envelope alone: its signatures come before its payload is read.
    package static func envelope(parsing document: [UInt8]) throws(DocumentRefusal) -> SignedEnvelope {
        try SignedEnvelope(parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
    }

    /// Reads the payload strictly, whoever signed it.
    package static func parse(_ envelope: SignedEnvelope) throws(DocumentRefusal) -> DeltaList {
        do {
            let value = try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes)
            return try read(try MemberReader(value, of: name))
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    /// The list for the release of `manifest`, if as many of `trusted` as must have signed it.
    package static func verify(
        _ envelope: SignedEnvelope, of manifest: Manifest, trusted: TrustedKeys
    ) throws -> DeltaList {
        _ = try trusted.signers(envelope.signatures, over: envelope.message, of: "\(name) of \(manifest.version)")
        let list = try parse(envelope)
        guard list.version == manifest.version, list.contentSha256 == manifest.contentSha256 else {
            throw DocumentRefusal(name, problem: "is that of another release, \(list.version)")
        }
        return list
    }

    private static func read(_ reader: MemberReader) throws -> DeltaList {
        guard try reader.integer("schema") == 1 else {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        let deltas = try reader.objects("deltas").map { entry in
            let url = try entry.string("url")
            if url.isEmpty || url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) {
                throw entry.refusal("url", "is empty or holds a space or control character")
            }
            return DeltaList.Entry(
                baseVersion: try entry.optionalVersion("baseVersion"),
                baseContentSha256: try entry.digest("baseContentSha256"), url: url, size: try entry.integer("size"),
                sha256: try entry.digest("sha256"), memory: try entry.integer("memory"))
        }
        return DeltaList(
            version: try reader.version("version"), contentSha256: try reader.digest("contentSha256"), deltas: deltas)
    }

    /// The unsigned envelope of `list`.
    package static func envelope(of list: DeltaList) -> SignedEnvelope {
        let object: JSONObject = [
            "schema": .integer(1), "version": .string(list.version.description),
            "contentSha256": .string(list.contentSha256.hex), "deltas": .array(list.deltas.map { .object(json($0)) }),
        ]
        return SignedEnvelope(payloadType: payloadType, payload: JSONWriter.bytes(of: .object(object)))
    }

    /// An entry as it stands in the document.
    package static func json(_ entry: DeltaList.Entry) -> JSONObject {
        var object: JSONObject = [:]
        object["baseVersion"] = entry.baseVersion.map { .string($0.description) }
        object["baseContentSha256"] = .string(entry.baseContentSha256.hex)
        object["url"] = .string(entry.url)
        object["size"] = .integer(entry.size)
        object["sha256"] = .string(entry.sha256.hex)
        object["memory"] = .integer(entry.memory)
        return object
    }
}

/// Which delta a device takes, or why it takes the archive. Pure.
enum DeltaRule {
    enum Choice: Equatable {
        case delta(DeltaList.Entry)
        case archive(DownloadRoute)
    }

    /// Of those that build on one of `bases`, the smallest, unless it needs more than `memory` or was tried before: `tried` says
    /// what became of it.
    static func choose(
        _ list: DeltaList, bases: [SHA256Digest], memory: Int, tried: (SHA256Digest) throws -> String?
    ) rethrows -> Choice {
        let fitting = list.deltas.filter { bases.contains($0.baseContentSha256) }.sorted { $0.size < $1.size }
        guard let smallest = fitting.first else { return .archive(DownloadRoute(.noMatch)) }
        guard let delta = fitting.first(where: { $0.memory <= memory }) else {
            let detail = "it needs \(ByteCount(bytes: smallest.memory)), this device gives \(ByteCount(bytes: memory))"
            return .archive(DownloadRoute(.tooMuchMemory, "\(detail) (--max-delta-memory)"))
        }
        if let what = try tried(delta.sha256) { return .archive(DownloadRoute(.triedBefore, what)) }
        return .delta(delta)
    }
}
