import BundleFormats
import ArgumentParser
import BundlePublish
import BundleSigning
import BundleValues

struct DeltaOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Make deltas from this number of the last releases, from a release, or from a folder. Repeat it for more. (default: 3)",
            valueName: "n|version|dir"), completion: .directory)
    var deltaFrom: [String] = []

    @Option(
        help: ArgumentHelp("Also make a delta from this seed, which is built into a shell.", valueName: "dir"),
        completion: .directory)
    var seed: String?

    func terms() throws -> DeltaTerms {
        let bases = try deltaFrom.map(Self.base)
        let seed = seed.map { [DeltaTerms.Base.folder($0)] } ?? []
        return DeltaTerms(bases: (bases.isEmpty ? DeltaTerms().bases : bases) + seed)
    }

    private static func base(_ text: String) throws -> DeltaTerms.Base {
        if let count = Int(text) {
            guard (0...100).contains(count) else {
                throw ValidationError("--delta-from takes 0 to 100 releases, a version or a folder, not \(text).")
            }
            return .latest(count)
        }
        if let version = try? SemanticVersion(parsingArgument: text) { return .release(version) }
        return .folder(text)
    }
}

struct ReleaseDelta: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delta",
        abstract: "Add deltas to a release that is already published.",
        discussion: """
            A device that has the base of a delta downloads the delta instead of the
            archive. Each delta is first applied as a device would apply it. Then the keys
            that signed the release sign the list of deltas.

            Examples:
              clientctl release delta --version 1.5.0 --delta-from 1.2.0 --feed feed \\
                --key release.key.pem
              clientctl release delta --version 1.5.0 --delta-from 0 --seed www \\
                --feed feed --key release.key.pem
            """)

    @OptionGroup var version: VersionOption

    @Option(help: .feed, completion: .directory) var feed: String?

    @OptionGroup(title: "Signing") var signing: ReleaseSigningOptions
    @OptionGroup(title: "Signing") var passphrase: PassphraseOptions

    @Option(
        help: ArgumentHelp("The keys that devices trust, if the feed has no trust root.", valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup var deltas: DeltaOptions
    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let next = try after.plan()
        let version = try version.semantic()
        let feed = try Wiring.location(feed, bucket: bucket)
        let signers = try signing.signers(passphrase)
        let progress = Progress()
        defer { progress.end() }
        let editor = DeltaEditor(
            feed: feed, try deltas.terms(), limits: try limits.limits(), trust: try trust.map(TrustAnchor.read),
            wait: try waiting.feedWait(), report: progress.observer)
        let reports = try editor.add(to: version, signers: signers)
        progress.end()
        let hasChanged = reports.contains { $0.entry != nil }
        let publication = Publication(
            feed: feed, outcome: hasChanged ? "changed" : "unchanged", documents: [Publication.deltas(of: version)],
            version: version)
        try await next.finish(
            publication, json: common.json,
            object: [
                "outcome": .string(publication.outcome), "version": .string(version.description),
                "feed": .string(feed.address.description), "deltas": .array(reports.map(DeltaLines.value)),
            ],
            lines: [hasChanged ? "added deltas to \(version)" : "no deltas were added to \(version)"]
                + DeltaLines.lines(reports, archive: nil))
    }
}

enum DeltaLines {
    static func value(_ report: DeltaReport) -> JSONValue {
        var object: JSONObject = ["base": .string(report.base)]
        report.entry.map { entry in
            for member in DeltaListFormat.json(entry).members { object[member.name] = member.value }
        }
        object["refusal"] = .string(orNull: report.refusal)
        return .object(object)
    }

    /// The size below which an archive needs no deltas.
    private static let smallArchive = 64 << 10

    /// Returns one line about all deltas; none if there are no deltas. Unless bases were requested, omits those from which a
    /// small archive has no delta.
    static func summary(_ reports: [DeltaReport], archive: Int, isRequested: Bool) -> [String] {
        let shown = isRequested || archive >= smallArchive ? reports : reports.filter { $0.entry != nil }
        return shown.isEmpty ? [] : ["  deltas     " + shown.map { line($0, archive: archive) }.joined(separator: "; ")]
    }

    static func lines(_ reports: [DeltaReport], archive: Int?) -> [String] {
        reports.enumerated().map { index, report in
            (index == 0 ? "  deltas     " : "             ") + line(report, archive: archive)
        }
    }

    private static func line(_ report: DeltaReport, archive: Int?) -> String {
        guard let entry = report.entry else { return "none from \(report.base): \(report.refusal ?? "")" }
        let share = archive.map { $0 == 0 ? "" : " (\(percent(entry.size, of: $0)) of the archive)" } ?? ""
        return "from \(report.base) \(ByteCount(bytes: entry.size))\(share)"
    }

    private static func percent(_ part: Int, of whole: Int) -> String {
        part * 100 < whole ? "less than 1 %" : "\(part * 100 / whole) %"
    }

    static func lines(_ list: DeltaList) -> [String] {
        list.deltas.map {
            "  delta from \($0.baseName)  \(ByteCount(bytes: $0.size)), needs \(ByteCount(bytes: $0.memory))"
        }
    }

    static func object(_ list: DeltaList) -> JSONObject {
        [
            "version": .string(list.version.description), "contentSha256": .string(list.contentSha256.hex),
            "deltas": .array(list.deltas.map { .object(DeltaListFormat.json($0)) }),
        ]
    }
}
