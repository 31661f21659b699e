public import BundleValues

/// The conditions for downloads: of a device, of a channel, or of both.
public struct FetchPolicy: Sendable, Equatable {
    /// The largest number of mirrors of a channel or of a device.
    package static let mostMirrors = 8

    /// The largest rate of all transfers together, in bytes per second; nil for no limit.
    public var rate: Int?
    /// The hours for archives and deltas, by the device's clock. All of these lists must be open; empty for any time.
    public var hours: [ActivationWindows] = []
    /// The largest number of bytes on a metered link in a calendar month; nil for no limit.
    public var meteredBudget: Int?
    /// The use of deltas and archives.
    public var deltas = DeltaUse.prefer
    /// The roots of copies of the feed, in the order of their use. They serve the files below `releases/`.
    public var mirrors: [FetchURL] = []

    /// Creates a policy without conditions.
    public init() {}

    /// Returns the policy under which both policies are met. `isUrgent` removes the hours and the rate; the budget of a metered
    /// link and the use of deltas stay.
    ///
    /// The mirrors of this policy come first. Mirrors restrict nothing, because each byte from them is checked.
    package func joined(with other: FetchPolicy, isUrgent: Bool = false) -> FetchPolicy {
        var both = FetchPolicy()
        if !isUrgent {
            both.rate = Self.lower(rate, other.rate)
            both.hours = hours + other.hours.filter { !hours.contains($0) }
        }
        both.meteredBudget = Self.lower(meteredBudget, other.meteredBudget)
        both.deltas = deltas.joined(with: other.deltas)
        both.mirrors = Array(
            (mirrors + other.mirrors.filter { !mirrors.contains($0) }).prefix(2 * Self.mostMirrors))
        return both
    }

    private static func lower(_ left: Int?, _ right: Int?) -> Int? {
        guard let left, let right else { return left ?? right }
        return min(left, right)
    }
}

/// The conditions of an offer for its download.
package struct FetchTerms: Sendable, Equatable {
    /// The policy of the channel.
    package let policy: FetchPolicy
    /// Whether the hours and the rate do not apply.
    package let isUrgent: Bool

    package init(_ policy: FetchPolicy = FetchPolicy(), isUrgent: Bool = false) {
        self.policy = policy
        self.isUrgent = isUrgent
    }
}

/// The kinds of downloads that a device uses for releases.
public enum DeltaUse: String, Sendable, CaseIterable {
    /// A delta if one fits, and otherwise the archive.
    case prefer
    /// Deltas only.
    case only
    /// Archives only.
    case never
    /// Neither: a device that excludes deltas follows a channel that excludes archives, or the reverse.
    case neither

    /// The words of flags and channel files.
    package static let words: [DeltaUse] = [.prefer, .only, .never]

    package var allowsDelta: Bool { self == .prefer || self == .only }
    package var allowsArchive: Bool { self == .prefer || self == .never }

    func joined(with other: DeltaUse) -> DeltaUse {
        switch (allowsDelta && other.allowsDelta, allowsArchive && other.allowsArchive) {
        case (true, true): .prefer
        case (true, false): .only
        case (false, true): .never
        case (false, false): .neither
        }
    }
}

extension FetchPolicy {
    /// Reads the policy of a channel file or a ledger. Throws `MemberReader.Refusal` for an invalid value.
    package init(_ reader: MemberReader) throws {
        rate = try reader.optionalInteger("rate")
        if let rate, rate < TokenBucket.lowestRate {
            throw reader.refusal("rate", "is less than \(TokenBucket.lowestRate) bytes per second")
        }
        if let text = try reader.optionalString("hours") {
            do { hours = [try ActivationWindows(parsing: text)] } catch {
                throw reader.refusal("hours", "is refused: \(error)")
            }
        }
        meteredBudget = try reader.optionalInteger("meteredBudget")
        if let text = try reader.optionalString("deltas") {
            guard let use = DeltaUse(rawValue: text), DeltaUse.words.contains(use) else {
                throw reader.refusal("deltas", "is not prefer, only or never")
            }
            deltas = use
        }
        let texts = try reader.strings("mirrors")
        if texts.count > Self.mostMirrors { throw reader.refusal("mirrors", "names more than \(Self.mostMirrors)") }
        for text in texts {
            do { mirrors.append(try Self.mirror(text)) } catch {
                throw reader.refusal("mirrors", "has an invalid URL: \(error)")
            }
        }
    }

    /// Returns the root of a copy of the feed. Throws `FetchError.unsupportedURL` unless `text` is an http or https URL without a
    /// query.
    package static func mirror(_ text: String) throws(FetchError) -> FetchURL {
        let url = try FetchURL(parsing: text.hasSuffix("/") ? text : text + "/")
        guard !url.isFile, !url.hasFragment, !text.contains("?") else {
            throw .unsupportedURL(url.display, reason: "a mirror is the http or https URL of the root of a feed")
        }
        return url
    }

    /// The members of a channel file; nil for a policy without conditions.
    package var json: JSONValue? {
        var object: JSONObject = [:]
        object["rate"] = rate.map { .integer($0) }
        object["hours"] = hours.isEmpty ? nil : .string(hours.map(\.description).joined(separator: ","))
        object["meteredBudget"] = meteredBudget.map { .integer($0) }
        object["deltas"] = deltas == .prefer ? nil : .string(deltas.rawValue)
        object["mirrors"] = mirrors.isEmpty ? nil : .array(mirrors.map { .string($0.description) })
        return object.members.isEmpty ? nil : .object(object)
    }
}
