import BundleFormats
import ArgumentParser
import BundleCore
import BundlePublish
import BundleValues

enum ChannelView {
    static func requireName(_ channel: String) throws {
        guard ChannelFileName.isName(channel) else {
            throw ValidationError("--channel: \(UntrustedName.display(channel)) is not the name of a channel.")
        }
    }

    static func object(_ document: ChannelDocument, now: Timestamp) -> JSONObject {
        [
            "channel": .string(document.channel), "appId": .string(orNull: document.appId),
            "sequence": .integer(document.sequence), "issuedAt": .string(document.issuedAt.description),
            "expires": .string(document.expires.description), "expired": .bool(document.expires <= now),
            "minimumVersion": .string(orNull: document.minimumVersion?.description),
            "poll": document.poll.map {
                .object(["interval": .integer($0.interval), "jitter": .integer($0.jitter)])
            } ?? .null,
            "busyLimit": document.busyLimit.map(JSONValue.integer) ?? .null,
            "releases": .array(sorted(document).map { .object(object($0, in: document, now: now)) }),
            "recalled": .array(
                document.recalled.map {
                    .object(["version": .string($0.version.description), "reason": .string($0.reason)])
                }),
        ]
    }

    private static func sorted(_ document: ChannelDocument) -> [ChannelDocument.Release] {
        document.releases.sorted { $0.version > $1.version }
    }

    private static func object(
        _ release: ChannelDocument.Release, in document: ChannelDocument, now: Timestamp
    ) -> JSONObject {
        let claims = release.manifest.claims
        return [
            "version": .string(release.version.description),
            "rollout": .string(RolloutPercentage(permille: release.share(at: now)).description),
            "ramp": release.ramp.map(object) ?? .null,
            "groups": .array(release.groups.map(JSONValue.string)), "only": .bool(release.isOnlyForGroups),
            "urgent": .bool(release.isUrgent), "retries": .integer(release.retries),
            "paused": .bool(release.isPaused), "recalled": .bool(isRecalled(release, in: document)),
            "minShellVersion": .string(claims.shells.minimum.description),
            "maxShellVersion": .string(orNull: claims.shells.maximum?.description),
            "createdAt": .string(orNull: claims.createdAt?.description),
            "size": claims.size.map(JSONValue.integer) ?? .null,
            "keyId": .string(orNull: claims.keyId), "notes": .null,
        ]
    }

    private static func object(_ ramp: Ramp) -> JSONValue {
        let steps = ramp.steps.map { step in
            JSONValue.object([
                "at": .string(step.at.description), "rollout": .string("\(RolloutPercentage(permille: step.rollout))"),
            ])
        }
        return .object(["steps": .array(steps), "heldAt": .string(orNull: ramp.heldAt?.description)])
    }

    private static func isRecalled(_ release: ChannelDocument.Release, in document: ChannelDocument) -> Bool {
        document.recalled.contains { $0.version == release.version }
            || document.minimumVersion.map { release.version < $0 } == true
    }

    static func lines(_ document: ChannelDocument, held: [SemanticVersion] = [], now: Timestamp) -> [String] {
        let isLate = document.expires <= now
        var lines = [
            "channel \(document.channel) of \(UntrustedName.display(document.appId ?? "an unnamed application")), "
                + "sequence \(document.sequence)",
            "  issued   \(document.issuedAt)",
            "  expires  \(document.expires)"
                + (isLate ? "  EXPIRED: devices install nothing from it, sign it again" : ""),
        ]
        if let poll = document.poll { lines.append("  " + ChannelDocument.words(poll)) }
        if let limit = document.busyLimit { lines.append("  " + ChannelDocument.words(busyLimit: limit)) }
        if let floor = document.minimumVersion { lines.append("  nothing below \(floor) may run") }
        for release in sorted(document) {
            lines.append("  " + line(release, document: document, isHeld: held.contains(release.version), now: now))
            lines += rampLines(release, now: now).map { "    " + $0 }
        }
        return lines + document.recalled.map { "  recalled \($0.version): \(UntrustedName.display($0.reason))" }
    }

    /// Returns the lines about the remaining steps of a ramp; none if all steps have passed.
    private static func rampLines(_ release: ChannelDocument.Release, now: Timestamp) -> [String] {
        guard let ramp = release.ramp, case let rest = ramp.remaining(at: now), !rest.isEmpty else { return [] }
        if let heldAt = ramp.heldAt {
            return ["paused since \(heldAt); to come: \(Ramp.words(rest)), delayed by the pause"]
        }
        return ["to come: \(Ramp.words(rest))"]
    }

    private static func line(
        _ release: ChannelDocument.Release, document: ChannelDocument, isHeld: Bool, now: Timestamp
    ) -> String {
        let claims = release.manifest.claims
        let shells = claims.shells
        var words = [
            "\(release.version)", isRecalled(release, in: document) ? "RECALLED" : release.audience(at: now),
            shells.text,
        ]
        if let size = claims.size { words.append("\(ByteCount(bytes: size))") }
        if let time = claims.createdAt { words.append("\(time)") }
        if release.isUrgent { words.append("urgent") }
        if release.retries > 0 { words.append("retry \(release.retries)") }
        if release.isPaused { words.append(isHeld ? "held" : "paused") }
        return words.joined(separator: "  ")
    }
}
