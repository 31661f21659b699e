import BundleFormats
import BundleSigning
import BundleValues

extension ChannelWriter {
    /// Writes a prepared channel file, then `manifest.json`.
    func put(_ prepared: PreparedChannel) throws -> ChannelReport {
        // The feed may have changed between the preparation and its lock.
        var current = try PreparedChannel(
            name: prepared.name, file: prepared.file, base: prepared.base, prepared.report, in: location,
            at: prepared.clock)
        if let file = current.file {
            try FeedTrust(in: location, clock: options.clock)?.require(file.envelope, channel: current.name)
            try writeCopy(file.bytes, of: current)
            try replaceFile(with: file.bytes, of: current)
            // Keeping every copy would let a feed grow with the square of its releases.
            let old = current.report.document.sequence - ChannelUpkeep.keptCopies
            if old > 0 { try location.remove(Self.copyPath(of: current.name, sequence: old)) }
        } else {
            try location.sync(Self.folder)
        }
        // A previous run may have stopped before it wrote `manifest.json`.
        if let newest = current.newest {
            try writeNewest(newest, of: current)
        } else {
            try location.sync("")
        }
        if !options.isDryRun { remember(&current) }
        return current.report
    }

    /// Stores the current channel file as the last one that this publisher signed. The feed has changed by now, so a
    /// failure is a warning.
    private func remember(_ prepared: inout PreparedChannel) {
        do {
            if let file = prepared.file {
                let document = prepared.report.document
                try remember(
                    sequence: document.sequence, digest: file.payloadSha256, of: document,
                    hadFile: prepared.base.document != nil, signers: options.signers.map(\.publicKey.id))
            } else if let seen = prepared.base.document {
                try remember(seen)
            }
        } catch {
            prepared.report.warnings.append(
                "the signed file could not be recorded on this machine, so the next change cannot be compared with it: "
                    + UpdateFailure(error).message)
        }
    }

    /// Writes the numbered copy of a channel file, which records who signed what. It is written before the file, so
    /// that no signed file is lost.
    private func writeCopy(_ bytes: [UInt8], of prepared: PreparedChannel) throws {
        let path = Self.copyPath(of: prepared.name, sequence: prepared.report.document.sequence)
        if try location.create(path, with: .bytes(bytes)) { return }
        guard let record = try location.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw FeedConflict(path, in: location)
        }
        if record.bytes == bytes { return }
        // Another publisher wrote the copy and stopped, or is about to write the file. Its signed copy goes first.
        guard try verified(record.bytes, of: prepared.name).document.sequence == prepared.report.document.sequence
        else {
            throw UpdateFailure(
                .manifestMalformed, subject: "\(location.address)/\(path)",
                "\(location.address)/\(path) contains a sequence that differs from its name. It was placed there by hand: remove it."
            )
        }
        try location.replace(Self.path(of: prepared.name), with: record.bytes, version: prepared.base.version)
        throw FeedConflict(path, in: location)
    }

    /// Replaces the channel file that `prepared` was made from.
    private func replaceFile(with bytes: [UInt8], of prepared: PreparedChannel) throws {
        do {
            try location.replace(Self.path(of: prepared.name), with: bytes, version: prepared.base.version)
        } catch let conflict as FeedConflict {
            // Another publisher that found the copy may have written the file, and newer ones after it.
            guard let record = try Self.record(of: prepared.name, in: location),
                try record.bytes == bytes
                    || verified(record.bytes, of: prepared.name).document.sequence > prepared.report.document.sequence
            else { throw conflict }
        }
    }

    /// Writes or removes `manifest.json`. If the location cannot lock out other publishers, one of them may have replaced it or
    /// followed it: the current channel file then decides.
    private func writeNewest(_ first: NewestManifest.Replacement, of prepared: PreparedChannel) throws {
        var next = Optional(first)
        var bytes = try location.hasLock ? nil : Self.record(of: prepared.name, in: location)?.bytes
        // A removal cannot be conditional, so it follows the current channel file.
        if first.bytes == nil, let bytes { next = try newest(after: prepared, by: bytes) }
        for _ in 0..<Self.attempts {
            do {
                if let next { try write(next) }
                if location.hasLock { return }
                let now = try Self.record(of: prepared.name, in: location)?.bytes
                if now == bytes { return }
                bytes = now
            } catch is FeedConflict {
                bytes = try Self.record(of: prepared.name, in: location)?.bytes
            }
            guard let bytes else { return }
            next = try newest(after: prepared, by: bytes)
        }
        throw FeedConflict(ReleaseFeed.manifestName, in: location)
    }

    private func write(_ next: NewestManifest.Replacement) throws {
        if let bytes = next.bytes { return try ReleaseFeed.setNewest(bytes, in: location, after: next.present) }
        try location.remove(ReleaseFeed.manifestName)
    }

    /// Returns the change of `manifest.json` that the channel file `bytes` causes.
    private func newest(after prepared: PreparedChannel, by bytes: [UInt8]) throws -> NewestManifest.Replacement? {
        try NewestManifest.change(
            for: ChannelFormat.document(in: bytes),
            after: prepared.base.document?.document, in: location, at: prepared.clock
        ).next
    }

    private static let attempts = 6
}
