import BundleCore
package import BundleValues
import BundleSigning

/// Bytes with signatures over them: a DSSE envelope (https://github.com/secure-systems-lab/dsse, protocol 1.0.2).
///
/// What is signed is the exact payload together with its type, so nothing is canonicalised and no document can be replayed
/// as one of another kind.
package struct SignedEnvelope: Sendable, Equatable {
    /// One signature; whose it is, is a claim.
    package struct Signature: Sendable, Equatable {
        /// The id of the key that made it; nil where the envelope does not say.
        package let keyId: String?
        /// Its bytes.
        package let bytes: [UInt8]

        /// States a signature.
        package init(keyId: String?, bytes: [UInt8]) {
            self.keyId = keyId
            self.bytes = bytes
        }
    }

    /// More signatures than any threshold asks for; each one costs a verification.
    static let maximumSignatures = 64

    /// What the payload is.
    package let payloadType: String
    /// The signed bytes.
    package let payload: [UInt8]
    /// The signatures, in their order.
    package var signatures: [Signature]

    /// Wraps `payload`.
    package init(payloadType: String, payload: [UInt8], signatures: [Signature] = []) {
        self.payloadType = payloadType
        self.payload = payload
        self.signatures = signatures
    }

    /// Reads an envelope of `payloadType` strictly; `name` is what the document is called in refusals.
    package init(
        parsing document: [UInt8], payloadType: String, maximumBytes: Int, name: String
    ) throws(DocumentRefusal) {
        do {
            let reader = try MemberReader(try JSONScanner.parse(document, maximumBytes: maximumBytes), of: name)
            let type = try reader.string("payloadType")
            guard type.utf8.elementsEqual(payloadType.utf8) else {
                throw reader.refusal("payloadType", "is \(UntrustedName.display(type)), not \(payloadType)")
            }
            let signatures = try reader.objects("signatures")
            if signatures.count > Self.maximumSignatures {
                throw reader.refusal("signatures", "has more than \(Self.maximumSignatures) entries")
            }
            self.init(
                payloadType: payloadType, payload: try reader.base64("payload"),
                signatures: try signatures.map {
                    Signature(keyId: try $0.optionalString("keyid"), bytes: try $0.base64("sig"))
                })
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    /// The envelope as a document.
    package var document: [UInt8] {
        let object: JSONObject = [
            "payloadType": .string(payloadType), "payload": .string(Base64.encode(payload)),
            "signatures": Self.list(signatures),
        ]
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }

    static func list(_ signatures: [Signature]) -> JSONValue {
        .array(
            signatures.map { signature in
                var object: JSONObject = [:]
                object["keyid"] = signature.keyId.map(JSONValue.string)
                object["sig"] = .string(Base64.encode(signature.bytes))
                return .object(object)
            })
    }

    /// The bytes that are signed: DSSE's pre-authentication encoding of type and payload.
    package var message: [UInt8] {
        Array("DSSEv1 \(payloadType.utf8.count) \(payloadType) \(payload.count) ".utf8) + payload
    }
}

/// Why bytes are not the document that they should be.
package struct DocumentRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The document: "channel document" or "trust root".
    package let document: String
    /// What is refused in it, and why.
    package let problem: String

    init(_ document: String, problem: String) {
        self.document = document
        self.problem = problem
    }

    init(_ document: String, _ error: any Error) {
        let problem =
            switch error {
            case let refusal as DocumentRefusal: refusal.problem
            case let refusal as ManifestRefusal: "\(refusal)"
            case let refusal as MemberReader.Refusal: "\(refusal)"
            default: "is not strict JSON: \(error)"
            }
        self.init(document, problem: problem)
    }

    /// `document: problem`.
    package var description: String { "\(document): \(problem)" }
}

extension DocumentRefusal: ClassifiedFailure {
    /// Always `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: document,
            "This is no \(document): \(problem). Check the address; if it is right, sign the document again.")
    }
}

extension MemberReader {
    func base64(_ member: String) throws(Refusal) -> [UInt8] {
        do { return try Base64.decode(try string(member)) } catch let refusal as Refusal { throw refusal } catch {
            throw refusal(member, "is not standard base64")
        }
    }
}
