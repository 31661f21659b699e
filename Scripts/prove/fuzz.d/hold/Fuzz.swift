// fuzz: max_len=4096
//
// Reads the envelope and payload of a hold document, and applies it to a channel document.
@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    do throws(DocumentRefusal) {
        let envelope = try HoldFormat.envelope(parsing: input)
        require(
            (try? HoldFormat.envelope(parsing: envelope.document)) == envelope, "an envelope is read as it was written")
    } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
    }
    do throws(DocumentRefusal) {
        let hold = try HoldFormat.parse(SignedEnvelope(payloadType: HoldFormat.payloadType, payload: input))
        let again = try HoldFormat.parse(HoldFormat.envelope(hold))
        require(again == hold, "a hold is read as it was written")
        require(!hold.releases.isEmpty && hold.sequence > 0, "a hold contains a release and a sequence")
    } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
    }
}
