// fuzz: max_len=8192
//
// Reads the envelope and payload of a channel document, and applies the rules of devices.
@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleSigning
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    checkEnvelope(input)
    let wrapped = SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: input)
    guard let document = document(wrapped) else { return }
    checkWriting(document)
    try checkRules(document)
}

private func checkEnvelope(_ input: [UInt8]) {
    do throws(DocumentRefusal) {
        let envelope = try ChannelFormat.envelope(parsing: input)
        require(envelope.signatures.count <= SignedEnvelope.maximumSignatures, "the number of signatures is limited")
        let again = try? ChannelFormat.envelope(parsing: envelope.document)
        require(again == envelope, "an envelope is read as it was written")
        _ = document(envelope)
    } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
    }
}

private func document(_ envelope: SignedEnvelope) -> ChannelDocument? {
    do throws(DocumentRefusal) { return try ChannelFormat.parse(envelope).claims } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
        return nil
    }
}

private func checkWriting(_ read: ChannelDocument) {
    let payload = ChannelFormat.payload(read)
    let again = require(
        document(SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: payload)), "a written document is read"
    )
    require(ChannelFormat.payload(again) == payload, "the payload is read as it was written")
    require(again.releases.map(\.version) == read.releases.map(\.version), "with the same releases")
    require(
        again.recalled == read.recalled && again.minimumVersion == read.minimumVersion,
        "with the same recalled versions")
    require(Set(read.releases.map(\.version)).count == read.releases.count, "each version is unique")
    require(read.releases.allSatisfy { (0...1000).contains($0.rollout) }, "rollouts are thousandths")
    require(
        again.busyLimit == read.busyLimit && (0...3600).contains(read.busyLimit ?? 0),
        "the busy limit is within an hour")
    require(again.releases.map(\.isUrgent) == read.releases.map(\.isUrgent), "with the same urgent releases")
    require(again.releases.map(\.groups) == read.releases.map(\.groups), "with the same groups")
    require(
        again.releases.map(\.isOnlyForGroups) == read.releases.map(\.isOnlyForGroups),
        "with the same releases for groups only")
    require(again.releases.map(\.ramp) == read.releases.map(\.ramp), "with the same ramps")
    for release in read.releases {
        let (first, last) = (release.share(at: read.issuedAt), release.share(at: read.expires))
        require((0...1000).contains(first) && first <= last, "rollouts are thousandths and never decrease")
        guard let ramp = release.ramp else { continue }
        require(
            ramp.holding(at: read.issuedAt).resuming(at: read.expires).steps.count == ramp.steps.count,
            "every step is kept")
    }
    require(read.expires > read.issuedAt && read.sequence > 0, "a document has a time and a sequence")
    require(ChannelFileName.isName(read.channel), "a channel has a name")
}

/// Checks that a device without clients receives a permitted release, or a reason.
private func checkRules(_ document: ChannelDocument) throws {
    var ledger = Ledger()
    var feed = FeedMemory()
    let leftOut = try document.releases.filter { release in
        try !RolloutRule.judge(
            release, on: RolloutRule.RolloutDevice(id: "d", groups: ["qa"]), at: document.issuedAt, wasIn: false
        ).isIn
    }
    feed.follow(
        FeedMemory.ChannelMemory(
            name: document.channel, sequence: document.sequence, payloadSha256: try .of([]), signers: [],
            issuedAt: document.issuedAt, expires: document.expires, recalled: document.recalled,
            minimumVersion: document.minimumVersion, leftOut: leftOut.map(\.version)))
    ledger.feed = feed
    let device = ChannelRule.JudgedDevice(
        inventory: Inventory(path: "/store", ledger: ledger, bundles: []), shell: try SemanticVersion(parsing: "1.0.0"),
        appId: document.appId)
    let unsigned = UpdateFailure(.signatureInvalid, subject: "", "")
    let candidate = ChannelRule.pick(document.releases, on: device) { _ in .refused(unsigned) }
    require((candidate == nil) == document.releases.isEmpty, "a release is chosen if there is one")
    guard let candidate else { return }
    require(ChannelRule.decide(candidate, on: device).verdict != .install, "an unsigned release is never installed")
    let read = try FeedMemory(MemberReader(feed.json, of: "feed"))
    require(read == feed, "the feed memory is read as it was written")
}
