package import BundleFormats
package import BundleValues

/// Checks a feed at its public URL as a device would, and compares it with its origin.
package struct FeedCheck {
    /// The result of a check.
    package struct CheckReport: Sendable {
        package var findings: [FeedFinding] = []
        /// The sequence of each channel.
        package var channels: [String: Int] = [:]
        /// The version that `manifest.json` offers.
        package var offered: SemanticVersion?
        /// The number of archives that were requested.
        package var archives = 0
        /// The number of deltas that were requested.
        package var deltas = 0
        /// The sum of the sizes in their documents.
        package var bytes = 0
    }

    private let base: FetchURL
    let fetcher: any Fetcher
    /// nil if signatures are not verified.
    private var device: NewDevice?
    private let origin: (any FeedLocation)?
    private let clock: Timestamp
    /// Whether to request the archives and deltas of a release.
    var looksInto: (SemanticVersion) -> Bool = { _ in true }
    /// Whether an offline kit omits a release.
    var leavesOut: (SemanticVersion) -> Bool = { _ in false }
    var report = CheckReport()
    var seen: Set<FetchURL> = []
    private var documents: [ChannelDocument] = []

    /// Checks the feed at `base`, which ends with a slash. `origin` is the location of the feed, if it is known.
    package init(
        _ base: FetchURL, with fetcher: any Fetcher, trust: TrustAnchor?, origin: (any FeedLocation)?, clock: Timestamp
    ) throws {
        (self.base, self.fetcher, self.origin, self.clock) = (base, fetcher, origin, clock)
        device = try trust.map { try NewDevice(trusting: $0, clock: clock) }
    }

    /// Checks `manifest.json` and `channels`; if none are given, the channels of the origin, or the default channel.
    package mutating func run(channels: [String]) async throws -> CheckReport {
        let known = try channels.isEmpty ? origin.map { try ChannelWriter.channels(in: $0) } ?? [] : channels
        let isGuess = known.isEmpty
        try await followTrust()
        try await checkManifest(isNeeded: isGuess)
        for channel in isGuess ? [ChannelFileName.standard] : known {
            try await check(channel, isNeeded: !isGuess)
        }
        try checkRecall()
        return report
    }

    /// Checks `manifest.json` and, if it is given, `channel`.
    mutating func run(channel: String?) async throws -> CheckReport {
        try await checkManifest(isNeeded: channel == nil)
        if let channel { try await check(channel, isNeeded: true) }
        try checkRecall()
        return report
    }

    mutating func find(_ code: FeedFinding.Code, at url: FetchURL, message: String) {
        find(code, at: url, message: message, failure: code.failure)
    }

    mutating func find(
        _ code: FeedFinding.Code, at url: FetchURL, message: String, failure: FailureCode?
    ) {
        report.findings.append(FeedFinding(code: code, subject: url.display, message: message, failure: failure))
    }

    // MARK: Trust roots

    /// Follows the chain of trust roots as devices do. The last valid root verifies all other files.
    private mutating func followTrust() async throws {
        var last = base
        for _ in 0..<TrustChain.mostSteps {
            guard let name = device?.nextRoot else { break }
            let url = try base.resolve(relative: name)
            guard let bytes = try await document(url, maximumBytes: TrustRootFormat.maximumBytes, isNeeded: false)
            else { break }
            do {
                try device?.advance(toRoot: bytes)
            } catch {
                let failure = UpdateFailure(error)
                let what = "Devices no longer update, because it does not follow the trust root before it. Restore it. "
                return find(.brokenChain, at: url, message: what + failure.message, failure: failure.code)
            }
            last = url
        }
        guard let device else { return }
        _ = attempt(at: last) { try device.requireFresh() }
    }

    // MARK: Channels and manifest

    private mutating func checkManifest(isNeeded: Bool) async throws {
        let url = try base.resolve(relative: ReleaseFeed.manifestName)
        let newest = try origin.flatMap { try ReleaseFeed.newestRecord(in: $0) }
        let isNeeded = origin == nil ? isNeeded : newest != nil
        guard let bytes = try await document(url, maximumBytes: ManifestFormat.maximumBytes, isNeeded: isNeeded) else {
            return
        }
        guard let manifest = attempt(at: url, { try ManifestFormat.parse(bytes) }) else { return }
        report.offered = manifest.claims.version
        if let newest, newest.record.bytes != bytes {
            let published = newest.manifest.claims.version
            find(
                .stale, at: url,
                message: published == manifest.claims.version
                    ? Self.otherBytes("It offers \(published)")
                    : "It offers \(manifest.claims.version), and \(published) was published: purge the caches in front of the feed."
            )
        }
        if let device {
            if device.revocation(of: manifest) != nil {
                return find(
                    .revokedKey, at: url,
                    message:
                        "The key of version \(manifest.claims.version) is revoked, so no device takes it: publish a new release."
                )
            }
            guard attempt(at: url, { try device.verify(manifest) }) != nil else { return }
        }
        try await check(manifest, at: url)
    }

    private mutating func checkRecall() throws {
        guard let offered = report.offered, let channel = FeedRecalls.recall(of: offered, in: documents)?.channel else {
            return
        }
        find(
            .recalled, at: try base.resolve(relative: ReleaseFeed.manifestName),
            message:
                "It offers \(offered), which channel \(channel) recalls: run `clientctl channel renew --channel \(channel)`, or "
                + "purge the caches in front of the feed.")
    }

    private mutating func check(_ channel: String, isNeeded: Bool) async throws {
        let url = try base.resolve(relative: "\(ChannelWriter.folder)/\(ChannelFileName.file(of: channel))")
        guard let bytes = try await document(url, maximumBytes: ChannelFormat.maximumBytes, isNeeded: isNeeded) else {
            return
        }
        let device = device
        let parsed = attempt(at: url) { () throws -> ChannelDocument in
            let envelope = try ChannelFormat.envelope(parsing: bytes)
            guard let device else { return try ChannelFormat.parse(envelope).claims }
            return try device.verify(envelope, channel: channel).document
        }
        guard let document = parsed else { return }
        report.channels[channel] = document.sequence
        documents.append(document)
        checkExpiry(document, at: url)
        if let record = try origin.flatMap({ try ChannelWriter.record(of: channel, in: $0) }) {
            let published = try ChannelFormat.document(in: record.bytes).sequence
            if record.bytes != bytes {
                find(
                    .stale, at: url,
                    message: published == document.sequence
                        ? Self.otherBytes("It has sequence \(published)")
                        : "It has sequence \(document.sequence), and \(published) was published: purge the caches in front of the feed, "
                            + "or wait until they have what is new.")
            }
        }
        try await checkHold(of: document)
        let refused = device?.refused(of: document) ?? []
        for release in refused { find(release, of: channel, at: url) }
        for release in document.releases where !refused.contains(where: { $0.version == release.version }) {
            try await check(release.manifest, at: url)
        }
    }

    private mutating func find(_ release: NewDevice.DeviceRefusal, of channel: String, at url: FetchURL) {
        let version = release.version
        let failure = release.isMissed ? release.failure.code : nil
        let remove = "clientctl release withdraw --version \(version) --channel \(channel)"
        if release.isRevoked {
            let rest = release.isMissed ? "so no device takes it: publish a new release, and remove it" : "so remove it"
            find(
                .revokedKey, at: url, message: "The key of version \(version) is revoked, \(rest): \(remove)",
                failure: failure)
        } else {
            find(Self.code(of: release.failure), at: url, message: release.failure.message, failure: failure)
        }
    }

    /// Checks the hold of a channel. A device with a guard installs nothing while it cannot get the hold. Without a
    /// published hold, devices install the releases that it covers.
    private mutating func checkHold(of document: ChannelDocument) async throws {
        let path = HoldEditor.path(of: document.channel)
        let record = try origin?.read(path, maximumBytes: HoldFormat.maximumBytes)
        guard record != nil || device?.hasGuard == true else { return }
        let url = try base.resolve(relative: path)
        guard
            let bytes = try await self.document(
                url, maximumBytes: HoldFormat.maximumBytes, isNeeded: record != nil, isAbsence: { $0.isAbsenceOfHold })
        else { return }
        if let record, bytes != record.bytes {
            find(
                .stale, at: url,
                message:
                    "It is not the hold that was published: purge the caches in front of the feed, or wait until they have what is new."
            )
        }
        guard let device, device.hasGuard else { return }
        do {
            _ = try device.verify(hold: bytes, channel: document.channel)
        } catch {
            find(.voidHold, at: url, message: "Devices ignore this hold: \(UpdateFailure(error).message)")
        }
    }

    private static func otherBytes(_ found: String) -> String {
        "\(found), as was published, and has other bytes: purge the caches in front of the feed, and let nothing on the way change files."
    }

    private mutating func checkExpiry(_ document: ChannelDocument, at url: FetchURL) {
        if document.expires <= clock {
            find(
                .expired, at: url,
                message: "It expired at \(document.expires): sign it again with `clientctl channel renew`.")
        } else if document.expires < clock.adding(.seconds(3 * 86_400)) {
            find(
                .expiresSoon, at: url,
                message: "It expires at \(document.expires): sign it again with `clientctl channel renew`.")
        }
    }

    /// Returns the result of `read`; adds a finding and returns nil if it throws.
    mutating func attempt<Answer>(at url: FetchURL, _ read: () throws -> Answer) -> Answer? {
        do {
            return try read()
        } catch {
            let failure = UpdateFailure(error)
            find(Self.code(of: failure), at: url, message: failure.message, failure: failure.code)
            return nil
        }
    }

    private static func code(of failure: UpdateFailure) -> FeedFinding.Code {
        switch failure.code {
        case .signatureInvalid, .keyUnknown: .notVouchedFor
        case .appMismatch: .otherApp
        case .expired: .expired
        default: .malformed
        }
    }
}

/// The files of releases, and the responses of all files.
extension FeedCheck {
    mutating func check(_ manifest: UnverifiedManifest, at url: FetchURL) async throws {
        if leavesOut(manifest.claims.version) { return }
        guard looksInto(manifest.claims.version),
            let archive = attempt(at: url, { try url.resolve(relative: manifest.claims.url) })
        else { return }
        guard url.mayLead(to: archive) else {
            return find(
                .malformed, at: url,
                message: "Version \(manifest.claims.version) leads to \(archive.display), which is less protected.")
        }
        guard try await content(archive, size: manifest.claims.size, counting: \.archives) else { return }
        let list = try archive.resolve(relative: DeltaListFormat.fileName)
        guard let bytes = try await document(list, maximumBytes: DeltaListFormat.maximumBytes, isNeeded: false),
            let deltas = attempt(
                at: list, { try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: bytes)).deltas })
        else { return }
        for delta in deltas {
            guard let file = attempt(at: list, { try list.resolve(relative: delta.url) }) else { continue }
            _ = try await content(file, size: delta.size, counting: \.deltas)
        }
    }

    // MARK: Responses

    /// Returns the file at `url`; nil if it does not exist, which is a finding if the file is required.
    mutating func document(
        _ url: FetchURL, maximumBytes limit: Int, isNeeded: Bool, isAbsence: (FetchError) -> Bool = { $0.isAbsence }
    ) async throws -> [UInt8]? {
        var sink = CheckSink(keeps: true)
        do {
            let head = try await fetcher.fetch(FetchRequest(url: url, maximumBytes: limit), into: &sink)
            for code in FeedResponseRule.document(head) { find(code, at: url, message: code.words(of: head)) }
            return sink.bytes
        } catch let error as FetchError {
            if !isNeeded, isAbsence(error) { return nil }
            if case .tooLarge = error {
                find(.malformed, at: url, message: error.description)
            } else {
                find(Self.code(of: error), at: url, message: error.description)
            }
            return nil
        }
    }

    /// Requests a file and, if it exists, its last byte, as a device does after an interruption; returns false if it was requested before.
    private mutating func content(
        _ url: FetchURL, size: Int?, counting count: WritableKeyPath<CheckReport, Int>
    ) async throws -> Bool {
        guard seen.insert(url).inserted else { return false }
        report[keyPath: count] += 1
        report.bytes += size ?? 0
        guard let head = try await head(FetchRequest(url: url, maximumBytes: .max)) else { return true }
        for code in FeedResponseRule.content(head, size: size) {
            find(code, at: url, message: code.words(of: head, size: size))
        }
        guard !url.isFile, let size = head.contentLength, size > 1,
            let rest = FetchRequest.Resume(ofKnownContent: size - 1),
            let part = try await self.head(FetchRequest(url: url, maximumBytes: .max, resume: rest))
        else { return true }
        if part.rangeStart != size - 1 { find(.noRanges, at: url, message: FeedFinding.Code.noRanges.words(of: part)) }
        return true
    }

    /// Returns the head of a response; adds a finding and returns nil if there is none.
    private mutating func head(_ request: FetchRequest) async throws -> FetchHead? {
        var sink = CheckSink(keeps: false)
        do {
            return try await fetcher.fetch(request, into: &sink)
        } catch let seen as CheckSink.HeadSeen {
            return seen.head
        } catch let error as FetchError {
            find(Self.code(of: error), at: request.url, message: error.description)
            return nil
        }
    }

    private static func code(of error: FetchError) -> FeedFinding.Code {
        if error.isRefusal { return .refused }
        return UpdateFailure(error).code == .networkUnavailable ? .unreachable : .missing
    }
}
