import BundleFormats
import BundleCore
import BundlePublish
import BundleSigning
import BundleValues

extension Publish {
    static func warn(_ inspection: FolderInspection, release: ReleaseReport) {
        for line in InspectionOutput.excluded(inspection) { Output.say(line) }
        for line in InspectionOutput.lines(inspection) { Output.warn(line) }
        for line in InspectionOutput.lines([release.sameContent].compactMap(\.self)) { Output.warn(line) }
        if !release.raisedLimits.isEmpty {
            Output.warn(
                "this release is larger than devices allow by default: give every device "
                    + "\(release.raisedLimits.joined(separator: " and ")), too")
        }
        for warning in release.warnings { Output.warn(warning) }
        release.channel.map(ChannelOutput.warn)
    }

    func object(_ release: ReleaseReport, inspection: FolderInspection, feed: String) -> JSONObject {
        let manifest = release.manifest
        var object: JSONObject = [
            "outcome": .string(release.outcome.rawValue), "version": .string(manifest.version.description),
            "feed": .string(feed), "newest": .bool(release.isNewest), "files": .integer(manifest.fileCount ?? 0),
            "installedSize": .integer(manifest.installedSize ?? 0), "archiveSize": .integer(manifest.size ?? 0),
            "sha256": .string(manifest.sha256.hex), "contentSha256": .string(orNull: manifest.contentSha256?.hex),
            "keyId": .string(orNull: manifest.keyId),
            "largest": .array(
                release.largest.map { .object(["path": .string($0.path.string), "size": .integer($0.size)]) }),
        ]
        object["origins"] = inspection.origins.json
        object["offered"] = .string(orNull: release.offered?.description)
        object["findings"] = InspectionOutput.objects([release.sameContent].compactMap(\.self) + inspection.findings)
        object["dropped"] = InspectionOutput.objects(inspection.dropped)
        object["warnings"] = .array(release.warnings.map(JSONValue.string))
        object["raisedLimits"] = .array(release.raisedLimits.map(JSONValue.string))
        object["deltas"] = .array(release.deltas.map(DeltaLines.value))
        object["writes"] = release.writes.map(WriteOutput.value)
        object["phone"] = release.phone.map { .object(PhoneOptions.object($0)) }
        object["channel"] = release.channel.map { .object(ChannelOutput.object($0)) }
        return object
    }

    func lines(_ release: ReleaseReport, inspection: FolderInspection, feed: String) -> [String] {
        let manifest = release.manifest
        let installed = manifest.installedSize ?? 0
        let archive = manifest.size ?? 0
        // An archive of a few small files can be larger than the files.
        let percent = archive < installed ? " (\(archive * 100 / installed) %)" : ""
        let what =
            switch release.outcome {
            case .published: "published \(manifest.version) to \(feed)"
            case .unchanged: "\(manifest.version) was already in \(feed) with this content; nothing changed"
            case .completed:
                "\(manifest.version) was already in \(feed) with this content; the files that offer it were written"
            case .dryRun: "would publish \(manifest.version) to \(feed) (dry run; nothing was written)"
            }
        let size = "\(counted(manifest.fileCount ?? 0, "file")), \(ByteCount(bytes: installed))"
        return [what, "  size       \(size); archive \(ByteCount(bytes: archive))\(percent)"]
            + DeltaLines.summary(release.deltas, archive: archive, isRequested: !deltas.deltaFrom.isEmpty) + [
                target(release)
            ] + (release.phone.map { [PhoneOptions.line($0)] } ?? [])
            + inspection.origins.lines.map { "  declares   \($0)" } + WriteOutput.lines(release.writes)
    }

    /// Returns the line about the devices that get the release.
    private func target(_ release: ReleaseReport) -> String {
        let version = release.manifest.version
        if let document = release.channel?.document {
            let audience = document.releases.first { $0.version == version }?.audience(at: .now) ?? "no device"
            return
                "  channel    \(document.channel), for \(audience); sequence \(document.sequence) \(document.expires <= .now ? "expired at" : "until") \(document.expires)"
        }
        let verb = release.outcome == .dryRun ? "would offer" : "offers"
        if release.isNewest { return "  manifest   manifest.json \(verb) \(version) to every device" }
        return "  manifest   manifest.json still offers \(release.offered.map { "\($0)" } ?? "nothing")"
    }
}
