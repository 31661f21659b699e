package import BundleValues
import BundleSigning

/// A payload with signatures: a DSSE envelope (https://github.com/secure-systems-lab/dsse, protocol 1.0.2).
///
/// The signatures cover the exact payload and its type, so the payload needs no canonical form and cannot be replayed
/// as another type.
package struct SignedEnvelope: Sendable, Equatable {
    /// A signature with an unverified key id.
    package struct Signature: Sendable, Equatable {
        /// The id of the key; nil if the envelope does not state it.
        package let keyId: String?
        package let bytes: [UInt8]

        package init(keyId: String?, bytes: [UInt8]) {
            self.keyId = keyId
            self.bytes = bytes
        }
    }

    /// The largest number of signatures. Each one costs a verification.
    static let maximumSignatures = 64

    package let payloadType: String
    package let payload: [UInt8]
    package var signatures: [Signature]

    package init(payloadType: String, payload: [UInt8], signatures: [Signature] = []) {
        self.payloadType = payloadType
        self.payload = payload
        self.signatures = signatures
    }

    /// Parses an envelope of `payloadType`. `name` names the document in messages.
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

    /// The envelope as JSON.
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

    /// The bytes to sign: the DSSE pre-authentication encoding of type and payload.
    package var message: [UInt8] {
        Array("DSSEv1 \(payloadType.utf8.count) \(payloadType) \(payload.count) ".utf8) + payload
    }
}

/// The reason why bytes are not a document of the expected kind.
package struct DocumentRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind, such as "channel document" or "trust root".
    package let document: String
    /// The problem, as the rest of a sentence.
    package let problem: String

    package init(_ document: String, problem: String) {
        self.document = document
        self.problem = problem
    }

    package init(_ document: String, _ error: any Error) {
        let problem =
            switch error {
            case let refusal as DocumentRefusal: refusal.problem
            case let refusal as ManifestRefusal: "\(refusal)"
            case let refusal as MemberReader.Refusal: "\(refusal)"
            default: "is not strict JSON: \(error)"
            }
        self.init(document, problem: problem)
    }

    package var description: String { "\(document): \(problem)" }
}

extension DocumentRefusal: ClassifiedFailure {
    /// The error `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: document,
            "This is not a \(document): \(problem). Check the address; if it is right, sign the document again.")
    }
}

extension MemberReader {
    func base64(_ member: String) throws(Refusal) -> [UInt8] {
        do { return try Base64.decode(try string(member)) } catch let refusal as Refusal { throw refusal } catch {
            throw refusal(member, "is not standard base64")
        }
    }
}
