import ArchiveSource
import ArgumentParser
import BundlePublish
import BundleValues

/// What of a folder is no part of the client.
struct ExcludeOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Leave out what has this name or path, such as '*.map' or 'docs/*.md'; repeat it.", valueName: "pattern"))
    var exclude: [String] = []

    @Option(
        help: ArgumentHelp(
            "Leave out precompressed copies of files beside them, source maps, or what editors and tools leave: precompressed,maps,junk.",
            valueName: "list"))
    var drop: String?

    func patterns(_ settings: Settings) throws -> [PathPattern] { try Self.patterns("exclude", exclude, settings) }

    /// What is left out by what it is.
    func drops(_ settings: Settings) throws -> Set<FolderInspection.Drop> {
        guard let text = try settings.optional("drop", drop) else { return [] }
        return Set(
            try text.split(separator: ",").map { word in
                guard let drop = FolderInspection.Drop(rawValue: String(word)) else {
                    throw ValidationError(
                        "--drop takes a list of precompressed, maps and junk, such as maps,junk; not \(UntrustedName.display(text))."
                    )
                }
                return drop
            })
    }

    static func patterns(_ name: String, _ given: [String], _ settings: Settings) throws -> [PathPattern] {
        try settings.list(name, given).map { text in
            guard let pattern = PathPattern(text) else {
                throw ValidationError(
                    "--\(name) takes a name or a path in the folder, such as '*.map' or 'docs/*.md', not "
                        + "\(UntrustedName.display(text)).")
            }
            return pattern
        }
    }
}

/// What `publish` looks at before it packs.
struct InspectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Publish nothing while a file has more than this, such as 5MB (exit status 52).", valueName: "size"))
    var budget: String?

    @Option(
        help: ArgumentHelp("Keep the source maps in DIR/vX.Y.Z, for reports of crashes.", valueName: "dir"),
        completion: .directory)
    var archiveMaps: String?

    func bytes(_ settings: Settings) throws -> Int? {
        try settings.optional("budget", budget).map { text in
            try settings.parsed("budget", text) { try ByteCount(parsing: $0).bytes }
        }
    }
}

/// What a inspection at a folder has found, in words and in JSON.
enum InspectionOutput {
    /// One line for each kind of finding, and for what was left out.
    static func lines(_ inspection: FolderInspection) -> [String] {
        groups(inspection.dropped).map { "left out \($0.count(of: $0.code.words)) (\($0.names))" }
            + inspection.unmatched.map {
                "--exclude \(UntrustedName.display($0)) leaves nothing out: nothing has that name or path"
            }
            + lines(inspection.findings)
    }

    /// One line for each kind of finding.
    static func lines(_ findings: [FolderFinding]) -> [String] {
        groups(findings).map { group in
            let allow = group.allowances.map { "--csp \"\($0)\"" }.joined(separator: " ")
            let what = group.sentence ?? "\(group.count(of: group.code.words)) (\(group.names))."
            return "\(what) \(group.code.advice)" + (allow.isEmpty ? "" : " To allow it, start serve with \(allow).")
        }
    }

    static func objects(_ findings: [FolderFinding]) -> JSONValue {
        .array(
            groups(findings).map { group in
                .object([
                    "code": .string(group.code.rawValue), "count": .integer(group.findings.count),
                    "bytes": .integer(group.bytes),
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

    /// The findings of one code.
    private struct Group {
        let code: FolderFinding.Code
        let findings: [FolderFinding]

        var bytes: Int { findings.reduce(0) { $0 + $1.size } }
        var allowances: [String] { Set(findings.compactMap(\.allowance)).sorted() }

        func count(of words: (one: String, many: String)) -> String {
            let what = "\(findings.count) \(findings.count == 1 ? words.one : words.many)"
            return code.isAboutBytes ? "\(what), \(ByteCount(bytes: bytes))" : what
        }

        /// The finding in words, where it is about the whole client; nil for those that are about files.
        var sentence: String? {
            let detail = findings.first?.detail ?? ""
            return switch code {
            case .sameContent: "The content is that of \(detail)."
            case .emptyPage: "index.html is empty."
            case .neverConfirms: "No file calls startupDidComplete(), so devices would roll this client back."
            case .blocksConfirmation:
                "The policy in index.html forbids the page to call its own server (\(detail)), so devices would roll this client back."
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

    private static func groups(_ findings: [FolderFinding]) -> [Group] {
        FolderFinding.Code.allCases.compactMap { code in
            let found = findings.filter { $0.code == code }
            return found.isEmpty ? nil : Group(code: code, findings: found)
        }
    }
}

extension FolderFinding.Code {
    /// Whether files are too many or too large, rather than wrong.
    fileprivate var isAboutBytes: Bool {
        switch self {
        case .precompressed, .maps, .junk, .duplicates, .overBudget: true
        case .sameContent, .emptyPage, .missingScript, .neverConfirms, .blocksConfirmation, .serviceWorker,
            .reservedPath,
            .missingFile,
            .foreignOrigin, .ownFrame, .inlineHandler, .eval, .wasm:
            false
        }
    }

    fileprivate var words: (one: String, many: String) {
        switch self {
        case .precompressed: ("precompressed copy", "precompressed copies")
        case .maps: ("source map", "source maps")
        case .junk: ("file that editors or tools left", "files that editors or tools left")
        case .duplicates: ("duplicate file", "duplicate files")
        case .overBudget: ("file over the budget", "files over the budget")
        case .sameContent, .emptyPage, .neverConfirms, .blocksConfirmation: ("client", "clients")
        case .missingScript: ("script that index.html loads is missing", "scripts that index.html loads are missing")
        case .serviceWorker:
            ("file that registers a service worker", "files that register a service worker")
        case .reservedPath:
            ("file has a path that serve keeps for itself", "files have paths that serve keeps for itself")
        case .missingFile: ("file is missing that a page loads", "files are missing that pages load")
        case .foreignOrigin: ("thing that a page loads from elsewhere", "things that pages load from elsewhere")
        case .ownFrame: ("page in a frame of another page", "pages in frames of other pages")
        case .inlineHandler: ("attribute that is a script", "attributes that are scripts")
        case .eval: ("script that may use eval", "scripts that may use eval")
        case .wasm: ("WebAssembly file", "WebAssembly files")
        }
    }

    /// What to do about it.
    fileprivate var advice: String {
        switch self {
        case .precompressed:
            "Devices serve from their own disk and never ask for them. --drop precompressed leaves them out."
        case .maps: "Only developers need them. --drop maps leaves them out, --archive-maps DIR keeps them for you."
        case .junk: "--drop junk leaves them out."
        case .duplicates: "You can keep one copy and link to it."
        case .overBudget: "Make them smaller."
        case .sameContent: "Did you build?"
        case .emptyPage: "Devices would show a white screen and roll this client back. Did you build?"
        case .neverConfirms: "Call WebAppLocalServer.startupDidComplete() when the page works."
        case .blocksConfirmation: "Add 'self' to connect-src."
        case .missingScript: "Devices would roll this client back. Build it again."
        case .serviceWorker: "serve refuses service workers. Leave the registration out."
        case .reservedPath: "Browsers do not get them: move them."
        case .missingFile: "Browsers will not find them."
        case .foreignOrigin: "serve refuses it, and a device may be offline. Copy it into the folder."
        case .ownFrame: "serve refuses frames."
        case .inlineHandler: "serve refuses it. Add the handler in a script."
        case .eval: "serve blocks eval: build without it."
        case .wasm: "serve blocks it."
        }
    }
}
