import BundleFormats
import ArchiveSource
package import BundleDisk
import BundleSigning
package import BundleValues
import Synchronization

/// An HTML page of a roster, and its content security policy.
struct RosterDisplay {
    let html: String
    let policy: String
}

/// The connection that writes. A transaction belongs to its connection, so one thread at a time uses it.
private final class RosterWriter: Sendable {
    private let file: Mutex<RosterFile>

    init(_ file: RosterFile) { self.file = Mutex(file) }

    func write<Value: Sendable>(_ body: (RosterFile) throws -> Value) throws -> Value {
        try file.withLock { try body($0) }
    }
}

/// Keeps the newest message of each device in a database. A message is on the disk before its device receives the response.
package actor RosterStore {
    /// The shortest time between two commits. One commit serves all waiting requests.
    private static let commitPause = Duration.milliseconds(500)
    /// The largest number of messages that wait for a commit.
    private static let mostWaiting = 2000
    private static let sweepInterval = 3600
    /// The age up to which the newest releases of the feed are not read again for a message.
    private static let feedInterval = Duration.seconds(10)

    private let path: String
    private let file: RosterWriter
    nonisolated let keepsPictures: Bool
    private let feed: Directory?
    private var expected: ExpectedDevices?
    private let environment: Environment
    private let stopwatch: Stopwatch
    private var allowance = AddressAllowance()
    private var devices: Int
    private var swept: Timestamp

    private struct PendingPost {
        let arrival: RosterFile.Arrival
        let continuation: CheckedContinuation<RosterVerdict, Never>
    }

    private var waiting: [PendingPost] = []
    private var isWriting = false
    private var committedAt: Duration?
    private var feedReadAt: Duration?
    private(set) var commits = 0

    /// Opens or creates the roster at `path`, and forgets devices without a message for 90 days. Throws `UpdateFailure` if it is not a
    /// roster. `feed` has the releases that devices should run, and `expected` the devices that should be there. Without `keepsPictures`,
    /// removes the pictures of an earlier host.
    package init(
        _ path: String, of feed: Directory? = nil, expecting expected: ExpectedDevices? = nil,
        keepsPictures: Bool = false, environment: Environment = Environment()
    ) throws {
        self.path = path
        (self.feed, self.expected) = (feed, expected)
        self.environment = environment
        stopwatch = Stopwatch(environment.clock)
        self.keepsPictures = keepsPictures
        let file = try RosterFile(path)
        swept = environment.now()
        // The roster is served from a full disk, too.
        try? file.forgetOld(at: swept)
        if !keepsPictures { try? file.forgetPictures() }
        devices = try file.count()
        self.file = RosterWriter(file)
    }

    /// Expects these devices from now on.
    package func expect(_ devices: ExpectedDevices) { expected = devices }

    /// Records the newest releases of the feed, unless they were read within `age`.
    private func readFeed(unlessYoungerThan age: Duration = .zero) async {
        guard let feed, feedReadAt.map({ stopwatch.elapsed - $0 >= age }) ?? true else { return }
        feedReadAt = stopwatch.elapsed
        let time = environment.now()
        // A roster is served from a full disk, too.
        try? await onThread { [file] in
            let newest = try NewestReleases.read(from: feed, at: time)
            try file.write { try $0.note(newest, at: time) }
        }
    }

    /// Stores a message. It is on the disk when this returns `taken`.
    func take(_ message: [UInt8], from sender: RosterMessenger) async -> RosterVerdict {
        guard allowance.consume(sender.address, at: stopwatch.elapsed), waiting.count < Self.mostWaiting else {
            return .tooMany(retryAfter: 30)
        }
        let post: RosterPost
        do { post = try RosterPost(parsing: message) } catch { return .malformed("\(error)") }
        if !RosterPost.isName(post.name) {
            return .malformed("name has the form of an ID, which could be another device")
        }
        guard let signature = Self.signature(of: message, sender) else { return Self.unsigned }
        let arrival = RosterFile.Arrival(post: post, key: signature.key.id, at: environment.now())
        return await withCheckedContinuation { continuation in
            waiting.append(PendingPost(arrival: arrival, continuation: continuation))
            if isWriting { return }
            isWriting = true
            Task { await write() }
        }
    }

    /// Stores a picture. It is on the disk when this returns `taken`.
    func takePicture(_ message: [UInt8], from sender: RosterMessenger) async -> RosterVerdict {
        guard keepsPictures else { return .unwanted }
        guard allowance.consume(sender.address, at: stopwatch.elapsed) else { return .tooMany(retryAfter: 30) }
        let post: PicturePost
        do { post = try PicturePost(parsing: message) } catch { return .malformed("\(error)") }
        guard let signature = Self.signature(of: message, sender) else { return Self.unsigned }
        let (key, now) = (signature.key.id, environment.now())
        guard
            let verdict = try? await onThread({ [file] in
                try file.write { try $0.store(post, by: key, at: now) }
            })
        else { return .full }
        return switch verdict {
        case .taken: .taken
        case .impostor: .conflict
        case .unknown: .malformed("the roster does not have the device yet: its state comes first")
        case .older: .malformed("the picture is not newer than the last one: it is a copy, or the clock went back")
        }
    }

    /// Returns the signature of a message if it is valid.
    private static func signature(of message: [UInt8], _ sender: RosterMessenger) -> DeviceSignature? {
        guard let signature = sender.key.flatMap(DeviceSignature.init), (try? signature.isValid(over: message)) == true
        else { return nil }
        return signature
    }

    private static let unsigned = RosterVerdict.malformed(
        "X-Device-Key is not an Ed25519 key with its signature over the body")

    private func write() async {
        while !waiting.isEmpty {
            if let committedAt {
                try? await environment.clock.sleep(
                    for: max(.zero, Self.commitPause - (stopwatch.elapsed - committedAt)))
            }
            await readFeed(unlessYoungerThan: Self.feedInterval)
            let (served, before, time) = (waiting, devices, environment.now())
            waiting = []
            let isSweep = time.secondsSinceEpoch - swept.secondsSinceEpoch >= Self.sweepInterval
            if isSweep { swept = time }
            let result = try? await onThread { [file] in
                try file.write { file in
                    if isSweep { try? file.forgetOld(at: time) }
                    var count = isSweep ? try file.count() : before
                    let verdicts = try file.store(served.map(\.arrival), devices: &count)
                    return (verdicts, count)
                }
            }
            commits += 1
            committedAt = stopwatch.elapsed
            if let result { devices = result.1 }
            for (index, request) in served.enumerated() {
                request.continuation.resume(returning: result.map { Self.answer(to: $0.0[index]) } ?? .full)
            }
        }
        isWriting = false
    }

    private static func answer(to verdict: RosterRule.Verdict) -> RosterVerdict {
        switch verdict {
        case .new, .known: .taken
        case .impostor: .conflict
        case .older:
            .malformed(
                "checked is before that of the last message: the clock went back, or the message is a copy of an old one"
            )
        case .full: .full
        }
    }

    // MARK: Reading

    /// Runs `work` with a connection of its own on another thread, so that a large answer delays no message.
    private nonisolated func read<Value: Sendable>(
        _ work: @escaping @Sendable (RosterFile) throws -> Value
    ) async throws -> Value {
        try await onThread { [path] in try work(RosterFile(path, isReadOnly: true)) }
    }

    /// Returns one part of the roster as JSON; nil if the query is invalid.
    func document(query: String) async throws -> [UInt8]? {
        guard let filter = RosterFilter(query: query) else { return nil }
        await readFeed()
        let (time, expected) = (environment.now(), expected)
        return try await read { file in
            let (rows, total) = try file.rows(filter, at: time)
            let next = rows.count == RosterFile.pageSize ? rows.last?.post.device : nil
            var object: JSONObject = [
                "at": .string(time.description), "total": total.map(JSONValue.integer) ?? .null,
                "devices": .array(rows.placed(at: time).map { .object($0.json(at: time)) }),
                "after": .string(orNull: next),
            ]
            if filter.after == nil {
                object["inventory"] = .object(try file.inventory(expecting: expected, at: time).json)
            }
            return JSONWriter.bytes(of: .object(object))
        }
    }

    /// Returns the list of devices as a page; nil if the query is invalid.
    func page(query: String) async throws -> RosterDisplay? {
        guard let filter = RosterFilter(query: query) else { return nil }
        await readFeed()
        let (time, expected) = (environment.now(), expected)
        return try await read { file in
            var (best, total) = ([RosterRow](), 0)
            func add(_ row: RosterRow) {
                total += 1
                best.append(row)
                if best.count == 4 * RosterPage.most { best = Array(best.placed(at: time).prefix(RosterPage.most)) }
            }
            let inventory = try file.inventory(expecting: expected, at: time, selecting: filter, add)
            let page = RosterPage(
                filter: filter, rows: Array(best.placed(at: time).prefix(RosterPage.most)), total: total,
                inventory: inventory, clock: time)
            return try RosterDisplay(html: page.html(), policy: RosterPage.policy())
        }
    }

    /// Returns the page of one device; nil if the roster does not have it.
    func page(of device: String) async throws -> RosterDisplay? {
        guard RosterPost.isDevice(device) else { return nil }
        await readFeed()
        let time = environment.now()
        return try await read { file in
            guard let row = try file.row(of: device) else { return nil }
            return try RosterDisplay(html: DevicePage(row: row, clock: time).html(), policy: RosterPage.policy())
        }
    }

    /// Returns the last picture of this kind; nil if the roster has none.
    func picture(of device: String, _ kind: PicturePost.Kind) async throws -> ScreenPicture? {
        try await read { try $0.picture(of: device, kind) }
    }

    /// Removes the device that the body of a request names. Returns whether the roster had it; nil if the body is invalid.
    func forget(_ message: [UInt8]) async throws -> Bool? {
        guard let object = try? JSONScanner.parse(message, maximumBytes: RosterPost.maximumBytes).objectValue,
            let device = object["forget"]?.stringValue, RosterPost.isDevice(device)
        else { return nil }
        if object.members.map(\.name) == ["forget", "key"], let key = object["key"]?.stringValue, RosterFile.isKey(key)
        {
            return try await onThread { [file] in try file.write { try $0.pin(key, for: device) } }
        }
        guard object.members.map(\.name) == ["forget"] else { return nil }
        let wasThere = try await onThread { [file] in try file.write { try $0.forget(device) } }
        if wasThere { devices -= 1 }
        return wasThere
    }

    /// Returns the totals in the text format of Prometheus.
    func metrics() async -> String {
        let time = environment.now()
        let families = try? await read { file in try RosterMetrics.families(file, at: time) }
        return MetricsText.text(of: families ?? [])
    }
}

/// The newest releases of a feed's channels. Signatures are not checked: the roster only shows them, and each device checks its own.
private enum NewestReleases {
    static func read(from feed: Directory, at time: Timestamp) throws -> [String: SemanticVersion] {
        // Another folder may have replaced the feed.
        let feed = try Directory.open(feed.path)
        var newest: [String: SemanticVersion] = [:]
        let folder = ChannelSequences.folder(in: feed)
        for channel in ChannelSequences.names(in: feed) {
            guard let bytes = try folder?.contents("\(channel).json", maximumBytes: ChannelFormat.maximumBytes) else {
                continue
            }
            newest[channel] = RosterRule.newest(of: try ChannelSequences.document(in: bytes, of: channel), at: time)
        }
        if let bytes = try feed.contents("manifest.json", maximumBytes: ManifestFormat.maximumBytes) {
            newest[""] = try ManifestFormat.parse(bytes).claims.version
        }
        return newest
    }
}

/// The metrics of a roster. No label contains a name, and the number of labels is limited.
enum RosterMetrics {
    /// The largest number of versions with separate labels.
    private static let versions = 50
    private static let spans = [("1h", 3600), ("1d", 86_400), ("7d", 7 * 86_400)]

    static func families(_ file: RosterFile, at time: Timestamp) throws -> [MetricFamily] {
        [
            devices(try file.tallies()),
            MetricFamily(
                "clientctl_roster_silent", .gauge, help: "Devices without a message for longer than this time.",
                samples: try [
                    .init(Double(file.silent(at: time)), labels: [(name: "over", value: "2 intervals")])
                ]
                    + spans.map {
                        .init(Double(try file.silent(for: $0.1, at: time)), labels: [(name: "over", value: $0.0)])
                    }),
            MetricFamily(
                "clientctl_roster_conflicts", .gauge, help: "Devices for which another key signed a message.",
                samples: [.init(Double(try file.conflicts()))]),
        ]
    }

    static func devices(_ tallies: [RosterFile.Tally]) -> MetricFamily {
        var named: [String] = []
        for tally in tallies where !named.contains(tally.version) && named.count < versions {
            named.append(tally.version)
        }
        var counts: [[String]: Int] = [:]
        for tally in tallies {
            counts[[named.contains(tally.version) ? tally.version : "other", tally.state], default: 0] += tally.devices
        }
        return MetricFamily(
            "clientctl_roster_devices", .gauge, help: "Devices by the version that runs and its state.",
            samples: counts.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map {
                .init(
                    Double($0.value), labels: [(name: "version", value: $0.key[0]), (name: "state", value: $0.key[1])])
            })
    }
}
