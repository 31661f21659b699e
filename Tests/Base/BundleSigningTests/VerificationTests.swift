import BundleSigning
import COpenSSL
import Testing

@Suite("Signatures") struct VerificationTests {
    @Test(arguments: KeyAlgorithm.allCases)
    func `verifies a signature of the openssl command and rejects it with any inverted bit`(
        algorithm: KeyAlgorithm
    ) throws {
        let (key, signature) = try Workbench().opensslSigned(message, with: algorithm)
        #expect(try key.verifies(signature: signature, over: message))
        for bit in stride(from: 0, to: signature.count * 8, by: 13) {
            #expect(try !key.verifies(signature: signature.flipping(bit: bit), over: message), "bit \(bit)")
        }
        for bit in stride(from: 0, to: message.count * 8, by: 13) {
            #expect(try !key.verifies(signature: signature, over: message.flipping(bit: bit)), "bit \(bit)")
        }
        for wrong in [[], Array(signature.dropLast()), Array(signature.dropFirst()), signature + [0], [0] + signature] {
            #expect(try !key.verifies(signature: wrong, over: message), "\(wrong.count) bytes")
        }
        #expect(try !key.verifies(signature: signature, over: []))
        #expect(try !key.verifies(signature: signature, over: message + [0]))
        let stranger = try PrivateKey.any(algorithm).publicKey
        #expect(try !stranger.verifies(signature: signature, over: message))
        #expect(ERR_peek_error() == 0)
    }

    @Test(arguments: KeyAlgorithm.allCases, [true, false])
    func `creates a signature that the openssl command verifies only for its message`(
        algorithm: KeyAlgorithm, isEmpty: Bool
    ) throws {
        let bench = try Workbench()
        let key = try PrivateKey.any(algorithm)
        // The command of OpenSSL 3.0 cannot map an empty file, which it does for Ed25519 messages.
        let signed = isEmpty && algorithm != .ed25519 ? [] : message
        try bench.write(Array(key.publicKey.pem.utf8), to: "pub.pem")
        try bench.write(key.sign(signed), to: "signature")
        try bench.write(signed, to: "message")
        try bench.write(signed + [0], to: "other")
        let verify = "pkeyutl -verify -pubin -inkey pub.pem -sigfile signature \(algorithm.scheme)"
        try bench.openssl("\(verify) -in message")
        #expect(try bench.exitStatus(ofOpenSSL: "\(verify) -in other") == 1)
    }

    @Test func `signs and verifies as openssl dgst does`() throws {
        let options = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32"
        for (algorithm, options) in [(KeyAlgorithm.ecdsaP256, ""), (.rsaPSS, options)] {
            let bench = try Workbench()
            let key = try PrivateKey(
                parsingPEM: bench.generatedKey(algorithm.generation), passphrase: noPassphrase)
            try bench.write(message, to: "message")
            try bench.openssl("dgst -sha256 -sign key.pem \(options) -out signature message")
            #expect(try key.publicKey.verifies(signature: bench.read("signature"), over: message))
            try bench.write(key.sign(message), to: "ours")
            try bench.write(Array(key.publicKey.pem.utf8), to: "pub.pem")
            try bench.openssl("dgst -sha256 -verify pub.pem \(options) -signature ours message")
        }
    }

    @Test(arguments: [
        "dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20",
        "dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:0",
        "dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:max",
        "dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:auto",
        "dgst -sha1 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20",
        "dgst -sha1 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32",
        "dgst -sha512 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32",
        "dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32 -sigopt rsa_mgf1_md:sha1",
        "dgst -sha256",
        "dgst -sha1",
    ])
    func `rejects an RSA signature in another scheme`(scheme: String) throws {
        let bench = try Workbench()
        let key = try PublicKey(parsingPEM: bench.generatedPublicKey(KeyAlgorithm.rsaPSS.generation))
        try bench.write(message, to: "message")
        try bench.openssl("\(scheme) -sign key.pem -out signature message")
        let signature = try bench.read("signature")
        #expect(signature.count == 256)
        #expect(try !key.verifies(signature: signature, over: message))
        #expect(ERR_peek_error() == 0)
    }

    @Test func `rejects an RSA signature without its leading zero byte`() throws {
        let bench = try Workbench()
        let key = try PrivateKey(
            parsingPEM: bench.generatedKey(KeyAlgorithm.rsaPSS.generation), passphrase: noPassphrase)
        var signature: [UInt8] = []
        repeat { signature = try key.sign(message) } while signature.first != 0
        #expect(try key.publicKey.verifies(signature: signature, over: message))
        #expect(try !key.publicKey.verifies(signature: Array(signature.dropFirst()), over: message))
    }

    @Test(arguments: ["-digest sha1", "-digest sha512"])
    func `rejects an ECDSA signature with another digest`(digest: String) throws {
        let bench = try Workbench()
        let key = try PublicKey(parsingPEM: bench.generatedPublicKey(KeyAlgorithm.ecdsaP256.generation))
        try bench.write(message, to: "message")
        try bench.openssl("pkeyutl -sign -rawin \(digest) -inkey key.pem -in message -out signature")
        #expect(try !key.verifies(signature: bench.read("signature"), over: message))
    }

    @Test func `verifies a signature only by the algorithm of its key`() throws {
        for signer in KeyAlgorithm.allCases {
            let signature = try PrivateKey.any(signer).sign(message)
            for verifier in KeyAlgorithm.allCases where verifier != signer {
                let key = try PrivateKey.any(verifier).publicKey
                #expect(try !key.verifies(signature: signature, over: message))
            }
        }
    }

    @Test func `verifies with one key on many threads at once`() async throws {
        let (key, signature) = try Workbench().opensslSigned(message, with: .ecdsaP256)
        try await withThrowingTaskGroup { group in
            for index in 0..<8 {
                group.addTask {
                    let signed = index % 2 == 0 ? message : message + [0]
                    return try key.verifies(signature: signature, over: signed) == (index % 2 == 0)
                }
            }
            for try await agrees in group { #expect(agrees) }
        }
    }
}
