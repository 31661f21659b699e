import ArchiveSource
import BundleCore
import BundleServe
package import BundleValues
import BundleSigning

/// One thing that a look at a folder has found, before it is packed.
package struct FolderFinding: Sendable, Equatable {
    /// The public word for what it is.
    package enum Code: String, Sendable, CaseIterable {
        /// A compressed copy of a file beside it.
        case precompressed
        /// A source map.
        case maps
        /// What editors, systems and tools leave.
        case junk
        /// The content of another file.
        case duplicates
        /// More bytes than one file may have.
        case overBudget
        /// The content is that of a release that the feed has already.
        case sameContent
        /// `index.html` is empty.
        case emptyPage
        /// `index.html` loads a script that is not in the folder.
        case missingScript
        /// No file confirms the start of the client.
        case neverConfirms
        /// A policy in `index.html` refuses the call that confirms the start.
        case blocksConfirmation
        /// A page or script registers a service worker.
        case serviceWorker
        /// `serve` does not serve a file of that path.
        case reservedPath
        /// A page names a file that is not in the folder.
        case missingFile
        /// A page loads something of another origin.
        case foreignOrigin
        /// A page shows a file of the folder in a frame.
        case ownFrame
        /// An attribute of a page is a script.
        case inlineHandler
        /// A script makes scripts out of text.
        case eval
        /// WebAssembly.
        case wasm
    }

    /// What it is.
    package let code: Code
    /// The file that it is about.
    package let path: BundlePath
    /// That file's bytes.
    package let size: Int
    /// What in it; nil where that is the file itself.
    package let detail: String?
    /// The value of `--csp` that lets `serve` allow it; nil where it needs none.
    package let allowance: String?

    /// The path in the folder that a reference leads to; nil for other findings.
    let target: [UInt8]?

    init(
        _ code: Code, _ file: FolderFacts, _ detail: String? = nil, allowance: String? = nil, target: [UInt8]? = nil
    ) {
        self.init(code, file.path, size: file.size, detail, allowance: allowance, target: target)
    }

    init(
        _ code: Code, _ path: BundlePath, size: Int, _ detail: String? = nil, allowance: String? = nil,
        target: [UInt8]? = nil
    ) {
        self.code = code
        self.path = path
        self.size = size
        self.detail = detail
        self.allowance = allowance
        self.target = target
    }

    /// Whether it is about the page that devices show first.
    var isAboutIndex: Bool { path.bytes.elementsEqual("index.html".utf8) }
}

/// What the rule receives about one file. A member that was not read has no effect.
struct FolderFacts {
    let path: BundlePath
    let size: Int
    /// Its SHA-256, where another file has its size.
    var digest: SHA256Digest?
    /// The file beside it that it is a compressed copy of.
    var copied: BundlePath?
    /// What the page refers to; nil for other files.
    var page: PageReferences?
    /// Whether it has nothing but white space.
    var isBlank = false
    /// Whether a script in it makes scripts out of text.
    var usesEval = false
    /// Whether it names the call that confirms a start; nil if it was not searched.
    var confirms: Bool?
    /// Whether it registers a service worker.
    var registersWorker = false

    init(_ path: BundlePath, size: Int) {
        self.path = path
        self.size = size
    }
}

/// Finds what is wrong with files of a folder. A pure rule. Findings are in the order of the codes; `index.html` comes first, then
/// the other paths in their order.
struct FolderRule {
    /// Most bytes of one file; nil for no such bound.
    var budget: Int?
    /// What is meant to be there, whatever it looks like.
    var allowed: [PathPattern] = []

    func findings(of files: [FolderFacts]) -> [FolderFinding] {
        let paths = Set(files.map(\.path.bytes))
        var folders: [ArraySlice<UInt8>: Bool] = [:]
        let found =
            files.flatMap { findings(of: $0, among: paths, isJunk: Self.isJunk($0.path.bytes[...], &folders)) }
            + Self.duplicates(files) + Self.startFindings(files)
        return found.enumerated().sorted {
            let (one, other) = ($0.element, $1.element)
            let order = (Self.rank(one.code), Self.rank(other.code))
            if order.0 != order.1 { return order.0 < order.1 }
            if one.isAboutIndex != other.isAboutIndex { return one.isAboutIndex }
            return one.path == other.path ? $0.offset < $1.offset : one.path < other.path
        }.map(\.element)
    }

    private static func rank(_ code: FolderFinding.Code) -> Int {
        FolderFinding.Code.allCases.firstIndex(of: code) ?? 0
    }

    private func findings(of file: FolderFacts, among paths: Set<[UInt8]>, isJunk: Bool) -> [FolderFinding] {
        var found: [FolderFinding] = []
        if let copied = file.copied { found.append(FolderFinding(.precompressed, file, "of \(copied)")) }
        if Self.isSourceMap((file.copied ?? file.path).bytes, among: paths) { found.append(FolderFinding(.maps, file)) }
        if isJunk, !allowed.contains(where: { $0.covers(file.path.bytes) }) {
            found.append(FolderFinding(.junk, file))
        }
        if let budget, file.size > budget { found.append(FolderFinding(.overBudget, file)) }
        if let page = file.page { found += Self.findings(of: page, in: file, among: paths) }
        if file.usesEval, ContentSecurityPolicy.refuses("script-src", "eval") {
            found.append(
                FolderFinding(.eval, file, allowance: ContentSecurityPolicy.allowance("script-src", "eval")))
        }
        if !isJunk, !ServedPath.isServed(file.path.bytes) { found.append(FolderFinding(.reservedPath, file)) }
        if file.registersWorker { found.append(FolderFinding(.serviceWorker, file)) }
        if file.path.bytes.suffix(5).elementsEqual(".wasm".utf8),
            ContentSecurityPolicy.refuses("script-src", "wasm-eval")
        {
            found.append(
                FolderFinding(.wasm, file, allowance: ContentSecurityPolicy.allowance("script-src", "wasm-eval")))
        }
        return found
    }

    /// What keeps the client from confirming its start, which devices answer with a rollback.
    private static func startFindings(_ files: [FolderFacts]) -> [FolderFinding] {
        guard let index = files.first(where: { $0.path.bytes.elementsEqual("index.html".utf8) }) else { return [] }
        if index.isBlank { return [FolderFinding(.emptyPage, index)] }
        var found: [FolderFinding] = []
        let answers = files.compactMap(\.confirms)
        if !answers.isEmpty, !answers.contains(true) { found.append(FolderFinding(.neverConfirms, index)) }
        let policies = index.page?.policies ?? []
        if let policy = policies.first(where: ContentSecurityPolicy.refusesOwnCalls) {
            found.append(FolderFinding(.blocksConfirmation, index, UntrustedName.display(policy)))
        }
        return found
    }

    /// Of a script or style sheet, by its name, or of the file beside it.
    static func isSourceMap(_ path: [UInt8], among paths: Set<[UInt8]>) -> Bool {
        guard path.suffix(4).elementsEqual(".map".utf8) else { return false }
        let mapped = Array(path.dropLast(4))
        return paths.contains(mapped)
            || [".js", ".mjs", ".cjs", ".css", ".wasm"].contains { mapped.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }

    /// Whether `path` or a folder that it is in is junk; `folders` knows of those that were asked for before.
    private static func isJunk(_ path: ArraySlice<UInt8>, _ folders: inout [ArraySlice<UInt8>: Bool]) -> Bool {
        if let slash = path.lastIndex(of: UInt8(ascii: "/")) {
            let folder = path[..<slash]
            let isFolderJunk = folders[folder] ?? isJunk(folder, &folders)
            folders[folder] = isFolderJunk
            if isFolderJunk { return true }
        }
        return junk.contains { $0.matches(Array(path)) }
    }

    /// What no client needs, by name; `--drop junk` leaves the same out.
    static let junk: [PathPattern] = [
        ".DS_Store", "._*", "__MACOSX", "Thumbs.db", "desktop.ini", ".git", ".hg", ".svn", ".bzr", ".gitignore",
        ".gitattributes", ".gitkeep", ".gitmodules", "node_modules", "bower_components", ".npmignore", ".idea",
        ".vscode",
        ".editorconfig", "*~", ".*.sw?", "#*#", ".#*", "*.orig", "*.rej", "*.bak", "npm-debug.log*", "yarn-error.log*",
        ".eslintcache", ".sass-cache", "*.tsbuildinfo",
    ].compactMap { PathPattern($0) }

    private static func duplicates(_ files: [FolderFacts]) -> [FolderFinding] {
        var first: [SHA256Digest: BundlePath] = [:]
        var found: [FolderFinding] = []
        for file in files where file.size > 0 && file.copied == nil {
            guard let digest = file.digest else { continue }
            if let path = first[digest] {
                found.append(FolderFinding(.duplicates, file, "as \(path)"))
            } else {
                first[digest] = file.path
            }
        }
        return found
    }

    // MARK: Pages

    private static func findings(
        of page: PageReferences, in file: FolderFacts, among paths: Set<[UInt8]>
    ) -> [FolderFinding] {
        var found: [FolderFinding] = []
        let isRelative = page.base.map { PageAddress($0).isLocal } ?? true
        var seen: Set<PageReferences.Reference> = []
        for reference in page.references where seen.insert(reference).inserted {
            let element = "<\(reference.element)> \(UntrustedName.display(reference.url))"
            switch PageAddress(reference.url) {
            case .elsewhere(let url):
                guard ContentSecurityPolicy.refuses(reference.directive, url) else { continue }
                found.append(
                    FolderFinding(
                        .foreignOrigin, file, element,
                        allowance: ContentSecurityPolicy.allowance(reference.directive, url)))
            case .local(let name):
                guard isRelative, reference.isLoaded else { continue }
                let base = page.base.flatMap { PageAddress($0).path(from: file.path) } ?? file.path.bytes
                guard let target = PageAddress.path(name, from: base) else { continue }
                if !isThere(target, paths) {
                    let isEntry = reference.element == "script" && file.path.bytes.elementsEqual("index.html".utf8)
                    found.append(FolderFinding(isEntry ? .missingScript : .missingFile, file, element, target: target))
                } else if reference.directive == "frame-src" {
                    found.append(FolderFinding(.ownFrame, file, element, allowance: ContentSecurityPolicy.framing))
                }
            case .none: continue
            }
        }
        guard ContentSecurityPolicy.refuses("script-src-attr", "inline") else { return found }
        let allowance = ContentSecurityPolicy.allowance("script-src-attr", "inline")
        return found + page.handlers.map { FolderFinding(.inlineHandler, file, $0, allowance: allowance) }
    }

    /// Whether a server answers with a file of the client, or with one of its own.
    private static func isThere(_ path: [UInt8], _ paths: Set<[UInt8]>) -> Bool {
        if path.starts(with: "__clientctl/".utf8) { return true }
        let index =
            (path.isEmpty || path.last == UInt8(ascii: "/") ? path : path + [UInt8(ascii: "/")]) + "index.html".utf8
        return paths.contains(path) || paths.contains(index)
    }
}

/// An address as a page has it (RFC 3986, section 4.2).
enum PageAddress: Equatable {
    /// Of the client itself, without query and fragment.
    case local(String)
    /// Of another origin, or data, by its scheme.
    case elsewhere(String)
    /// The page itself, or nothing that is loaded.
    case none

    init(_ text: String) {
        let text = text.drop { $0.isWhitespace }
        let scheme = text.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
        if text.hasPrefix("//") {
            self = .elsewhere(Self.lowered("https:\(text)"))
        } else if !scheme.isEmpty, scheme.first?.isLetter == true, text.dropFirst(scheme.count).first == ":" {
            let isLoaded = !["javascript", "about", "mailto", "tel"].contains(scheme.lowercased())
            self = isLoaded ? .elsewhere(Self.lowered(text)) : .none
        } else {
            let path = text.prefix { $0 != "?" && $0 != "#" }
            self = path.isEmpty ? .none : .local(String(path))
        }
    }

    var isLocal: Bool { if case .elsewhere = self { false } else { true } }

    /// Scheme and host are the same in capitals.
    private static func lowered(_ text: some StringProtocol) -> String {
        let end = text.firstRange(of: "://").map { range in
            text[range.upperBound...].firstIndex { "/?#".contains($0) } ?? text.endIndex
        }
        let cut = end ?? text.firstIndex(of: ":") ?? text.endIndex
        return text[..<cut].lowercased() + text[cut...]
    }

    /// Where it leads in the client, from the page or base at `page`; nil where it leads nowhere.
    func path(from page: BundlePath) -> [UInt8]? {
        guard case .local(let name) = self else { return nil }
        return Self.path(name, from: page.bytes)
    }

    /// The path of `name` as `page` means it, with a slash behind where it names a folder; nil where its escapes are none.
    static func path(_ name: String, from page: [UInt8]) -> [UInt8]? {
        let slash = UInt8(ascii: "/")
        guard let decoded = PercentEncoding.decodeStrictly(Array(name.utf8)[...]) else { return nil }
        let isAbsolute = decoded.first == slash
        let folder = isAbsolute ? [] : Array(page[..<((page.lastIndex(of: slash) ?? -1) + 1)])
        var parts: [ArraySlice<UInt8>] = []
        let whole = folder + decoded
        for part in whole.split(separator: slash) {
            if part.elementsEqual("..".utf8) {
                _ = parts.popLast()
            } else if !part.elementsEqual(".".utf8) {
                parts.append(part)
            }
        }
        let path = Array(parts.joined(separator: [slash]))
        let last = whole.split(separator: slash, omittingEmptySubsequences: false).last ?? []
        let isFolder = last.isEmpty || last.elementsEqual(".".utf8) || last.elementsEqual("..".utf8)
        return isFolder && !path.isEmpty ? path + [slash] : path
    }
}
