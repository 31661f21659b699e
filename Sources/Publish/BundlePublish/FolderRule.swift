package import BundleFormats
import BundleSigning
package import BundleValues

/// A finding about a folder, made before it is packed.
package struct FolderFinding: Sendable, Equatable {
    /// The public code of a finding.
    package enum Code: String, Sendable, CaseIterable {
        /// A compressed copy of another file.
        case precompressed
        case maps
        /// Files left by editors, systems and tools.
        case junk
        /// A copy of another file.
        case duplicates
        /// The content of a release that the feed already has.
        case sameContent
        case emptyPage
        /// `index.html` loads a script that is not in the folder.
        case missingScript
        /// No file confirms the start of the client.
        case neverConfirms
        /// A policy in `index.html` refuses the call that confirms the start.
        case blocksConfirmation
        case serviceWorker
        /// `serve` does not serve a file at this path.
        case reservedPath
        /// A page refers to a file that is not in the folder.
        case missingFile
        /// A page loads something from another origin.
        case foreignOrigin
        /// A script calls another origin, which `index.html` does not declare.
        case undeclaredCall
        /// A declaration that devices ignore, because it is not in the head of `index.html`.
        case ignoredDeclaration
        /// A declared origin without encryption.
        case unencryptedOrigin
        /// A page shows a file of the folder in a frame.
        case ownFrame
        /// A page has a script in an attribute.
        case inlineHandler
        /// A script creates scripts from text.
        case eval
        case wasm
        /// A script shares memory between threads, which only isolated pages may do.
        case sharedMemory
    }

    package let code: Code
    package let path: BundlePath
    /// The size of the file, in bytes.
    package let size: Int
    /// The part of the file; nil for the whole file.
    package let detail: String?
    /// The value of `--csp` that lets `serve` allow it; nil if it needs none.
    package let allowance: String?
    /// The declaration in `index.html` that allows it on devices; nil if there is none.
    package let declaration: Declaration?

    /// An origin that a release may declare.
    package struct Declaration: Sendable, Hashable {
        package let purpose: ReleaseOrigins.Purpose
        package let origin: WebOrigin

        /// Returns nil if no declaration can allow `url` for `directive`.
        init?(_ url: String, as directive: String) {
            guard let purpose = ReleaseOrigins.Purpose(directive: directive),
                let origin = ReleaseOrigins.origin(of: url)
            else { return nil }
            (self.purpose, self.origin) = (purpose, origin)
        }
    }

    /// The path in the folder that a reference resolves to; nil for other findings.
    let target: [UInt8]?

    init(
        _ code: Code, in file: FolderFacts, detail: String? = nil, allowance: String? = nil,
        declaration: Declaration? = nil, target: [UInt8]? = nil
    ) {
        self.init(
            code, in: file.path, size: file.size, detail: detail, allowance: allowance, declaration: declaration,
            target: target)
    }

    /// Creates a finding about `url` of another origin, which `directive` refuses.
    init(_ code: Code, in file: FolderFacts, detail: String, refusing url: String, as directive: String) {
        let declaration = Declaration(url, as: directive)
        self.init(
            code, in: file, detail: detail,
            allowance: declaration == nil ? ContentSecurityPolicy.allowance(directive, url) : nil,
            declaration: declaration)
    }

    init(
        _ code: Code, in path: BundlePath, size: Int, detail: String? = nil, allowance: String? = nil,
        declaration: Declaration? = nil, target: [UInt8]? = nil
    ) {
        self.code = code
        self.path = path
        self.size = size
        self.detail = detail
        self.allowance = allowance
        self.declaration = declaration
        self.target = target
    }

    /// Whether it is about the page that devices show first.
    package var isAboutIndex: Bool { path.bytes.elementsEqual("index.html".utf8) }
}

/// The facts about a file. A member that was not read has no effect.
struct FolderFacts {
    let path: BundlePath
    let size: Int
    /// The SHA-256 digest, if another file has the same size.
    var digest: SHA256Digest?
    /// The file that this file is a compressed copy of.
    var copied: BundlePath?
    /// The references of a page; nil for other files.
    var page: PageReferences?
    /// Whether the file contains only white space.
    var isBlank = false
    /// Whether a script in it creates scripts from text.
    var usesEval = false
    /// Whether it contains the call that confirms a start; nil if it was not searched.
    var confirms: Bool?
    var registersWorker = false
    /// Whether a script in it shares memory between threads.
    var sharesMemory = false
    /// The origins that its scripts seem to call.
    var calls: [String] = []
    /// The origins that it declares; nil for other files than `index.html`.
    var origins: ReleaseOrigins?

    init(_ path: BundlePath, size: Int) {
        self.path = path
        self.size = size
    }
}

/// Finds problems in the files of a folder. Findings are sorted by code; `index.html` comes first, then the other
/// paths in order.
struct FolderRule {
    /// The files that cause no findings.
    var allowed: [PathPattern] = []

    func findings(of files: [FolderFacts]) -> [FolderFinding] {
        let paths = Set(files.map(\.path.bytes))
        var folders: [ArraySlice<UInt8>: Bool] = [:]
        let declared = files.lazy.compactMap(\.origins).first ?? ReleaseOrigins()
        let found =
            files.flatMap { file in
                findings(of: file, among: paths, isJunk: Self.isJunk(file.path.bytes[...], folders: &folders))
                    + Self.originFindings(of: file, among: paths, declared)
            } + Self.duplicates(files) + Self.startFindings(files)
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
        if let copied = file.copied { found.append(FolderFinding(.precompressed, in: file, detail: "of \(copied)")) }
        if Self.isSourceMap((file.copied ?? file.path).bytes, among: paths) {
            found.append(FolderFinding(.maps, in: file))
        }
        if isJunk, !allowed.contains(where: { $0.covers(file.path.bytes) }) {
            found.append(FolderFinding(.junk, in: file))
        }
        if file.usesEval, ContentSecurityPolicy.refuses("script-src", "eval") {
            found.append(
                FolderFinding(.eval, in: file, allowance: ContentSecurityPolicy.allowance("script-src", "eval")))
        }
        if !isJunk, ServedPath(file.path.bytes) != .file { found.append(FolderFinding(.reservedPath, in: file)) }
        if file.registersWorker { found.append(FolderFinding(.serviceWorker, in: file)) }
        if file.sharesMemory { found.append(FolderFinding(.sharedMemory, in: file)) }
        if file.path.bytes.suffix(5).elementsEqual(".wasm".utf8),
            ContentSecurityPolicy.refuses("script-src", "wasm-eval")
        {
            found.append(
                FolderFinding(.wasm, in: file, allowance: ContentSecurityPolicy.allowance("script-src", "wasm-eval")))
        }
        return found
    }

    /// Returns the findings about files and origins that pages load or call.
    private static func originFindings(
        of file: FolderFacts, among paths: Set<[UInt8]>, _ declared: ReleaseOrigins
    ) -> [FolderFinding] {
        var found = file.page.map { findings(of: $0, in: file, among: paths, declared) } ?? []
        for url in file.calls where !declared.covers(url, as: ReleaseOrigins.Purpose.connect.directive) {
            found.append(
                FolderFinding(
                    .undeclaredCall, in: file, detail: url, refusing: url,
                    as: ReleaseOrigins.Purpose.connect.directive))
        }
        let ignored = file.page?.declarations.dropFirst(file.origins?.elementCount ?? 0) ?? []
        found += ignored.map { FolderFinding(.ignoredDeclaration, in: file, detail: UntrustedName.display($0)) }
        let unencrypted = ReleaseOrigins.Purpose.allCases.flatMap { file.origins?.origins[$0] ?? [] }.filter {
            !$0.isEncrypted
        }
        return found + unencrypted.map { FolderFinding(.unencryptedOrigin, in: file, detail: "\($0)") }
    }

    /// Returns the findings that prevent the client from confirming its start, so that devices roll it back.
    private static func startFindings(_ files: [FolderFacts]) -> [FolderFinding] {
        guard let index = files.first(where: { $0.path.bytes.elementsEqual("index.html".utf8) }) else { return [] }
        if index.isBlank { return [FolderFinding(.emptyPage, in: index)] }
        var found: [FolderFinding] = []
        let answers = files.compactMap(\.confirms)
        if !answers.isEmpty, !answers.contains(true) { found.append(FolderFinding(.neverConfirms, in: index)) }
        let policies = index.page?.policies ?? []
        if let policy = policies.first(where: ContentSecurityPolicy.refusesOwnCalls) {
            found.append(FolderFinding(.blocksConfirmation, in: index, detail: UntrustedName.display(policy)))
        }
        return found
    }

    /// Returns whether the path is a source map by its name, or by a script or style sheet beside it.
    static func isSourceMap(_ path: [UInt8], among paths: Set<[UInt8]>) -> Bool {
        guard path.suffix(4).elementsEqual(".map".utf8) else { return false }
        let mapped = Array(path.dropLast(4))
        return paths.contains(mapped)
            || [".js", ".mjs", ".cjs", ".css", ".wasm"].contains { mapped.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }

    /// Returns whether `path` or a folder above it is junk. `folders` caches the results.
    private static func isJunk(_ path: ArraySlice<UInt8>, folders: inout [ArraySlice<UInt8>: Bool]) -> Bool {
        if let slash = path.lastIndex(of: UInt8(ascii: "/")) {
            let folder = path[..<slash]
            let isFolderJunk = folders[folder] ?? isJunk(folder, folders: &folders)
            folders[folder] = isFolderJunk
            if isFolderJunk { return true }
        }
        return junk.contains { $0.matches(Array(path)) }
    }

    /// The names of files that no client needs; `--drop junk` omits the same files.
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
                found.append(FolderFinding(.duplicates, in: file, detail: "as \(path)"))
            } else {
                first[digest] = file.path
            }
        }
        return found
    }

    // MARK: Pages

    private static func findings(
        of page: PageReferences, in file: FolderFacts, among paths: Set<[UInt8]>, _ declared: ReleaseOrigins
    ) -> [FolderFinding] {
        var found: [FolderFinding] = []
        let isRelative = page.base.map { PageAddress($0).isLocal } ?? true
        var seen: Set<PageReferences.Reference> = []
        for reference in page.references where seen.insert(reference).inserted {
            let element = "<\(reference.element)> \(UntrustedName.display(reference.url))"
            switch PageAddress(reference.url) {
            case .elsewhere(let url):
                guard ContentSecurityPolicy.refuses(reference.directive, url),
                    !declared.covers(url, as: reference.directive)
                else { continue }
                found.append(
                    FolderFinding(.foreignOrigin, in: file, detail: element, refusing: url, as: reference.directive))
            case .local(let name):
                guard isRelative, reference.isLoaded else { continue }
                let base = page.base.flatMap { PageAddress($0).path(from: file.path) } ?? file.path.bytes
                guard let target = PageAddress.path(name, from: base) else { continue }
                if !isThere(target, among: paths) {
                    let isEntry = reference.element == "script" && file.path.bytes.elementsEqual("index.html".utf8)
                    found.append(
                        FolderFinding(
                            isEntry ? .missingScript : .missingFile, in: file, detail: element, target: target))
                } else if reference.directive == "frame-src" {
                    found.append(
                        FolderFinding(.ownFrame, in: file, detail: element, allowance: ContentSecurityPolicy.framing))
                }
            case .none: continue
            }
        }
        guard ContentSecurityPolicy.refuses("script-src-attr", "inline") else { return found }
        let allowance = ContentSecurityPolicy.allowance("script-src-attr", "inline")
        return found + page.handlers.map { FolderFinding(.inlineHandler, in: file, detail: $0, allowance: allowance) }
    }

    /// Returns whether a server responds with a file of the client, or with its own.
    private static func isThere(_ path: [UInt8], among paths: Set<[UInt8]>) -> Bool {
        if path.starts(with: "__clientctl/".utf8) { return true }
        let index =
            (path.isEmpty || path.last == UInt8(ascii: "/") ? path : path + [UInt8(ascii: "/")]) + "index.html".utf8
        return paths.contains(path) || paths.contains(index)
    }
}

/// An address in a page (RFC 3986, section 4.2).
private enum PageAddress: Equatable {
    /// A path in the client, without query and fragment.
    case local(String)
    /// An address of another origin or a data URL, by its scheme.
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

    /// Scheme and host are case-insensitive.
    private static func lowered(_ text: some StringProtocol) -> String {
        let end = text.firstRange(of: "://").map { range in
            text[range.upperBound...].firstIndex { "/?#".contains($0) } ?? text.endIndex
        }
        let cut = end ?? text.firstIndex(of: ":") ?? text.endIndex
        return text[..<cut].lowercased() + text[cut...]
    }

    /// Returns the path in the client relative to `page`; nil if it leaves the client.
    func path(from page: BundlePath) -> [UInt8]? {
        guard case .local(let name) = self else { return nil }
        return Self.path(name, from: page.bytes)
    }

    /// Returns the path of `name` relative to `page`, with a final slash for a folder; nil if its percent-encoding is
    /// invalid.
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
