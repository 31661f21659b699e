import ArgumentParser
import BundleCore
import BundleValues

/// The flags of the origins that a device lets releases use.
struct OriginOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Whether a signed release may add the origins to the policy that its index.html declares: yes or no. (default: yes)",
            valueName: "yes|no"), completion: .list(["yes", "no"]))
    var cspFromRelease: String?

    @Option(
        help: ArgumentHelp(
            "Origins that a release may declare, such as 'https://*.example.com wss://live.example.com'. Repeat it for more. (default: every valid one)",
            valueName: "origins"))
    var cspAllow: [String] = []

    func bound() throws -> OriginBound {
        let patterns = try cspAllow.flatMap { text in
            let words = text.split(separator: " ")
            guard !words.isEmpty else {
                throw ValidationError(
                    "--csp-allow names no origin. Write such as 'https://*.example.com', or give --csp-from-release no."
                )
            }
            return try words.map(Self.pattern)
        }
        switch cspFromRelease {
        case nil, "yes"?: return patterns.isEmpty ? .all : .covered(by: patterns)
        case "no"?: return .none
        case let text?: throw ValidationError("--csp-from-release is yes or no, not \(UntrustedName.display(text)).")
        }
    }

    private static func pattern(_ text: Substring) throws -> OriginPattern {
        do throws(OriginRefusal) {
            return try OriginPattern(parsing: text)
        } catch {
            throw ValidationError(
                "--csp-allow takes origins such as https://api.example.com or 'https://*.example.com'; "
                    + "\(UntrustedName.display(text)) \(error).")
        }
    }

    /// Returns the origins of the installed client that is shown next; nil if there is none, or if the store cannot be
    /// read. A manifest does not contain the origins of its release.
    func next(_ update: UpdateOptions) throws -> NextOrigins? {
        let bound = try bound()
        guard let store = update.store, let inventory = try? Inventory.read(at: store) else { return nil }
        let shell = try FlagValue.version(update.shellVersion, of: "shell-version") ?? inventory.ledger.shell
        let hasSeed = update.seed != nil || inventory.ledger.mayHaveSeed
        guard let choice = SelectionRule.select(inventory, shell: shell, hasSeed: hasSeed),
            let bundle = choice.name.version.flatMap(inventory.bundle)
        else { return nil }
        let declared = try InstalledTree.origins(of: bundle, inStoreAt: store)
        return NextOrigins(name: choice.name, declared: declared, granted: GrantedOrigins(declared, within: bound))
    }
}

/// The origins of the client that is shown next.
struct NextOrigins {
    let name: ClientName
    let declared: ReleaseOrigins
    let granted: GrantedOrigins

    var value: JSONValue {
        .object([
            "client": .string(name.description), "declared": declared.json,
            "refused": .array(granted.refusals.map(JSONValue.string)),
        ])
    }

    var lines: [String] {
        let what = declared.lines.isEmpty ? "no origins" : declared.lines.joined(separator: ", ")
        return ["  next  \(name) declares \(what)"] + granted.refusals.map { "  no    \(name): \($0)" }
    }
}
