import BundleFormats
import ArgumentParser
import BundlePublish
import BundleValues
import BundleShell

/// The steps after a change of a feed.
struct AfterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Run this command after the feed is written, such as to purge a CDN. It runs without a shell, for at most 2m, with variables such as PUBLISHED_DOCUMENTS and without CLIENTCTL_ variables.",
            valueName: "command"))
    var afterPublish: String?

    @Option(
        help: ArgumentHelp(
            "Then wait until the feed at this URL has the change.", valueName: "url"))
    var publicUrl: String?

    @Option(help: ArgumentHelp("How long to wait for --public-url. (default: 2m)", valueName: "duration"))
    var publicWithin: String?

    /// Returns the plan. Call it before the feed is written, so that wrong flags fail first.
    func plan() throws -> AfterPublish {
        let hook = try CommandWords.read(afterPublish, of: "after-publish")
        if let hook, let program = hook.first {
            if let mark = hook.first(where: { ["&&", "||", "|", ";", "&", ">", "<"].contains($0) }) {
                throw ValidationError(
                    "--after-publish runs without a shell, so \(mark) would be an argument. Put the commands into a script, or give "
                        + "sh -c '...'.")
            }
            try CommandWords.requireProgram(program, of: "after-publish")
        }
        let base = try publicUrl.map { text in
            try FlagValue.parsed(text, of: "public-url") { try FetchURL(parsing: $0.hasSuffix("/") ? $0 : $0 + "/") }
        }
        let limit = try PublishTime.duration(publicWithin, of: "public-within")
        if base == nil, CommandLineFlags.contain("public-within") {
            throw ValidationError("Missing --public-url: --public-within limits the wait for it.")
        }
        return AfterPublish(hook: hook, base: base, limit: limit ?? PublicationCheck.standardLimit)
    }
}

struct Publication {
    /// The outcome of a run that writes nothing.
    static let dryRun = "dryRun"

    /// The outcome of a run whose change waits for another person.
    private static let proposed = ChannelReport.Outcome.proposed.rawValue

    /// Whether devices get nothing new.
    var isUnpublished: Bool { [Self.dryRun, Self.proposed].contains(outcome) }

    let feed: any FeedLocation
    let outcome: String
    /// The files of which caches can have older versions.
    let documents: [String]
    /// The release that changed; nil if the change is about the whole channel.
    var version: SemanticVersion?
    var channel: (name: String, sequence: Int)?

    /// The environment variables of the command of `--after-publish`.
    var facts: [String: String] {
        [
            "PUBLISHED_FEED": feed.address.description, "PUBLISHED_OUTCOME": outcome,
            "PUBLISHED_VERSION": version?.description ?? "", "PUBLISHED_CHANNEL": channel?.name ?? "",
            "PUBLISHED_SEQUENCE": channel.map { "\($0.sequence)" } ?? "",
            "PUBLISHED_DOCUMENTS": documents.joined(separator: " "),
        ]
    }
}

extension Publication {
    init(of report: ChannelReport, in feed: any FeedLocation, about version: SemanticVersion?) {
        let channel = report.document.channel
        self.init(
            feed: feed, outcome: report.outcome.rawValue, documents: Self.documents(of: channel), version: version,
            channel: (channel, report.document.sequence))
    }

    init(of hold: HoldDocument, in feed: any FeedLocation, about version: SemanticVersion, isDryRun: Bool) {
        self.init(
            feed: feed, outcome: isDryRun ? Self.dryRun : "changed",
            documents: ["channels/\(ChannelFileName.holdFile(of: hold.channel))"], version: version,
            channel: (hold.channel, hold.sequence))
    }

    init(of release: ReleaseReport, in feed: any FeedLocation, isDryRun: Bool) {
        // A proposal changes no file of the channel.
        let channel = release.channel.flatMap { $0.outcome == .proposed ? nil : $0.document }
        let version = release.manifest.version
        let deltas = release.deltas.contains { $0.entry != nil } ? [Self.deltas(of: version)] : []
        self.init(
            feed: feed, outcome: isDryRun ? Self.dryRun : release.outcome.rawValue,
            documents: deltas + (channel.map { Self.documents(of: $0.channel) } ?? ["manifest.json"]),
            version: version, channel: channel.map { ($0.channel, $0.sequence) })
    }

    static func deltas(of version: SemanticVersion) -> String { "releases/\(version.folderName)/deltas.json" }

    private static func documents(of channel: String) -> [String] { ["channels/\(channel).json", "manifest.json"] }
}

/// Runs the hook, then checks the public URL.
struct AfterPublish {
    private static let hookLimit = Duration.seconds(120)

    let hook: [String]?
    let base: FetchURL?
    let limit: Duration

    /// Runs the hook, checks the URL and prints the output. The output includes a failure, because the feed stays changed.
    func finish(_ publication: Publication, json: Bool, object: JSONObject, lines: [String]) async throws {
        if publication.isUnpublished {
            return Output.give(json: json, afterChange: true, object, lines: lines)
        }
        var (object, lines) = (object, lines)
        do {
            try await runHook(publication)
            if let base, let took = try await look(publication) {
                object["public"] = .object([
                    "url": .string(base.display), "milliseconds": .integer(Int(took / .milliseconds(1))),
                ])
                lines.append("  url        \(base.display) has the change after \(Int(took / .seconds(1))) s")
            }
        } catch {
            if !json { Output.give(json: false, afterChange: true, object, lines: lines) }
            throw FailureWithOutput(failure: UpdateFailure(error), members: object)
        }
        Output.give(json: json, afterChange: true, object, lines: lines)
    }

    private func runHook(_ publication: Publication) async throws {
        guard let hook else { return }
        let ending: StartedProgram.ProgramEnding
        do {
            let program = try StartedProgram(hook, adding: publication.facts)
            program.end(after: Self.hookLimit)
            ending = try await program.ending()
        } catch {
            throw Self.refusal(hook, what: UpdateFailure(error).message, publication: publication)
        }
        if ending != .exited(0) { throw Self.refusal(hook, what: "It \(ending).", publication: publication) }
    }

    private static func refusal(_ hook: [String], what: String, publication: Publication) -> UpdateFailure {
        UpdateFailure(
            .hookFailed, subject: hook.first ?? "",
            "The change is in \(publication.feed.address), but the command of --after-publish failed, so devices may get it late. \(what) Run the command again by hand; the change need not be published again."
        )
    }

    private func look(_ publication: Publication) async throws -> Duration? {
        guard let base else { return nil }
        let watch = PublicationCheck(
            base, with: try DeviceContainer.fetcher(.command), origin: publication.feed,
            within: limit)
        return try await watch.run(
            documents: publication.documents, channel: publication.channel?.name, release: publication.version)
    }
}
