// fuzz: max_len=8192
//
// Reads the envelope and payload of a trust root, and its keys.
@testable import BundleFormats
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
        require(keys.threshold > 0, "every role requires signatures")
        require(isNobody ? keys.keys.isEmpty : keys.keys.count >= keys.threshold, "every role has enough keys")
        require(keys.keys.allSatisfy { !claims.revoked.contains($0.id) }, "a revoked key is not trusted")
        let later = claims.trusted(for: role, at: claims.expires)
        require(later.keys.allSatisfy(keys.keys.contains), "keys are never added over time")
    }
    let isStarted = (try? TrustChain.start(read)) != nil
    require(!isStarted || !read.envelope.signatures.isEmpty, "an unsigned root is not a first root")
}
