import BundleCore
import BundleValues
import BundleDisk
import BundleSigning

/// Finds files of installed clients whose digests match an asset, under any name. It reads each content at most once.
/// Only one thread may use it at a time.
final class ContentSearch {
    fileprivate typealias Name = ArraySlice<UInt8>

    fileprivate struct FoundContent {
        let source: AssetPlan.ExistingFile
        let size: Int
        let digest: SHA256Digest
    }

    /// The files of one size.
    fileprivate struct SizeGroup {
        /// Unread files by their names.
        var unread: [Name: [ReuseIndex.ReuseCandidate]] = [:]
        /// The read contents by the proofs that their digests give.
        var proven: [AssetProof: FoundContent] = [:]
        /// The read contents by digest.
        var digests: Set<SHA256Digest> = []
        let withSHA512: Bool
    }

    private var groups: [Int: SizeGroup] = [:]
    private var folders: [ObjectIdentifier: FolderCache] = [:]

    /// Searches for `assets` only, in the files of `installed` except those of `known`.
    init(_ installed: ReuseIndex, besides known: Set<ClientVersion>, for assets: [MeteorAsset]) throws {
        var withSHA512: [Int: Bool] = [:]
        for asset in assets where asset.hash != nil || asset.sri != nil {
            guard let size = asset.size else { continue }
            withSHA512[size] = withSHA512[size] ?? false || asset.sri != nil
        }
        if withSHA512.isEmpty { return }
        for (size, candidates) in try installed.candidates(ofSizes: Set(withSHA512.keys), besides: known) {
            var group = SizeGroup(withSHA512: withSHA512[size] ?? true)
            for candidate in candidates { group.unread[candidate.record.path.nameBytes, default: []].append(candidate) }
            groups[size] = group
        }
    }

    /// Returns a link to a file with the content of `asset`, or nil if there is none.
    func link(for asset: MeteorAsset) throws -> AssetPlan.AssetLink? {
        let wanted = AssetProof.all(for: asset)
        guard !wanted.isEmpty, let size = asset.size, var group = groups.removeValue(forKey: size) else { return nil }
        defer { groups[size] = group }
        guard let content = try content(wanted, named: asset.file.nameBytes, in: &group) else { return nil }
        return AssetPlan.AssetLink(file: asset.file, source: content.source, size: content.size, digest: content.digest)
    }

    private func content(_ wanted: [AssetProof], named name: Name, in group: inout SizeGroup) throws -> FoundContent? {
        if let known = group.proven(wanted) { return known }
        // Reads files of the same name first, because they most likely match.
        for candidate in group.unread.removeValue(forKey: name) ?? [] { try read(candidate, into: &group) }
        if let found = group.proven(wanted) { return found }
        while let (_, candidates) = group.unread.popFirst() {
            for candidate in candidates { try read(candidate, into: &group) }
            if let found = group.proven(wanted) { return found }
        }
        return nil
    }

    /// Hashes the present content; the digest of a receipt is only a hint.
    private func read(_ candidate: ReuseIndex.ReuseCandidate, into group: inout SizeGroup) throws {
        if group.digests.contains(candidate.record.digest) { return }
        let id = ObjectIdentifier(candidate.tree)
        let cache = folders[id] ?? FolderCache(candidate.tree)
        folders[id] = cache
        guard let file = try cache.file(candidate.record.path) else { return }
        var digester = try AssetDigester(withSHA512: group.withSHA512)
        _ = try file.forEachBlock { try digester.update($0) }
        let digests = try digester.finish()
        guard digests.size == candidate.record.size else { return }
        group.digests.insert(digests.sha256)
        let content = FoundContent(
            source: AssetPlan.ExistingFile(tree: candidate.tree, file: candidate.record.path), size: digests.size,
            digest: digests.sha256)
        for proof in try AssetProof.all(from: digests) { group.proven[proof] = content }
    }
}

extension ContentSearch.SizeGroup {
    fileprivate func proven(_ wanted: [AssetProof]) -> ContentSearch.FoundContent? {
        for proof in wanted { if let content = proven[proof] { return content } }
        return nil
    }
}

/// The kinds of agreement between a manifest and bytes (METEOR section 1.5).
enum AssetProof: Hashable {
    case hash(String)
    case sri([UInt8])

    /// Returns the proofs that would confirm `asset`.
    static func all(for asset: MeteorAsset) -> [AssetProof] {
        (asset.hash.map { [.hash($0)] } ?? []) + (asset.sri.map { [.sri($0)] } ?? [])
    }

    /// Returns the proofs that these digests provide.
    static func all(from digests: AssetDigests) throws(OpenSSLFailure) -> [AssetProof] {
        [.hash(LabelHasher.hex(digests.sha1)), .hash(try digests.publicHash)]
            + (digests.sha512.map { [.sri($0)] } ?? [])
    }
}
