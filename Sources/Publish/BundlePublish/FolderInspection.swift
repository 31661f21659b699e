package import ArchiveSource
import BundleArchive
import BundleCore
package import BundleDisk
import BundleSigning
import BundleValues
import Glibc

/// A folder as it is to be published, and what a look at it has found. Nothing is left out unasked.
package struct FolderInspection: Sendable {
    /// What can be left out by what it is.
    package enum Drop: String, Sendable, CaseIterable {
        case precompressed, maps, junk
    }

    /// What is published.
    package let tree: CanonicalTree
    /// What was found in it.
    package let findings: [FolderFinding]
    /// What was found in the folder and is left out.
    package let dropped: [FolderFinding]
    /// Patterns of --exclude that leave nothing out.
    package let unmatched: [String]
    /// The source maps of the folder, published or not.
    let maps: [BundlePath]

    /// Looks at `folder`; `allowed` files are meant to be there.
    package init(
        _ folder: Directory, excluding excluded: [PathPattern], dropping drops: Set<Drop>, allowed: [PathPattern] = [],
        budget: Int? = nil
    ) throws {
        let named = excluded + (drops.contains(.junk) ? FolderRule.junk : [])
        let whole = try CanonicalTree(folder, excluding: named)
        let found = FolderRule(budget: budget, allowed: allowed).findings(of: try FolderSurvey(whole).facts())
        let codes = Set(drops.map(\.code))
        let gone = Set(found.filter { codes.contains($0.code) }.map(\.path))
        tree = whole.leavingOut(gone)
        unmatched = excluded.filter(Set(whole.unmatched).contains).map(\.text)
        findings = found.filter { !gone.contains($0.path) }
        dropped = found.filter { codes.contains($0.code) }
        maps = found.filter { $0.code == .maps }.map(\.path)
    }

    /// Refuses files of more than the budget.
    package func requireBudget(_ budget: Int?, of source: String) throws {
        let large = findings.filter { $0.code == .overBudget }.sorted { $0.size > $1.size }
        guard let budget, let first = large.first else { return }
        let names = large.prefix(20).map { "\($0.path) \(ByteCount(bytes: $0.size))" }.joined(separator: ", ")
        throw UpdateFailure(
            .overBudget, subject: first.path.string,
            "\(source) has \(large.count) \(large.count == 1 ? "file" : "files") of more than \(ByteCount(bytes: budget)): \(names)"
                + "\(large.count > 20 ? " and others" : ""). Make them smaller, leave them out with --exclude, or raise --budget."
        )
    }

    /// Refuses a folder whose `index.html` loads scripts that it does not have: no device could start it. `--allow missingScript`
    /// permits all of them, a name or a path permits one.
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

    /// Keeps a copy of the source maps in `folder`, below the name of `version`, in the place of what that name had.
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

/// Reads what the rule asks of a tree: no more of a file than that needs, and nothing of one that is very large.
private struct FolderSurvey {
    private let tree: CanonicalTree
    private let sizes: [BundlePath: Int]

    /// Pages and scripts of more bytes are no text that anybody wrote.
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
        // A call may be in a file of another kind, such as WebAssembly: those are read only where no script has it.
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
        // The end of the block before: the name may be in both.
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
        var hasher = try SHA256Hasher()
        _ = try tree.folder.file(path.string).forEachBlock { try hasher.update($0) }
        return try hasher.finish()
    }

    /// The file beside it that it is a compressed copy of; nil where it is none, or nobody here can tell.
    private func copied(_ entry: CanonicalTree.Entry) throws -> BundlePath? {
        guard let dot = entry.path.bytes.lastIndex(of: UInt8(ascii: ".")),
            let coding = ContentCoding(rawValue: String(decoding: entry.path.bytes[(dot + 1)...], as: UTF8.self)),
            let plain = try? BundlePath(parsing: entry.path.bytes[..<dot]), let size = sizes[plain],
            size <= Self.mostDecoded, entry.size <= Self.mostDecoded, coding.isReadable
        else { return nil }
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 1, alignment: 1)
        defer { scratch.deallocate() }
        let copy = try tree.folder.file(entry.path.string).readAll(maximumBytes: Self.mostDecoded)
        let bytes = try tree.folder.file(plain.string).readAll(maximumBytes: Self.mostDecoded)
        // One that changed meanwhile is noticed when it is packed.
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
            facts.registersWorker = ScriptText.registersWorker(bytes[...])
        case .page:
            facts.page = PageReferences(bytes)
            facts.isBlank = bytes.allSatisfy { " \t\r\n\u{0C}".utf8.contains($0) }
            let scripts = HTMLOutline(bytes).scripts.map { bytes[$0.text] }
            facts.usesEval = scripts.contains(where: ScriptText.usesEval)
            facts.registersWorker = scripts.contains(where: ScriptText.registersWorker)
        }
    }
}

/// The text of a script, as far as it can be told without a parser.
enum ScriptText {
    /// Whether it calls `eval` or makes a function out of text. What only looks for the global object does so where there is no
    /// `globalThis`, and is not meant.
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

    private static let confirmation = "startupDidComplete"
    /// Bytes of the longest name that is searched for.
    static let longestName = confirmation.utf8.count

    /// Whether it names the call that confirms a start.
    static func confirms(_ script: ArraySlice<UInt8>) -> Bool { !ends(of: confirmation, in: script).isEmpty }

    /// Whether it calls `register` of the browser's service workers.
    static func registersWorker(_ script: ArraySlice<UInt8>) -> Bool {
        ends(of: "serviceWorker", in: script).contains { end in
            script[end...].starts(with: ".register(".utf8) || script[end...].starts(with: "?.register(".utf8)
        }
    }

    /// The indices behind each `name` in `script`.
    private static func ends(of name: String, in script: ArraySlice<UInt8>) -> [Int] {
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

    /// Whether `name` stands at the end of `text` as a whole word, and is nothing's member.
    private static func ends(_ text: Slice<UnsafeRawBufferPointer>, with name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        guard text.count >= count,
            text.suffix(count).elementsEqual(UnsafeBufferPointer(start: name.utf8Start, count: count))
        else { return false }
        guard let before = text.dropLast(count).last else { return true }
        return !(before.isASCIILetter || before.isASCIIDigit || "_$.".utf8.contains(before))
    }
}
