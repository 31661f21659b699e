// fuzz: max_len=65536
// fuzz: seeds=Fixtures/benign Fixtures/hostile
//
// Unpacks an archive to a staging area with the reader, policy and writer of installations.
@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleArchive
@testable import BundleCore
@testable import BundleValues
@testable import BundleDisk
@testable import BundleSigning

private let limits: ArchiveLimits = {
    var limits = ArchiveLimits()
    (limits.installedBytes, limits.fileBytes, limits.entries) = (4 << 20, 1 << 20, 128)
    (limits.ratioGrace, limits.time) = (8 << 20, .seconds(8))
    return limits
}()

private let canary = Array("canary".utf8)
private let identity: BundleIdentity = {
    guard let version = try? SemanticVersion(parsing: "1.0.0"), let shells = try? ShellRange(minimum: version) else {
        fatalError("a plain version is valid")
    }
    return BundleIdentity(version: version, shells: shells)
}()

func fuzz(_ input: [UInt8]) throws {
    try install(input)
    let mended = withFittingChecksums(input)
    if mended != input { try install(mended) }
}

/// Returns the tar with correct checksums. Otherwise the reader would reject each changed header because of its checksum.
private func withFittingChecksums(_ input: [UInt8]) -> [UInt8] {
    var tar = input
    guard ArchiveFormat(sniffing: input) == .tar else { return tar }
    for start in stride(from: 0, to: input.count - 511, by: 512)
    where input[start + 257..<start + 262].elementsEqual("ustar".utf8) {
        tar.replaceSubrange(start + 148..<start + 156, with: repeatElement(0x20, count: 8))
        let digits = String(tar[start..<start + 512].reduce(0) { $0 + Int($1) }, radix: 8)
        let field = String(repeating: "0", count: 6 - digits.utf8.count) + digits + "\0 "
        tar.replaceSubrange(start + 148..<start + 156, with: field.utf8)
    }
    return tar
}

private func install(_ input: [UInt8]) throws {
    let outer = try TemporaryDirectory()
    let folder = try outer.directory.directory(creating: "attempt")
    for place in [outer.directory, folder] { try canary.withUnsafeBytes { try place.createFile("canary", with: $0) } }
    try input.withUnsafeBytes { try outer.directory.createFile("archive", with: $0) }

    let area = try area(folder)
    let content = try unpack(outer.directory.file("archive"), size: input.count, into: area)
    try require(names(outer.directory) == ["archive", "attempt", "canary"], "no file is created next to the attempt")
    try require(
        names(folder) == ["canary", "downloads", "receipt.json", "tree"], "no file is created next to the tree")
    try require(names(area.downloads).isEmpty, "no file is created in the downloads")
    for place in [outer.directory, folder] {
        try require(place.contents("canary", maximumBytes: 64) == canary, "files outside are unchanged")
    }
    try checkVerifier(outer.directory, size: input.count, content)
    guard let content else { return }
    var total = 0
    try checkTree(area.tree, depth: 1, &total)
    require(total <= limits.installedBytes, "the size is within the limit")
    guard case .file? = try area.tree.kind(of: "index.html") else {
        fatalError("an accepted client contains an index.html")
    }
    try require(CanonicalTree(area.tree).digest() == content, "the digest is that of the tree")
}

private func area(_ folder: Directory) throws -> StagingArea {
    StagingArea(
        folder: folder, name: "attempt", tree: try folder.directory(creating: "tree"),
        downloads: try folder.directory(creating: "downloads"),
        inventory: Inventory(path: folder.path, ledger: Ledger(), bundles: []), reserveBytes: 0, hasSeedRoot: false)
}

/// Runs the steps of `ArchiveUnpacker` for unsigned bytes. Returns nil for a refused archive.
private func unpack(_ file: File, size: Int, into area: StagingArea) throws -> SHA256Digest? {
    let writer = try TreeWriter(
        area: area, reusing: ReuseIndex([], in: area.folder), receipt: area.receipt(for: identity, manifest: .null))
    do {
        var (summary, sink) = try ArchiveContents.walk(
            file, size: size, expectedFiles: nil, limits: limits, into: writer)
        let receipt = try sink.finish()
        let content = try summary.contentSha256 ?? CanonicalTree(area.tree).digest()
        let staged = try area.seal(receipt, contentSha256: content, bytesDownloaded: 0)
        require(staged.fileCount == summary.fileCount, "the receipt counts every file")
        require(staged.installedSize == summary.installedSize, "the receipt contains the total size")
        return content
    } catch is ArchiveRejection {
        return nil
    }
}

/// Checks that a verification without installation has the same result.
private func checkVerifier(_ outer: Directory, size: Int, _ content: SHA256Digest?) throws {
    let manifest = Manifest(
        version: try SemanticVersion(parsing: "1.0.0"), url: "x", sha256: try .of([]), shells: try shells())
    let verified: SHA256Digest?
    do {
        verified = try ArchiveVerifier.check(
            try outer.file("archive"), size: size, of: manifest, limits: limits,
            scratch: try outer.directory(creating: "verifier")
        ).sha256
    } catch is ArchiveRejection {
        verified = nil
    }
    require(verified == content, "installer and verifier agree")
}

private func shells() throws -> ShellRange { try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")) }

private func names(_ folder: Directory) throws -> [String] { try folder.list().sorted() }

private func checkTree(_ folder: Directory, depth: Int, _ total: inout Int) throws {
    require(depth <= BundlePath.maximumComponents, "the depth is bounded")
    for entry in try folder.entries() {
        let name = require(String(validating: entry.name, as: UTF8.self), "a name is UTF-8")
        require((try? BundlePath(parsing: name)) != nil, "a name follows the rules")
        switch try folder.kind(of: name) {
        case .directory?: try checkTree(try folder.directory(name), depth: depth + 1, &total)
        case .file(let size)?: total += size
        default: fatalError("neither a file nor a folder: \(folder.path)/\(name)")
        }
    }
}
