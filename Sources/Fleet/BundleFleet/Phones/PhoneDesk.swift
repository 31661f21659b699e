import ArchiveSource
import BundleCore
package import BundleDisk
package import BundleFormats
import BundleSigning
import BundleValues
import Synchronization

/// Answers the updater plugins of phones from a feed folder, with the rule of every other device.
package final class PhoneDesk: Sendable {
    package struct Terms: Sendable {
        /// The trust with which the documents of the feed are verified.
        let trust: TrustAnchor
        /// The address of the feed for phones, with a slash at the end.
        let publicURL: String
        /// Whether `custom_id` has the groups of a phone.
        let usesGroups: Bool

        package init(trust: TrustAnchor, publicURL: String, usesGroups: Bool) {
            (self.trust, self.publicURL, self.usesGroups) = (trust, publicURL, usesGroups)
        }
    }

    /// The age up to which a channel is not compared with its files, and the age up to which it is not verified again: a trust root
    /// may have been published, or a key may have ended.
    private static let lookedAtFor = Duration.seconds(1)
    private static let verifiedFor = Duration.seconds(60)

    /// A channel as it was read.
    private struct ReadChannel: Sendable {
        let content: Result<PhoneChannel, UpdateFailure>
        let bundles: [SemanticVersion: PhoneBundle]
        /// The memory of the last valid document.
        let memory: FeedMemory.ChannelMemory?
        let stamps: [FileStamp?]
        let verifiedAt: Duration
        var lookedAt: Duration
    }

    private let feed: Directory
    private let terms: Terms
    private let reports: ReportCounter?
    private let log: @Sendable (String) -> Void
    private let stopwatch = Stopwatch(SuspendingClock())
    private let channels = Mutex<[String: ReadChannel]>([:])

    /// Serves phones from `feed`. The facts of statistics go into `reports`; without it, they are dropped.
    package init(
        _ feed: Directory, _ terms: Terms, reports: ReportCounter?, log: @escaping @Sendable (String) -> Void
    ) {
        (self.feed, self.terms, self.reports, self.log) = (feed, terms, reports, log)
    }

    /// Answers a call with its body or query. It must not be called on the server's thread.
    func answer(_ call: PhoneCall, _ message: [UInt8]) async -> PhoneAnswer {
        do {
            switch call {
            case .update(let channel):
                let check = try PhoneCheck(capgo: message, usesGroups: terms.usesGroups)
                return .object(capgo(check, in: channel))
            case .latest(let named):
                let query = try PhoneQuery(parsing: message)
                let channel = named ?? query["channelName"] ?? ChannelFileName.standard
                let check = try PhoneCheck(capawesome: query, usesGroups: terms.usesGroups)
                return capawesome(check, in: channel).map(PhoneAnswer.object) ?? .none
            case .statistics(let channel):
                let found = try PhoneEvents.reports(in: message, channel: channel, standard: ChannelFileName.standard)
                return await count(found)
            }
        } catch {
            return .malformed("\(error)")
        }
    }

    private func count(_ found: [DeviceReport]) async -> PhoneAnswer {
        guard let reports, !found.isEmpty else { return .object(["status": .string("ok")]) }
        return switch await reports.take(ofPhone: found) {
        case .taken: .object(["status": .string("ok")])
        case .malformed(let problem): .malformed(problem)
        case .tooMany(let seconds): .later(seconds: seconds)
        case .failed: .later(seconds: 60)
        }
    }

    // MARK: The plugins

    private func capgo(_ check: PhoneCheck, in channel: String) -> JSONObject {
        func none(_ kind: String, _ code: String, _ message: String) -> JSONObject {
            ["kind": .string(kind), "error": .string(code), "message": .string(message)]
        }
        let read = read(channel)
        do {
            guard let read else {
                return none("failed", "unknown_channel", "The feed has no channel of this name.")
            }
            switch try judge(check, read) {
            case .upToDate: return none("up_to_date", "no_new_version_available", "No new version available")
            case .leave: return Self.builtin
            case .blocked(let objection): return none("blocked", objection.phoneWord, objection.reason)
            case .install(let version, let isLeaving):
                guard let bundle = read.bundles[version] else {
                    return isLeaving
                        ? Self.builtin
                        : none("blocked", "no_phone_bundle", "Version \(version) was published without --phone.")
                }
                guard let keyId = check.keyId else { return answer(bundle.zip, of: version, bundle.zip.sha256.hex) }
                guard let sealing = bundle.sealing, sealing.keyId == keyId else {
                    return isLeaving
                        ? Self.builtin
                        : none("blocked", "other_key", "Version \(version) is not encrypted for the key of this app.")
                }
                return answer(
                    sealing.encryption.file, of: version, sealing.encryption.checksum,
                    sessionKey: sealing.encryption.sessionKey)
            }
        } catch {
            return none("failed", "channel_unavailable", UpdateFailure(error).message)
        }
    }

    /// The plugin returns to the files in the app.
    private static let builtin: JSONObject = ["version": .string("builtin"), "url": .string("")]

    private func answer(
        _ file: PhoneBundle.PhoneFile, of version: SemanticVersion, _ checksum: String, sessionKey: String? = nil
    ) -> JSONObject {
        var object: JSONObject = [
            "version": .string(version.description), "url": .string(url(of: file, version)),
            "checksum": .string(checksum),
        ]
        object["session_key"] = sessionKey.map(JSONValue.string)
        return object
    }

    /// Returns nil if there is nothing to download. The contract has no words for a return to the files in the app.
    private func capawesome(_ check: PhoneCheck, in channel: String) -> JSONObject? {
        guard let read = read(channel), case .install(let version, _)? = try? judge(check, read),
            let bundle = read.bundles[version]
        else { return nil }
        var object: JSONObject = [
            "artifactType": .string("zip"), "bundleId": .string(version.description), "channelName": .string(channel),
            "checksum": .string(bundle.zip.sha256.hex), "url": .string(url(of: bundle.zip, version)),
        ]
        object["signature"] = (bundle.sealing?.signature).map(JSONValue.string)
        return object
    }

    private func url(of file: PhoneBundle.PhoneFile, _ version: SemanticVersion) -> String {
        "\(terms.publicURL)releases/\(version.folderName)/\(file.name)"
    }

    private func judge(_ check: PhoneCheck, _ read: ReadChannel) throws -> PhoneVerdict {
        let channel = try read.content.get()
        if let own = channel.document.appId, let named = check.appId, !own.utf8.elementsEqual(named.utf8) {
            return .blocked(.application(own, expected: named))
        }
        return try channel.judge(check.phone, at: .now)
    }

    // MARK: The feed

    /// Returns a channel; nil if the feed does not have it.
    private func read(_ name: String) -> ReadChannel? {
        guard ChannelFileName.isName(name) else { return nil }
        let now = stopwatch.elapsed
        let known = channels.withLock { channels -> (ReadChannel, isNew: Bool)? in
            guard var known = channels[name] else { return nil }
            if now - known.lookedAt < Self.lookedAtFor { return (known, true) }
            // Other requests use the present state meanwhile.
            known.lookedAt = now
            channels[name] = known
            return (known, false)
        }
        if let known, known.isNew { return known.0 }
        let folder = (try? Directory.open(feed.path)) ?? feed
        let stamps = Self.stamps(of: name, in: folder)
        if let known = known?.0, known.stamps == stamps, now - known.verifiedAt < Self.verifiedFor { return known }
        guard stamps.first != .some(nil) else {
            channels.withLock { $0[name] = nil }
            return nil
        }
        let fresh = load(name, in: folder, stamps: stamps, after: known?.0, at: now)
        channels.withLock { $0[name] = fresh }
        return fresh
    }

    private static func files(of name: String) -> [String] {
        ["channels/\(ChannelFileName.file(of: name))", "channels/\(ChannelFileName.holdFile(of: name))"]
    }

    private static func stamps(of name: String, in folder: Directory) -> [FileStamp?] {
        files(of: name).map { (try? folder.stamp(of: $0)) ?? nil }
    }

    private func load(
        _ name: String, in folder: Directory, stamps: [FileStamp?], after known: ReadChannel?, at now: Duration
    ) -> ReadChannel {
        do {
            let files = Self.files(of: name)
            var device = try NewDevice(trusting: terms.trust, clock: .now)
            try device.follow { try folder.contents($0, maximumBytes: TrustRootFormat.maximumBytes) }
            let bytes = try folder.contents(files[0], maximumBytes: ChannelFormat.maximumBytes) ?? []
            let hold = try folder.contents(files[1], maximumBytes: HoldFormat.maximumBytes)
            let channel = try PhoneChannel(bytes, channel: name, hold: hold, on: device, following: known?.memory)
            let bundles = bundles(of: channel, in: folder, isNew: known?.stamps != stamps)
            return ReadChannel(
                content: .success(channel), bundles: bundles, memory: channel.memory, stamps: stamps, verifiedAt: now,
                lookedAt: now)
        } catch {
            let failure = UpdateFailure(error)
            let former = (known?.content).flatMap { if case .failure(let former) = $0 { former.message } else { nil } }
            if former != failure.message { log("phones get no answer from channel \(name): \(failure.message)") }
            return ReadChannel(
                content: .failure(failure), bundles: [:], memory: known?.memory, stamps: stamps, verifiedAt: now,
                lookedAt: now)
        }
    }

    private func bundles(of channel: PhoneChannel, in folder: Directory, isNew: Bool) -> [SemanticVersion: PhoneBundle]
    {
        var bundles: [SemanticVersion: PhoneBundle] = [:]
        for manifest in channel.manifests {
            let name = "releases/\(manifest.version.folderName)/\(PhoneBundleFormat.fileName)"
            do {
                guard let bytes = try folder.contents(name, maximumBytes: PhoneBundleFormat.maximumBytes) else {
                    continue
                }
                bundles[manifest.version] = try PhoneBundleFormat.verify(
                    bytes, of: manifest, trusted: channel.releaseKeys)
            } catch {
                if isNew { log("\(name) is not offered to phones: \(UpdateFailure(error).message)") }
            }
        }
        return bundles
    }
}

/// The events that Capgo's plugin reports, as reports of a device.
private enum PhoneEvents {
    /// The events that mean something for a release. All others are dropped.
    private static let facts: [String: [(fact: DeviceReport.Fact, code: DeviceReport.Code?)]] = [
        "set": [(.installed, nil), (.started, nil)],
        "app_launch_ready": [(.confirmed, nil)],
        "update_fail": [(.failed, .notConfirmed)],
        "app_launch_timeout": [(.failed, .notConfirmed)],
        "reset": [(.rolledBack, nil)],
        "checksum_fail": [(.failed, .digestMismatch)],
        "unzip_fail": [(.failed, .archiveRejected)],
        "download_fail": [(.failed, .networkUnavailable)],
    ]

    /// Returns the reports in a body: an event, or a list of them. Throws if it is neither. `channel` is the channel of the address;
    /// without one, each event names its own, or else belongs to `standard`.
    static func reports(in body: [UInt8], channel: String?, standard: String) throws -> [DeviceReport] {
        let value = try JSONScanner.parse(body, maximumBytes: body.count)
        guard let events = value.arrayValue ?? value.objectValue.map({ [.object($0)] }) else {
            throw MemberReader.Refusal(member: "statistics", problem: "are neither an event nor a list of events")
        }
        return try events.compactMap(\.objectValue).flatMap { event in
            let named = event["defaultChannel"]?.stringValue.flatMap { ChannelFileName.isName($0) ? $0 : nil }
            return try reports(of: event, channel: channel ?? named ?? standard)
        }
    }

    private static func reports(of event: JSONObject, channel: String) throws -> [DeviceReport] {
        func text(_ member: String) -> String? { event[member]?.stringValue }
        func version(_ member: String) -> SemanticVersion? {
            text(member).flatMap { try? SemanticVersion(parsing: $0) }
        }
        guard let action = text("action"), let facts = facts[action], let device = text("device_id"), !device.isEmpty,
            let platform = text("platform").flatMap(DeviceReport.Platform.init)
        else { return [] }
        // After a reset, the version that the phone left is the old one.
        let isReset = action == "reset"
        guard let version = isReset ? version("old_version_name") : version("version_name") else { return [] }
        return try facts.map { fact, code in
            DeviceReport(
                id: try id(device, version, fact, channel), fact: fact, version: version, channel: channel, code: code,
                platform: platform)
        }
    }

    /// Returns the ID by which a fact about a version counts once for a device. It does not reveal the device's own ID.
    private static func id(
        _ device: String, _ version: SemanticVersion, _ fact: DeviceReport.Fact, _ channel: String
    ) throws -> String {
        let text = [device, version.description, fact.rawValue, channel].joined(separator: "\0")
        return String(try SHA256Digest.of(Array(text.utf8)).hex.prefix(32))
    }
}
