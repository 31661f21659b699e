import BundleFormats
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFleet
import BundleValues

struct FleetPage: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "page",
        abstract: "Write a web page that shows a feed: channels, rollouts, history, recalls.",
        discussion: """
            The page is one HTML file. It has no scripts and loads nothing, so a browser
            can also open it without a web server. With --prometheus it shows what devices
            report. Files that --trust does not verify are on the page, and marked.

            Examples:
              clientctl fleet page --out page.html --feed feed --trust trust.json
              clientctl fleet page --out page.html --feed s3://bucket/prefix \\
                --trust trust.json --prometheus http://127.0.0.1:9090
            """)

    @Option(
        help: ArgumentHelp("(required) The page. An existing file is replaced.", valueName: "file"), completion: .file()
    )
    var out: String?

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @Option(help: ArgumentHelp("The Prometheus or VictoriaMetrics that has the reports of devices.", valueName: "url"))
    var prometheus: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let file = try PageFile(FlagValue.required(out, of: "out"))
        let trust = try trust.map(TrustAnchor.read)
        let engine = try prometheus.map { try FetchURL(parsing: $0) }
        let feed = try Wiring.location(at: FlagValue.required(feed, of: "feed"), reading)
        let now = Timestamp.now
        var page = try PageReader(feed, trust: trust, clock: now).page()
        if let engine { try await ask(engine, about: &page) }
        let html = Array(try page.html().utf8)
        try file.write(html)
        let warnings = page.warnings + page.channels.compactMap(Self.warning)
        for warning in warnings { Output.warn(warning) }
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string("written"), "file": .string(file.path), "bytes": .integer(html.count),
                "channels": .array(page.channels.map { .object(Self.object($0)) }),
                "warnings": .array(warnings.map(JSONValue.string)),
            ],
            lines: ["wrote \(file.path), \(ByteCount(bytes: html.count))"]
                + (trust == nil ? [ChannelList.unverified] : []))
    }

    /// Adds the reports of devices to the page; a warning instead if the server does not answer.
    private func ask(_ server: FetchURL, about page: inout ReleasePage) async throws {
        let fetcher = try Wiring.fetcher(network, for: server)
        do {
            for index in page.channels.indices {
                page.channels[index].reports = try await ChannelReports.ask(
                    MetricsEngine(server), channel: page.channels[index].name, at: page.clock, withCourses: true,
                    by: fetcher)
            }
        } catch {
            page.warnings.append("The page does not show the reports of devices. \(UpdateFailure(error).message)")
        }
    }

    private static func object(_ channel: ReleasePage.ChannelSection) -> JSONObject {
        let content = channel.content.content
        var verified = JSONValue.bool(false)
        switch content?.proof {
        case .verified: verified = .bool(true)
        case .unchecked: verified = .null
        case .refused, nil: break
        }
        return [
            "channel": .string(channel.name), "verified": verified,
            "sequence": content.map { .integer($0.document.sequence) } ?? .null,
            "releases": .integer(content?.releases.count ?? 0),
        ]
    }

    private static func warning(_ channel: ReleasePage.ChannelSection) -> String? {
        switch channel.content {
        case .unreadable(let why): "channel \(channel.name) cannot be read: \(why)"
        case .read(let content):
            if case .refused(let reason, _) = content.proof {
                "channel \(channel.name) is not trusted: \(reason)"
            } else {
                nil
            }
        }
    }
}

struct PageFile {
    let path: String
    private let folder: String
    private let name: String
    private let flag: String

    /// Throws `ValidationError` if `path`, the value of `flag`, has no name.
    init(_ path: String, of flag: String = "out") throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        (self.path, self.flag) = (path, flag)
        name = String(parts.last ?? "")
        let parent = parts.dropLast().joined(separator: "/")
        folder = parts.count == 1 ? "." : parent.isEmpty ? "/" : parent
        if ["", ".", ".."].contains(name) {
            throw ValidationError("--\(flag) takes the name of a file, such as page.html.")
        }
    }

    /// Replaces the whole file. Throws `configInvalid` if the name belongs to a folder, a link or a device.
    func write(_ bytes: [UInt8]) throws {
        let folder = try Directory.open(folder)
        switch try folder.kind(of: name) {
        case nil, .file?: try folder.replaceFile(name, with: bytes)
        case .directory?, .symbolicLink?, .other?:
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(UntrustedName.display(path)) is not a file, so it was not replaced. Name another file with --\(flag)."
            )
        }
    }
}
