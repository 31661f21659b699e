// fuzz: max_len=8192
//
// The trust root: its envelope, its payload, and what it trusts.
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleSigning
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    if let read = root(input) { try check(read) }
    let wrapped = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: input)
    if let read = root(wrapped.document) { try check(read) }
}

private func root(_ document: [UInt8]) -> UnverifiedTrustRoot? {
    do throws(DocumentRefusal) { return try TrustRootFormat.parse(document) } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
        return nil
    }
}

private func check(_ read: UnverifiedTrustRoot) throws {
    let claims = read.claims
    let again = require(root(TrustRootFormat.envelope(claims).document), "a written root is read")
    require(again.claims == claims, "with the same claims")
    require(claims.version > 0 && claims.expires > claims.issued, "a root has a version and a time")
    for role in TrustRole.allCases {
        let keys = claims.trusted(for: role, at: nil)
        let isNobody = role == .guard && claims.roles[.guard] == nil
        require(keys.threshold > 0, "every role needs signatures")
        require(isNobody ? keys.keys.isEmpty : keys.keys.count >= keys.threshold, "every role that is there can sign")
        require(keys.keys.allSatisfy { !claims.revoked.contains($0.id) }, "a revoked key counts for nothing")
        let later = claims.trusted(for: role, at: claims.expires)
        require(later.keys.allSatisfy(keys.keys.contains), "time adds no key")
    }
    let isStarted = (try? TrustChain.start(read)) != nil
    require(!isStarted || !read.envelope.signatures.isEmpty, "a root that nobody signed starts nothing")
}
