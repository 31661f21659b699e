import ArgumentParser
import BundleCore
import BundleFleet
import BundleFormats
import BundlePublish
import BundleServe
import BundleSigning
import BundleValues
import CLibrary
import BundleShell

/// `clientctl console`.
struct Console: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Show the feed and the fleet in a browser on this machine, with buttons for the commands.",
        discussion: """
            Prints an address that one browser can use once. Each button runs the command
            of the same name: it first shows what will happen, the command line, and the
            difference, and signs only then. The key stays on this machine. The pages have
            no scripts, and no other machine can open them. After 30 minutes without a
            request, the terminal shows a new address.

            If the trust root requires more channel keys than you have, each button makes a
            proposal, which waits on the first page for another person.

            With --roster, it lists the devices, and shows the pictures of their screens
            that the roster keeps. With --prometheus, it shows what they report. Without a
            key, and with --read-only, there are no buttons.

            Examples:
              clientctl console
              clientctl console --feed feed --channel stable --trust trust.json \\
                --channel-key channel.key.pem --roster roster.db
              clientctl console --read-only --feed s3://bucket/prefix --channel stable
            """)

    @Flag(help: "Show no buttons.")
    var readOnly = false

    @Flag(help: "Do not open the browser of the desktop.")
    var noOpen = false

    @Option(help: ArgumentHelp("Port to listen on. (default: a free one)", valueName: "n"))
    var port: String?

    @Option(help: ArgumentHelp("The Prometheus or VictoriaMetrics that has the reports of devices.", valueName: "url"))
    var prometheus: String?

    @OptionGroup var devices: RosterPlaceOptions
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let (feed, channel) = try edit.place()
        let hasKey = !edit.channelKey.isEmpty || !edit.signCommand.isEmpty
        let locked =
            readOnly
            ? "Read only."
            : hasKey ? nil : "Read only: give --channel-key or --sign-command to change something."
        let role = try locked == nil ? role(channel, in: feed) : nil
        let host = ConsoleHost(
            edit: edit, devices: devices, way: way, engine: try prometheus.map { try FetchURL(parsing: $0) },
            locked: locked, role: role,
            access: try devices.roster == nil ? nil : devices.access(way), styles: try ConsolePage.styles())
        let opens = !noOpen && !edit.common.json && Self.isOnDesktop
        let json = edit.common.json
        let signals = StopSignals()
        let server = try await ConsoleServer.start(
            port: try FlagValue.port(port) ?? 0, host, isOwn: { LoopbackPort.isOwn($0, to: $1) },
            announce: { url in
                Output.give(json: json, ["url": .string(url)], lines: [url])
                if opens { Self.open(url) }
            })
        await signals.wait()
        await server.stop(grace: .seconds(2))
    }

    /// Returns what the keys can do. Throws if devices would refuse a channel file that they sign, for example because it is the key of a
    /// guard.
    private func role(_ channel: String, in feed: any FeedLocation) throws -> ConsoleRole {
        var terms = try edit.options()
        try ChannelEditor.requireChannel(channel, in: feed)
        let sequence = try ChannelText.document(of: channel, in: feed)?.sequence
        (terms.expectedSequence, terms.requiresComparison, terms.isDryRun) = (sequence, false, true)
        let editor = ChannelEditor(feed: feed, terms)
        let role = ConsoleRole(keyIds: terms.signers.map(\.publicKey.id), missing: try editor.missingSignatures())
        if role.missing == 0 { try editor.requireSigners(of: channel) }
        return role
    }

    private static var isOnDesktop: Bool {
        isatty(1) == 1 && (getenv("WAYLAND_DISPLAY") != nil || getenv("DISPLAY") != nil)
    }

    private static func open(_ url: String) {
        guard let program = try? StartedProgram(["xdg-open", url], adding: [:]) else { return }
        Task { _ = try? await program.ending() }
    }
}

/// What the keys of a console can do.
private struct ConsoleRole {
    let keyIds: [String]
    /// The number of signatures of other people that a change needs.
    let missing: Int

    /// The sentence on each page; nil if the keys can publish.
    var note: String? {
        guard missing > 0 else { return nil }
        let people = missing == 1 ? "another person" : "\(missing) other people"
        return "Each button makes a proposal, which \(people) must approve."
    }
}

/// Responds to the browser of a console: reads the feed and the roster for each page, and runs commands.
private actor ConsoleHost: ConsolePages {
    private let edit: ChannelEditOptions
    private let devices: RosterPlaceOptions
    private let way: WayOptions
    private let engine: FetchURL?
    private let locked: String?
    /// nil without buttons.
    private let role: ConsoleRole?
    private let access: RosterAccess?
    private let styles: [String]

    init(
        edit: ChannelEditOptions, devices: RosterPlaceOptions, way: WayOptions, engine: FetchURL?, locked: String?,
        role: ConsoleRole?, access: RosterAccess?, styles: [String]
    ) {
        (self.edit, self.devices, self.way, self.engine) = (edit, devices, way, engine)
        (self.locked, self.role, self.access, self.styles) = (locked, role, access, styles)
    }

    func respond(to request: ConsoleRequest) async -> ConsoleResponse {
        let page = ConsolePage(token: request.token, locked: locked, note: role?.note, clock: .now)
        do {
            return try await request.isPost ? act(request, page) : show(request, page)
        } catch {
            let failure = Self.failure(error)
            return .failed(page.failed(failure), styles: styles)
        }
    }

    /// Returns the failure that a command would print for `error`.
    private static func failure(_ error: any Error) -> UpdateFailure {
        if let error = error as? ValidationError { return UpdateFailure(.usage, subject: "form", error.message) }
        if error is UpdateFailure || error is any ClassifiedFailure { return UpdateFailure(error) }
        if Clientctl.exitCode(for: error) == .validationFailure {
            return UpdateFailure(.usage, subject: "form", Clientctl.message(for: error))
        }
        return UpdateFailure(error)
    }

    // MARK: Pages

    private func show(_ request: ConsoleRequest, _ page: ConsolePage) async throws -> ConsoleResponse {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        var html: String?
        switch (parts.first, parts.count) {
        case (""?, 1):
            let read = try await feed(withCourses: true)
            var troubles = read.troubles
            let inventory = await reading(&troubles, "The roster cannot be read.") {
                try await self.access?.inventory(at: .now)?.text
            }
            let proposals = await reading(&troubles, "The proposals cannot be read.") { try self.proposals() }
            html = page.overview(
                read.page, proposals: proposals ?? [], own: role?.keyIds ?? [], inventory: inventory ?? nil,
                troubles: troubles)
        case ("release"?, 3):
            html = page.release(parts[2], of: parts[1], in: try await feed().page)
        case ("history"?, 2): html = page.history(of: parts[1], in: try await feed().page)
        case ("roster"?, 1):
            guard let filter = RosterFilter(query: request.query) else { return .missing }
            guard let list = try await list(filter) else { return .failed(page.failed(Self.noRoster), styles: styles) }
            html = page.devices(filter, list.rows, inventory: list.inventory ?? RosterInventory(expecting: nil))
        case ("roster"?, 3):
            guard let access, let place = PicturePost.Kind.place("\(parts[1])/\(parts[2])"),
                let picture = try await access.picture(of: place.device, place.kind)
            else { return .missing }
            return .picture(picture)
        case ("wall"?, 1), ("wall"?, 2):
            guard let list = try await list() else { return .failed(page.failed(Self.noRoster), styles: styles) }
            guard let number = parts.count == 1 ? 1 : Int(parts[1]) else { return .missing }
            html = page.wall(list.rows, number: number)
        case ("roster"?, 2):
            guard let access, RosterPost.isDevice(parts[1]) else { return .missing }
            html = page.device(try await access.device("device:\(parts[1])", at: .now))
        default: break
        }
        return html.map { .page($0, styles: styles) } ?? .missing
    }

    private static let noRoster = UpdateFailure(
        .usage, subject: "roster", "The console was started without --roster, so it lists no devices.")

    private func list(_ filter: RosterFilter = RosterFilter()) async throws -> RosterAccess.List? {
        try await access?.list(filter, at: .now)
    }

    private func proposals() throws -> [ProposalReading] {
        try ProposalReading.all(
            of: nil, in: edit.place().feed, trust: edit.trust.map(TrustAnchor.read), clock: .now)
    }

    /// Returns the content of the feed with the reports of its devices.
    private func feed(withCourses: Bool = false) async throws -> (page: ReleasePage, troubles: [String]) {
        let trust = try edit.trust.map(TrustAnchor.read)
        let feed = try edit.place().feed
        var page = try PageReader(feed, trust: trust, clock: .now).page()
        var troubles: [String] = []
        guard let engine else { return (page, troubles) }
        let channels = page.channels.map(\.name)
        let reports = await reading(&troubles, "The reports of devices cannot be read.") {
            let fetcher = try Wiring.fetcher(self.way, token: nil, for: engine)
            var reports: [ChannelReports] = []
            for channel in channels {
                reports.append(
                    try await ChannelReports.ask(
                        MetricsEngine(engine), channel: channel, at: .now, withCourses: withCourses, by: fetcher))
            }
            return reports
        }
        for (index, report) in (reports ?? []).enumerated() { page.channels[index].reports = report }
        return (page, troubles)
    }

    /// Returns what `read` returns; a sentence in `troubles` instead if it fails, because the rest of a page works without it.
    private func reading<Value>(
        _ troubles: inout [String], _ lead: String, _ read: () async throws -> Value
    ) async -> Value? {
        do {
            return try await read()
        } catch {
            troubles.append("\(lead) \(UpdateFailure(error).message)")
            return nil
        }
    }

    // MARK: Changes

    private func act(_ request: ConsoleRequest, _ page: ConsolePage) async throws -> ConsoleResponse {
        guard locked == nil, let action = request.fields["action"].flatMap(ConsoleAction.init) else { return .missing }
        switch request.path {
        case "ask": return .page(page.question(try await question(action, request.fields)), styles: styles)
        case "do" where action == .forget: return try await forget(request.fields, page)
        case "do": return try await change(action, request.fields, page)
        default: return .missing
        }
    }

    /// Returns the command of a button, with the flags of the console.
    private func command(_ action: ConsoleAction, _ fields: [String: String]) throws -> any ChannelEditCommand {
        guard var command = try Clientctl.parseAsRoot(action.words(fields)) as? any ChannelEditCommand else {
            throw ValidationError("There is no such button.")
        }
        command.edit = edit
        command.edit.channel = fields["channel"]
        if var target = command as? ReleaseTarget {
            (target.devices, target.way) = (devices, way)
            command = target
        }
        return command
    }

    /// Returns what a button does: a proposal if the keys of the console are too few.
    private func work(_ command: any ChannelEditCommand) async throws -> ChannelWork {
        var work = try await command.work()
        work.proposes = proposes(command)
        return work
    }

    private func proposes(_ command: any ChannelEditCommand) -> Bool {
        (role?.missing ?? 0) > 0 && command is any ProposableCommand
    }

    /// Returns the sentences about the signers of a change.
    private func signing(_ report: ChannelReport, _ names: KeyNames) -> [String] {
        func list(_ ids: [String]) -> String {
            ids.map(names.shortName).joined(separator: " and ")
        }
        guard let proposal = report.proposal else { return ["You sign as \(list(role?.keyIds ?? []))."] }
        let signed = "Signed by \(list(proposal.keyIds))."
        if proposal.missing == 0 { return [signed, "This is the last signature: devices get the change."] }
        return [
            signed,
            "No device gets the change until \(counted(proposal.missing, "more person", "more people")) \(proposal.missing == 1 ? "approves" : "approve") it.",
        ]
    }

    /// Describes what a button will do. Nothing is written.
    private func question(
        _ action: ConsoleAction, _ given: [String: String], after seen: Int? = nil
    ) async throws -> ConsoleQuestion {
        if action == .forget { return try await forgetting(given) }
        let command = try command(action, given)
        let feed = try edit.place().feed
        let channel = try FlagValue.required(given["channel"], of: "channel")
        let target = action == .promote ? given["to"] ?? channel : channel
        let present = try ChannelText.document(of: target, in: feed)
        let sequence = present?.sequence ?? 0
        var asked = command.edit
        asked.dryRun = true
        asked.limits.expectSequence = "\(sequence)"
        let report = try asked.report(try await work(command))
        var fields = given
        fields["sequence"] = "\(sequence)"
        let difference =
            report.changes.isEmpty
            ? []
            : DifferenceLine.lines(
                from: try ChannelText.lines(of: present), to: try ChannelText.lines(of: report.document))
        return ConsoleQuestion(
            action, fields,
            command: Self.line(action.words(given), (proposes(command) ? ["--propose"] : []) + asked.words(sequence)),
            changes: report.changes.isEmpty
                ? ["Nothing changes: the channel file has this content already."] : report.changes,
            warnings: report.warnings + (difference == [nil] ? [DifferenceLine.tooLong] : []), difference: difference,
            signing: report.changes.isEmpty ? [] : signing(report, try edit.names()),
            reach: await reach(action, report.document, given["version"]),
            news: try seen.map { try Self.news(in: target, after: $0, feed) } ?? [])
    }

    /// Runs the command of a button, if the channel file is still the one that the question was about.
    private func change(
        _ action: ConsoleAction, _ fields: [String: String], _ page: ConsolePage
    ) async throws -> ConsoleResponse {
        let command = try command(action, fields)
        let seen = try FlagValue.integer(fields["sequence"], of: "sequence", atLeast: 0) ?? 0
        var edit = command.edit
        edit.limits.expectSequence = "\(seen)"
        do {
            let report = try await edit.run(try await work(command))
            return .page(page.done(ChannelOutput.lines(report, try edit.names())), styles: styles)
        } catch let failure as UpdateFailure where failure.code == .rollbackAttempt {
            let channel = action == .promote ? fields["to"] : fields["channel"]
            guard let channel,
                let present = try ChannelText.document(of: channel, in: try edit.place().feed)?.sequence, present > seen
            else { throw failure }
            return .page(page.question(try await question(action, fields, after: seen)), styles: styles)
        }
    }

    private func forgetting(_ fields: [String: String]) async throws -> ConsoleQuestion {
        guard let access, let device = fields["device"] else { throw Self.noRoster }
        let row = try await access.device(device, at: .now)
        return ConsoleQuestion(
            .forget, fields,
            command: Self.line(ConsoleAction.forget.words(fields), ["--roster", devices.roster ?? ""]),
            changes: ["\(row.displayName) (\(row.target)): removed from the roster, with its pinned key"])
    }

    private func forget(_ fields: [String: String], _ page: ConsolePage) async throws -> ConsoleResponse {
        guard let access, let device = fields["device"] else { throw Self.noRoster }
        let row = try await access.device(device, at: .now)
        try await access.forget(row, pinning: nil)
        let line = "forgot \(row.target) \(UntrustedName.display(row.post.name))"
        Output.give(json: false, [:], lines: [line])
        return .page(page.done([line]), styles: styles)
    }

    /// Returns how many devices of the roster a percentage is for; nil for other changes, and without a roster.
    private func reach(_ action: ConsoleAction, _ document: ChannelDocument, _ version: String?) async -> String? {
        guard [.rollout, .ramp].contains(action), let total = try? await access?.inventory(at: .now)?.devices,
            total > 0,
            let release = document.releases.first(where: { "\($0.version)" == version })
        else { return nil }
        return
            "That is about \((release.share(at: .now) * total + 500) / 1000) of the \(counted(total, "device")) of the roster."
    }

    // MARK: Documents

    /// Returns the changes of a channel after sequence `seen`, in words.
    private static func news(in channel: String, after seen: Int, _ feed: any FeedLocation) throws -> [String] {
        try ChannelHistory(channel, in: feed, newest: 20, trust: nil, clock: .now).entries
            .filter { $0.document.sequence > seen }
            .flatMap { entry in entry.changes.map { "\(entry.document.sequence): \($0)" } }
    }

    /// Returns the command line of `words` with further options, which precede the operands.
    private static func line(_ words: [String], _ options: [String]) -> String {
        let end = words.firstIndex(of: "--") ?? words.count
        return (["clientctl"] + words[..<end] + options + words[end...]).map(quoted).joined(separator: " ")
    }

    /// Returns a word as a shell accepts it.
    private static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            byte.isASCIILetter || byte.isASCIIDigit || "-._~/=:,%@+".utf8.contains(byte)
        }
        return isPlain && !word.isEmpty ? word : "'" + word.replacing("'", with: "'\\''") + "'"
    }
}

extension ChannelEditOptions {
    /// The flags of a command line that edits the channel with the same feed and keys.
    fileprivate func words(_ sequence: Int) -> [String] {
        var words: [String] = []
        if let feed { words += ["--feed", feed] }
        if let channel { words += ["--channel", channel] }
        for key in channelKey { words += ["--channel-key", key] }
        for command in signCommand { words += ["--sign-command", command] }
        for key in signPublicKey { words += ["--sign-public-key", key] }
        if let trust { words += ["--trust", trust] }
        return words + ["--expect-sequence", "\(sequence)"]
    }
}
