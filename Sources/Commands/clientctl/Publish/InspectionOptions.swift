import BundleFormats
import ArgumentParser
import BundleCore
import BundlePublish
import BundleValues

/// The flags that exclude files of the folder from the client.
struct ExcludeOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Exclude files and folders with this name or path, such as '*.map' or 'docs/*.md'. Repeatable.",
            valueName: "pattern"))
    var exclude: [String] = []

    @Option(
        help: ArgumentHelp(
            "Exclude precompressed copies, source maps, or leftovers of editors and tools: a list of precompressed, maps and junk.",
            valueName: "list"), completion: .list(FolderInspection.Drop.allCases.map(\.rawValue)))
    var drop: String?

    func patterns() throws -> [PathPattern] { try Self.patterns(exclude, of: "exclude") }

    func drops() throws -> Set<FolderInspection.Drop> {
        guard let text = drop else { return [] }
        return Set(
            try text.split(separator: ",").map { word in
                guard let drop = FolderInspection.Drop(rawValue: String(word)) else {
                    throw ValidationError(
                        "--drop takes a list of precompressed, maps and junk, such as maps,junk, not \(UntrustedName.display(text))."
                    )
                }
                return drop
            })
    }

    static func patterns(_ texts: [String], of name: String) throws -> [PathPattern] {
        try texts.map { text in
            guard let pattern = PathPattern(text) else {
                throw ValidationError(
                    "--\(name) takes a name or a path in the folder, such as '*.map' or 'docs/*.md', not "
                        + "\(UntrustedName.display(text)).")
            }
            return pattern
        }
    }
}

/// The flags of `publish` for the inspection of the folder.
struct InspectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Publish nothing if all files together are larger than this, or grow by more, such as 20MB, +10% or 20MB,+500kB. Exits with 52 in that case. --max-file-size limits a single file.",
            valueName: "size,+growth"))
    var budget: String?

    @Option(
        help: ArgumentHelp("Copy source maps to DIR/vX.Y.Z, for crash reports.", valueName: "dir"),
        completion: .directory)
    var archiveMaps: String?

    func releaseBudget() throws -> ReleaseBudget? {
        try budget.map { text in
            guard let budget = ReleaseBudget(parsing: text) else {
                throw ValidationError(
                    "--budget takes a size, a growth or both, such as 20MB, +10% or 20MB,+500kB, not \(UntrustedName.display(text))."
                )
            }
            return budget
        }
    }
}

/// The output of an inspection of a folder, as lines and as JSON.
enum InspectionOutput {
    /// Returns one line for each kind of excluded file.
    static func excluded(_ inspection: FolderInspection) -> [String] {
        groups(inspection.dropped).map { "excluded \($0.count(of: $0.code.words)) (\($0.names))" }
    }

    /// Returns one line for each kind of finding and each unused `--exclude`.
    static func lines(_ inspection: FolderInspection) -> [String] {
        lines(inspection.findings)
            + inspection.unmatched.map {
                "--exclude \(UntrustedName.display($0)) excludes nothing: no file has that name or path"
            }
    }

    static func lines(_ findings: [FolderFinding]) -> [String] {
        groups(findings).map { group in
            let allow = group.allowances.map { "--csp \"\($0)\"" }.joined(separator: " ")
            let elements = group.elements.joined(separator: " ")
            let what = group.sentence ?? "\(group.count(of: group.code.words)) (\(group.names))."
            return "\(what) \(group.code.advice)" + (allow.isEmpty ? "" : " To allow it, start serve with \(allow).")
                + (elements.isEmpty ? "" : " To allow it on every device, add to the <head> of index.html: \(elements)")
        }
    }

    static func objects(_ findings: [FolderFinding]) -> JSONValue {
        .array(
            groups(findings).map { group in
                .object([
                    "code": .string(group.code.rawValue), "count": .integer(group.findings.count),
                    "bytes": .integer(group.bytes), "elements": .array(group.elements.map(JSONValue.string)),
                    "files": .array(
                        group.findings.map {
                            var object: JSONObject = ["path": .string($0.path.string), "size": .integer($0.size)]
                            if let detail = $0.detail { object["detail"] = .string(detail) }
                            if let allowance = $0.allowance { object["csp"] = .string(allowance) }
                            return .object(object)
                        }),
                ])
            })
    }

    /// The findings with one code.
    private struct Group {
        let code: FolderFinding.Code
        let findings: [FolderFinding]

        var isAboutIndex: Bool { findings.contains(where: \.isAboutIndex) }
        var bytes: Int { findings.reduce(0) { $0 + $1.size } }
        var allowances: [String] { Set(findings.compactMap(\.allowance)).sorted() }

        /// The elements for `index.html` that allow what the findings are about.
        var elements: [String] {
            let declarations = Set(findings.compactMap(\.declaration))
            return ReleaseOrigins.Purpose.allCases.compactMap { purpose in
                let origins = declarations.filter { $0.purpose == purpose }.map(\.origin.description).sorted()
                return origins.isEmpty ? nil : purpose.element(Array(origins.prefix(ReleaseOrigins.most)))
            }
        }

        func count(of words: (one: String, many: String)) -> String {
            let what = "\(findings.count) \(findings.count == 1 ? words.one : words.many)"
            return code.isAboutBytes ? "\(what), \(ByteCount(bytes: bytes))" : what
        }

        /// The sentence for a finding about the whole client; nil for findings about single files.
        var sentence: String? {
            let detail = findings.first?.detail ?? ""
            return switch code {
            case .sameContent: "The content is the same as in \(detail)."
            case .emptyPage: "index.html is empty."
            case .neverConfirms: "No file calls startupDidComplete(), so devices would roll this client back."
            case .blocksConfirmation:
                "The policy in index.html blocks requests of the page to its own server (\(detail)), so devices would roll this client back."
            default: nil
            }
        }

        var names: String {
            let shown = findings.prefix(3).map { finding in
                code.isAboutBytes || finding.detail == nil
                    ? finding.path.string : "\(finding.path): \(finding.detail ?? "")"
            }
            return shown.joined(separator: ", ") + (findings.count > 3 ? " and \(findings.count - 3) more" : "")
        }
    }

    /// Returns the findings by code, those about `index.html` first.
    private static func groups(_ findings: [FolderFinding]) -> [Group] {
        let groups = FolderFinding.Code.allCases.compactMap { code in
            let found = findings.filter { $0.code == code }
            return found.isEmpty ? nil : Group(code: code, findings: found)
        }
        return groups.filter(\.isAboutIndex) + groups.filter { !$0.isAboutIndex }
    }
}

extension FolderFinding.Code {
    /// Whether the finding is about the number or size of files.
    fileprivate var isAboutBytes: Bool {
        switch self {
        case .precompressed, .maps, .junk, .duplicates: true
        case .sameContent, .emptyPage, .missingScript, .neverConfirms, .blocksConfirmation, .serviceWorker,
            .reservedPath,
            .missingFile,
            .foreignOrigin, .undeclaredCall, .ignoredDeclaration, .unencryptedOrigin, .ownFrame, .inlineHandler, .eval,
            .wasm, .sharedMemory:
            false
        }
    }

    fileprivate var words: (one: String, many: String) {
        switch self {
        case .precompressed: ("precompressed copy", "precompressed copies")
        case .maps: ("source map", "source maps")
        case .junk: ("leftover file of editors or tools", "leftover files of editors or tools")
        case .duplicates: ("duplicate file", "duplicate files")
        case .sameContent, .emptyPage, .neverConfirms, .blocksConfirmation: ("client", "clients")
        case .missingScript: ("missing script of index.html", "missing scripts of index.html")
        case .serviceWorker:
            ("file that registers a service worker", "files that register a service worker")
        case .reservedPath:
            ("file with a path that serve reserves", "files with paths that serve reserves")
        case .missingFile: ("missing file that a page loads", "missing files that pages load")
        case .foreignOrigin: ("file that a page loads from another origin", "files that pages load from other origins")
        case .undeclaredCall: ("call of another origin", "calls of other origins")
        case .ignoredDeclaration: ("declaration that devices ignore", "declarations that devices ignore")
        case .unencryptedOrigin: ("declared origin without encryption", "declared origins without encryption")
        case .ownFrame: ("page in a frame of another page", "pages in frames of other pages")
        case .inlineHandler: ("attribute with a script", "attributes with scripts")
        case .eval: ("script that may use eval", "scripts that may use eval")
        case .wasm: ("WebAssembly file", "WebAssembly files")
        case .sharedMemory: ("script that shares memory between threads", "scripts that share memory between threads")
        }
    }

    fileprivate var advice: String {
        switch self {
        case .precompressed:
            "Devices serve files from their disk and never request them. --drop precompressed excludes them."
        case .maps: "Only developers need them. --drop maps excludes them, and --archive-maps DIR keeps copies of them."
        case .junk: "--drop junk excludes them."
        case .duplicates: "You can keep one copy and link to it."
        case .sameContent: "Did you build?"
        case .emptyPage: "Devices would show a white screen and roll this client back. Did you build?"
        case .neverConfirms: "Call WebAppLocalServer.startupDidComplete() when the page works."
        case .blocksConfirmation: "Add 'self' to connect-src."
        case .missingScript: "Devices would roll this client back. Build it again."
        case .serviceWorker: "serve refuses service workers. Remove the registration."
        case .reservedPath: "Browsers do not receive them. Move them."
        case .missingFile: "Browsers will not find them."
        case .foreignOrigin: "serve refuses it, and a device may be offline. Copy it into the folder."
        case .undeclaredCall: "serve refuses it, because index.html does not declare the origin."
        case .ignoredDeclaration: "Only the <head> of index.html declares origins. Move it there."
        case .unencryptedOrigin: "Anyone on the network can read and change what it sends. Use https or wss."
        case .ownFrame: "serve refuses frames."
        case .inlineHandler: "serve refuses it. Add the handler in a script."
        case .eval: "serve blocks eval. Build without it."
        case .wasm: "serve blocks it."
        case .sharedMemory:
            "It fails in pages that are not isolated. Give serve --cross-origin isolated on every device."
        }
    }
}
