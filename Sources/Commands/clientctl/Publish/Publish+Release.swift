import BundleFormats
import ArgumentParser
import BundleArchive
import BundleCore
import BundleDisk
import BundlePublish
import BundleValues

extension Publish {
    /// Returns the release that the flags describe.
    func releaseOptions() throws -> ReleaseOptions {
        var options = ReleaseOptions(
            version: try version.semantic(), shells: try shells(), createdAt: try PublishTime.created())
        if let appId, !AppId.isReverseDNS(appId) { throw ValidationError(AppId.usage) }
        options.appId = appId
        options.notes = try notes.map(Self.text)
        if !requiresEndpoint.isEmpty, let refusal = RequiredEndpoints.refusal(requiresEndpoint) {
            throw ValidationError("--requires-endpoint: \(refusal).")
        }
        options.requiredEndpoints = requiresEndpoint
        try setFormat(of: &options)
        options.wait = try waiting.feedWait()
        options.excluded = try excluding.patterns()
        options.drops = try excluding.drops()
        options.budget = try looking.releaseBudget()
        options.mapsFolder = looking.archiveMaps
        options.allowed = try ExcludeOptions.patterns(allow, of: "allow")
        let otherSecrets = [
            passphrase.passphraseFile, BucketReading.sharedFile, BucketReading.configurationFile,
        ]
        options.secretFiles =
            signing.key + channelOptions.channelKey + [phones.phoneKey].compactMap(\.self)
            + otherSecrets.compactMap(\.self)
        options.limits = try limits.limits()
        options.trust = try channelOptions.anchor()
        options.devicesTrustNewKey = channelOptions.limits.devicesTrustNewKey
        if CommandLineFlags.contain("no-deltas"), CommandLineFlags.contain("delta-from") {
            throw ValidationError("Give either --no-deltas or --delta-from.")
        }
        options.deltas = noDeltas ? nil : try deltas.terms()
        options.isDryRun = dryRun
        options.isForPhones = phones.isAsked
        return options
    }

    private func shells() throws -> ShellRange {
        let lowest = try minShell.map { try FlagValue.version($0, of: "min-shell") } ?? .zero
        return try FlagValue.parsed(maxShell ?? "", of: "max-shell") { _ in
            try ShellRange(minimum: lowest, maximum: try maxShell.map { try SemanticVersion(parsingArgument: $0) })
        }
    }

    private func setFormat(of options: inout ReleaseOptions) throws {
        if let format {
            guard let known = ArchiveFormat(rawValue: format) else {
                throw ValidationError("--format takes tar.zst, tar.gz, zip or tar.")
            }
            options.format = known
        }
        if let level {
            let levels = options.format == .tarZstd ? 1...19 : 1...9
            guard let number = Int(level), levels.contains(number) else {
                throw ValidationError(
                    "--level takes \(levels.lowerBound) to \(levels.upperBound) for \(options.format.rawValue).")
            }
            options.level = number
        }
        if let windowLog {
            guard let number = Int(windowLog), ZstdCompressor.windowLogs.contains(number) else {
                throw ValidationError("--window-log takes 10 to 27.")
            }
            options.windowLog = number
        }
    }

    private static func text(of path: String) throws -> String {
        let file = try File.open(reading: path)
        let most = ReleaseNotes.maximumBytes
        if try file.size() > most {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The release notes \(path) have \(ByteCount(bytes: try file.size())), but the limit is \(ByteCount(bytes: most)). Shorten "
                    + "them, or link to a page.")
        }
        let bytes = try EditedText.bytes(of: file.readAll(maximumBytes: most), in: path)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The release notes \(path) are not UTF-8 text. Save the file as UTF-8.")
        }
        return text
    }
}
