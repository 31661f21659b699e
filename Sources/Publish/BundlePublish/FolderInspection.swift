package import BundleFormats
import BundleArchive
package import BundleDisk
import BundleSigning
import BundleValues
import CLibrary

/// A folder that is to be published, and the findings about it.
package struct FolderInspection: Sendable {
    /// The kinds of files that can be omitted.
    package enum Drop: String, Sendable, CaseIterable {
        case precompressed, maps, junk
    }

    /// The published files.
    package let tree: CanonicalTree
    /// The findings about published files.
    package let findings: [FolderFinding]
    /// The findings about omitted files.
    package let dropped: [FolderFinding]
    /// The patterns of --exclude that match nothing.
    package let unmatched: [String]
    /// The origins that `index.html` declares.
    package let origins: ReleaseOrigins
    /// The source maps of the folder, whether published or not.
    let maps: [BundlePath]

    /// Inspects `folder`. `allowed` files cause no findings. In the folder of a program, only junk does.
    package init(
        _ folder: Directory, excluding excluded: [PathPattern], dropping drops: Set<Drop>, allowed: [PathPattern] = [],
        isProgram: Bool = false
    ) throws {
        let named = excluded + (drops.contains(.junk) ? FolderRule.junk : [])
        let whole = try CanonicalTree(folder, excluding: named)
        // The other findings are about pages.
        let facts =
            isProgram
            ? whole.entries.map { FolderFacts($0.path, size: $0.size) } : try FolderFactsReader(whole).facts()
        let found = FolderRule(allowed: allowed).findings(of: facts).filter { !isProgram || $0.code == .junk }
        origins = facts.lazy.compactMap(\.origins).first ?? ReleaseOrigins()
        let codes = Set(drops.map(\.code))
        let gone = Set(found.filter { codes.contains($0.code) }.map(\.path))
        tree = whole.leavingOut(gone)
        unmatched = excluded.filter(Set(whole.unmatched).contains).map(\.text)
        findings = found.filter { !gone.contains($0.path) }
        dropped = found.filter { codes.contains($0.code) }
        maps = found.filter { $0.code == .maps }.map(\.path)
    }

    /// Throws if the files have more bytes than `budget` allows over `previous`, the release before.
    func requireBudget(_ budget: ReleaseBudget, over previous: UnverifiedManifest?, of source: String) throws {
        guard let excess = budget.excess(of: tree.totalBytes, over: previous?.claims.installedSize) else { return }
        let size = "\(source) has \(ByteCount(bytes: tree.totalBytes))"
        let what =
            switch excess {
            case .size(let more): "\(size), \(ByteCount(bytes: more)) more than --budget allows."
            case .growth(let more, let allowed):
                "\(size), \(ByteCount(bytes: more)) more than \(previous.map { "\($0.claims.version)" } ?? ""), and --budget "
                    + "allows \(ByteCount(bytes: allowed)) more."
            }
        let large = tree.entries.sorted { $0.size > $1.size }.prefix(5)
        let names = large.map { "\($0.path) \(ByteCount(bytes: $0.size))" }.joined(separator: ", ")
        throw UpdateFailure(
            .overBudget, subject: source,
            "\(what) The largest files: \(names). Make them smaller, exclude files with --exclude, or raise --budget.")
    }

    /// Throws if `index.html` loads scripts that are not in the folder, because no device could start it. `--allow
    /// missingScript` permits all of them; a name or a path permits one.
    func requireScripts(allowing allowed: [PathPattern], of source: String) throws {
        if allowed.contains(where: { $0.text == FolderFinding.Code.missingScript.rawValue }) { return }
        let missing = findings.filter { $0.code == .missingScript }.compactMap(\.target).filter { path in
            !allowed.contains { $0.covers(path) }
        }.map { UntrustedName.display($0) }
        guard let first = missing.first else { return }
        let names = missing.prefix(20).joined(separator: ", ") + (missing.count > 20 ? " and others" : "")
        throw UpdateFailure(
            .archiveRejected, subject: "missing-script: \(first)",
            "Not published. \(source)/index.html loads \(missing.count == 1 ? "a script" : "\(missing.count) scripts") that the "
                + "folder does not have: \(names). Build the client again, or publish it with --allow missingScript.")
    }

    /// Throws if `index.html` declares something that is not an origin, because devices would ignore it.
    func requireOrigins(of source: String) throws {
        guard let first = origins.faults.first else { return }
        let more = origins.faults.count - 1
        throw UpdateFailure(
            .archiveRejected,
            subject: "declaration: \(UntrustedName.display(first.value.isEmpty ? first.name : first.value))",
            "Not published. \(source)/index.html has \(more == 0 ? "a declaration" : "\(more + 1) declarations") that devices "
                + "would ignore: \(first.description)")
    }

    /// Replaces the source maps of `version` in `folder`.
    func keepMaps(in folder: String, of version: SemanticVersion) throws {
        try Directory.createAll(folder)
        let location = try Directory.open(folder)
        let aside = randomName(".maps-")
        try location.makeDirectory(aside)
        do {
            let target = try location.directory(aside)
            for path in maps {
                var parent = target
                for part in path.components.dropLast() {
                    parent = try parent.directory(creating: String(decoding: part, as: UTF8.self))
                }
                let copy = try parent.file(creating: path.name)
                _ = try tree.folder.file(path.string).forEachBlock { try copy.write($0) }
            }
            try target.syncFileSystem()
            try location.removeTree(version.folderName)
            try location.move(aside, to: location, as: version.folderName)
            try location.sync()
        } catch {
            try? location.removeTree(aside)
            throw error
        }
    }
}

extension FolderInspection.Drop {
    fileprivate var code: FolderFinding.Code {
        switch self {
        case .precompressed: .precompressed
        case .maps: .maps
        case .junk: .junk
        }
    }
}

/// Collects the facts that the rule needs. It reads no more of a file than necessary, and skips very large files.
private struct FolderFactsReader {
    private let tree: CanonicalTree
    private let sizes: [BundlePath: Int]

    /// Larger pages and scripts are not read.
    private static let mostText = 16 << 20
    /// Larger files are not decompressed in memory.
    private static let mostDecoded = 64 << 20

    init(_ tree: CanonicalTree) {
        self.tree = tree
        sizes = Dictionary(uniqueKeysWithValues: tree.entries.map { ($0.path, $0.size) })
    }

    func facts() throws -> [FolderFacts] {
        var counts: [Int: Int] = [:]
        for entry in tree.entries { counts[entry.size, default: 0] += 1 }
        var facts = try tree.entries.map { entry in
            var facts = FolderFacts(entry.path, size: entry.size)
            facts.copied = try copied(entry)
            let kind = PageKind(entry.path)
            if let kind, entry.size <= Self.mostText { try read(entry.path, as: kind, into: &facts) }
            if facts.copied == nil, counts[entry.size] != 1, entry.size > 0 {
                facts.digest = try digest(of: entry.path)
            }
            return facts
        }
        // Other files, such as WebAssembly, are searched for the call only if no script contains it.
        if !facts.contains(where: { $0.confirms == true }) {
            for index in facts.indices where facts[index].confirms == nil {
                facts[index].confirms = try confirms(facts[index].path)
                if facts[index].confirms == true { break }
            }
        }
        return facts
    }

    private func confirms(_ path: BundlePath) throws -> Bool {
        var isFound = false
        // The end of the previous block, because the name may span two blocks.
        var rest: [UInt8] = []
        _ = try tree.folder.file(path.string).forEachBlock { block in
            if isFound { return }
            let bytes = rest + Array(block)
            isFound = ScriptText.confirms(bytes[...])
            rest = Array(bytes.suffix(ScriptText.longestName))
        }
        return isFound
    }

    private func digest(of path: BundlePath) throws -> SHA256Digest {
        try tree.folder.file(path.string).sha256()
    }

    /// Returns the file that `entry` is a compressed copy of; nil if there is none, or if the format cannot be
    /// decoded here.
    private func copied(_ entry: CanonicalTree.CanonicalFile) throws -> BundlePath? {
        guard let dot = entry.path.bytes.lastIndex(of: UInt8(ascii: ".")),
            let coding = ContentCoding(rawValue: String(decoding: entry.path.bytes[(dot + 1)...], as: UTF8.self)),
            let plain = try? BundlePath(parsing: entry.path.bytes[..<dot]), let size = sizes[plain],
            size <= Self.mostDecoded, entry.size <= Self.mostDecoded, coding.isReadable
        else { return nil }
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 1, alignment: 1)
        defer { scratch.deallocate() }
        let copy = try tree.folder.file(entry.path.string).readAll(maximumBytes: Self.mostDecoded)
        let bytes = try tree.folder.file(plain.string).readAll(maximumBytes: Self.mostDecoded)
        // A file that changed is detected when it is packed.
        guard bytes.count == size else { return nil }
        return try coding.isCopy(copy, of: bytes, scratch: scratch) ? plain : nil
    }

    private enum PageKind {
        case page, script

        init?(_ path: BundlePath) {
            switch path.name.split(separator: ".").last?.lowercased() {
            case "html", "htm": self = .page
            case "js", "mjs", "cjs": self = .script
            default: return nil
            }
        }
    }

    private func read(_ path: BundlePath, as kind: PageKind, into facts: inout FolderFacts) throws {
        let bytes = try tree.folder.file(path.string).readAll(maximumBytes: Self.mostText)
        facts.confirms = ScriptText.confirms(bytes[...])
        switch kind {
        case .script:
            facts.usesEval = ScriptText.usesEval(bytes[...])
            facts.calls = ScriptCalls(bytes[...]).origins
            facts.registersWorker = ScriptText.registersWorker(bytes[...])
            facts.sharesMemory = ScriptText.sharesMemory(bytes[...])
        case .page:
            facts.page = PageReferences(bytes)
            if path == BundlePath.index { facts.origins = ReleaseOrigins(page: bytes) }
            facts.isBlank = bytes.allSatisfy { " \t\r\n\u{0C}".utf8.contains($0) }
            let scripts = HTMLOutline(bytes).scripts.map { bytes[$0.text] }
            facts.usesEval = scripts.contains(where: ScriptText.usesEval)
            facts.calls = scripts.flatMap { ScriptCalls($0).origins }
            facts.registersWorker = scripts.contains(where: ScriptText.registersWorker)
            facts.sharesMemory = scripts.contains(where: ScriptText.sharesMemory)
        }
    }
}

/// The text of a script, examined without a parser.
enum ScriptText {
    /// Returns whether the script calls `eval` or creates a function from text. Lookups of the global object are ignored.
    static func usesEval(_ script: ArraySlice<UInt8>) -> Bool {
        script.withUnsafeBytes { text in
            guard let start = text.baseAddress else { return false }
            var offset = 0
            while let found = memchr(start + offset, Int32(UInt8(ascii: "(")), text.count - offset) {
                let index = UnsafeRawPointer(found) - start
                offset = index + 1
                if ends(text[..<index], with: "eval") { return true }
                if ends(text[..<index], with: "Function"), !isHarmless(text[offset...]) { return true }
            }
            return false
        }
    }

    /// The call that confirms a start, and the calls of live-update plugins that do it for pages of phones.
    private static let confirmations = [
        "startupDidComplete", "notifyAppReady", "notifyApplicationReady", "LiveUpdate", "codePush.sync",
    ]
    /// The length of the longest searched name, in bytes.
    static let longestName = confirmations.map(\.utf8.count).max() ?? 0

    /// Returns whether the script creates memory that threads share. A test for the feature is ignored.
    static func sharesMemory(_ script: ArraySlice<UInt8>) -> Bool {
        func contains(_ text: String) -> Bool { !ends(of: text, in: script).isEmpty }
        return contains("new SharedArrayBuffer")
            || contains("WebAssembly.Memory") && ["shared:true", "shared: true", "shared:!0"].contains(where: contains)
    }

    /// Returns whether the script contains a call that confirms a start.
    static func confirms(_ script: ArraySlice<UInt8>) -> Bool {
        confirmations.contains { !ends(of: $0, in: script).isEmpty }
    }

    /// Returns whether the script registers a service worker.
    static func registersWorker(_ script: ArraySlice<UInt8>) -> Bool {
        ends(of: "serviceWorker", in: script).contains { end in
            script[end...].starts(with: ".register(".utf8) || script[end...].starts(with: "?.register(".utf8)
        }
    }

    /// Returns the indices behind each `name` in `script`.
    static func ends(of name: String, in script: ArraySlice<UInt8>) -> [Int] {
        let name = Array(name.utf8)
        return script.withUnsafeBytes { text in
            guard let start = text.baseAddress else { return [] }
            var (offset, found) = (0, [Int]())
            while offset + name.count <= text.count,
                let location = memchr(start + offset, Int32(name[0]), text.count - offset - name.count + 1)
            {
                offset = UnsafeRawPointer(location) - start + 1
                if memcmp(location, name, name.count) == 0 { found.append(script.startIndex + offset + name.count - 1) }
            }
            return found
        }
    }

    private static func isHarmless(_ arguments: Slice<UnsafeRawBufferPointer>) -> Bool {
        ["\"return this\"", "'return this'", ")"].contains { arguments.starts(with: $0.utf8) }
    }

    /// Returns whether `text` ends with `name` as a whole word that is not a member.
    private static func ends(_ text: Slice<UnsafeRawBufferPointer>, with name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        guard text.count >= count,
            text.suffix(count).elementsEqual(UnsafeBufferPointer(start: name.utf8Start, count: count))
        else { return false }
        guard let before = text.dropLast(count).last else { return true }
        return !(before.isASCIILetter || before.isASCIIDigit || "_$.".utf8.contains(before))
    }
}
