package import BundleSigning
package import BundleValues

/// The deltas to a release, from its `deltas.json`. The list grants nothing: a device uses a delta only for a release
/// that it has verified and decided to install.
package struct DeltaList: Sendable, Equatable {
    package struct Delta: Sendable, Equatable {
        /// The version of the base; nil for a seed.
        package let baseVersion: SemanticVersion?
        /// The SHA-256 of the canonical tar of the base.
        package let baseContentSha256: SHA256Digest
        /// The URL of the delta, absolute or relative to the list.
        package let url: String
        /// The size of the delta in bytes.
        package let size: Int
        package let sha256: SHA256Digest
        /// The memory that a device needs to apply it, in bytes, in addition to its usual memory.
        package let memory: Int

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

        /// The name of the base in messages.
        package var baseName: String { baseVersion.map { "\($0)" } ?? "the seed" }
    }

    package let version: SemanticVersion
    /// The SHA-256 of the canonical tar of the release.
    package let contentSha256: SHA256Digest
    package var deltas: [Delta]

    package init(version: SemanticVersion, contentSha256: SHA256Digest, deltas: [Delta]) {
        self.version = version
        self.contentSha256 = contentSha256
        self.deltas = deltas
    }
}

/// The file format of the list: a DSSE envelope of at most 256 KiB.
package enum DeltaListFormat {
    /// The file name, in the folder of the archive.
    package static let fileName = "deltas.json"
    /// The largest list, in bytes.
    package static let maximumBytes = 256 << 10
    package static let payloadType = "application/vnd.swap-clients.deltas.v1+json"

    private static let name = "list of deltas"

    /// Parses the envelope only. Callers verify its signatures before they parse the payload.
    package static func envelope(parsing document: [UInt8]) throws(DocumentRefusal) -> SignedEnvelope {
        try SignedEnvelope(parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
    }

    /// Parses the payload without a check of the signatures.
    package static func parse(_ envelope: SignedEnvelope) throws(DocumentRefusal) -> DeltaList {
        do {
            let value = try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes)
            return try read(try MemberReader(value, of: name))
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    /// Returns the list if the required number of `trusted` keys signed it and it is for the release of `manifest`.
    package static func verify(
        _ envelope: SignedEnvelope, of manifest: Manifest, trusted: TrustedKeys
    ) throws -> DeltaList {
        _ = try trusted.signers(envelope.signatures, over: envelope.message, of: "\(name) of \(manifest.version)")
        let list = try parse(envelope)
        guard list.version == manifest.version, list.contentSha256 == manifest.contentSha256 else {
            throw DocumentRefusal(name, problem: "is for another release, \(list.version)")
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
                throw entry.refusal("url", "is empty or contains a space or control character")
            }
            return DeltaList.Delta(
                baseVersion: try entry.optionalVersion("baseVersion"),
                baseContentSha256: try entry.digest("baseContentSha256"), url: url, size: try entry.integer("size"),
                sha256: try entry.digest("sha256"), memory: try entry.integer("memory"))
        }
        return DeltaList(
            version: try reader.version("version"), contentSha256: try reader.digest("contentSha256"), deltas: deltas)
    }

    /// Returns an unsigned envelope of `list`.
    package static func envelope(of list: DeltaList) -> SignedEnvelope {
        let object: JSONObject = [
            "schema": .integer(1), "version": .string(list.version.description),
            "contentSha256": .string(list.contentSha256.hex), "deltas": .array(list.deltas.map { .object(json($0)) }),
        ]
        return SignedEnvelope(payloadType: payloadType, payload: JSONWriter.bytes(of: .object(object)))
    }

    /// Returns the JSON value of an entry.
    package static func json(_ entry: DeltaList.Delta) -> JSONObject {
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

/// Selects a delta, or the reason to use the archive.
package enum DeltaRule {
    package enum DeltaChoice: Equatable {
        case delta(DeltaList.Delta)
        case archive(DownloadRoute)
    }

    /// Returns the smallest delta on one of `bases` that needs at most `memory` bytes and was not refused before.
    /// `tried` returns the reason of an earlier refusal.
    package static func choose(
        _ list: DeltaList, bases: [SHA256Digest], memory: Int, tried: (SHA256Digest) throws -> String?
    ) rethrows -> DeltaChoice {
        let fitting = list.deltas.filter { bases.contains($0.baseContentSha256) }.sorted { $0.size < $1.size }
        guard let smallest = fitting.first else { return .archive(DownloadRoute(.noMatch)) }
        guard let delta = fitting.first(where: { $0.memory <= memory }) else {
            let detail = "it needs \(ByteCount(bytes: smallest.memory)), this device allows \(ByteCount(bytes: memory))"
            return .archive(DownloadRoute(.tooMuchMemory, "\(detail) (--max-delta-memory)"))
        }
        if let what = try tried(delta.sha256) { return .archive(DownloadRoute(.triedBefore, what)) }
        return .delta(delta)
    }
}
