import BundleSigning
import COpenSSL
import Testing

@Suite("PublicKey") struct PublicKeyTests {
    @Test(arguments: KeyAlgorithm.allCases)
    func `reads a key of the openssl command and writes it back with the ID of its SPKI`(algorithm: KeyAlgorithm) throws
    {
        let bench = try Workbench()
        let pem = try bench.generatedPublicKey(algorithm.generation)
        let key = try PublicKey(parsingPEM: pem)
        try bench.openssl("pkey -pubin -in pub.pem -outform DER -out pub.der")
        try bench.openssl("dgst -sha256 -r -out id pub.der")
        #expect(key.algorithm == algorithm)
        #expect(key.spki == (try bench.read("pub.der")))
        #expect(key.id == String(decoding: try bench.read("id").prefix(64), as: UTF8.self))
        #expect(Array(key.pem.utf8) == pem)
        #expect(key.bits == (algorithm == .rsaPSS ? 2048 : 256))
        #expect(key == (try PublicKey(parsingDER: key.spki)))
        #expect(key.description.contains(key.id))
    }

    @Test func `ignores line ends of other systems, trailing spaces and text around the block`() throws {
        let pem = try PrivateKey.generate(.ed25519).publicKey.pem
        let key = try PublicKey(parsingPEM: Array(pem.utf8))
        let variants = [
            pem.split(separator: "\n").joined(separator: "\r\n"), pem.split(separator: "\n").joined(separator: " \t\n"),
            "release key of 2026\n" + pem + "\nkept in the safe\n",
        ]
        for variant in variants {
            #expect(try PublicKey(parsingPEM: Array(variant.utf8)) == key)
        }
    }

    /// The encodings of the points whose order divides 8, without the sign of x.
    static let smallOrders = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]

    @Test(arguments: smallOrders, [UInt8(0), 0x80])
    func `rejects an Ed25519 point whose order divides 8`(hex: String, sign: UInt8) throws {
        let digits = Array(hex.utf8)
        var point = stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        point[31] |= sign
        let prefix: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]
        #expect(throws: KeyError.smallOrder) { try PublicKey(parsingDER: prefix + point) }
        // A point beside it is a key like any other.
        point[0] ^= 0x10
        #expect(throws: Never.self) { try PublicKey(parsingDER: prefix + point) }
    }

    @Test(
        arguments: [
            ("genpkey -algorithm X25519", KeyError.unsupportedAlgorithm("X25519")),
            ("genpkey -algorithm ED448", .unsupportedAlgorithm("ED448")),
            ("genpkey -genparam -algorithm DSA -pkeyopt dsa_paramgen_bits:1024", .unsupportedAlgorithm("DSA")),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384", .unsupportedCurve("secp384r1")),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", .unsupportedCurve("secp256k1")),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit", .explicitCurve),
            ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024", .unsupportedRSASize(bits: 1024)),
            ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2047", .unsupportedRSASize(bits: 2047)),
            (
                "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -pkeyopt rsa_keygen_pubexp:3",
                .unsupportedRSAExponent
            ),
        ])
    func `rejects a key of another kind, public or private`(generation: String, error: KeyError) throws {
        let bench = try Workbench()
        var generation = generation
        if generation.contains("-genparam") {
            try bench.openssl("\(generation) -out parameters.pem")
            generation = "genpkey -paramfile parameters.pem"
        }
        let pem = try bench.generatedPublicKey(generation)
        let privatePEM = try bench.read("key.pem")
        #expect(throws: error) { try PublicKey(parsingPEM: pem) }
        #expect(throws: error) { _ = try PrivateKey(parsingPEM: privatePEM, passphrase: noPassphrase) }
        #expect(ERR_peek_error() == 0)
    }

    @Test(arguments: ["compressed", "hybrid"])
    func `rejects a point that is not uncompressed`(form: String) throws {
        let bench = try Workbench()
        _ = try bench.generatedKey(KeyAlgorithm.ecdsaP256.generation)
        try bench.openssl("ec -in key.pem -pubout -conv_form \(form) -out pub.pem")
        let pem = try bench.read("pub.pem")
        #expect(throws: KeyError.compressedPoint) { try PublicKey(parsingPEM: pem) }
    }

    static let pssGeneration = "genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048"

    @Test(arguments: [
        "",
        " -pkeyopt rsa_pss_keygen_md:sha256 -pkeyopt rsa_pss_keygen_mgf1_md:sha256 -pkeyopt rsa_pss_keygen_saltlen:32",
        " -pkeyopt rsa_pss_keygen_md:sha256 -pkeyopt rsa_pss_keygen_mgf1_md:sha256 -pkeyopt rsa_pss_keygen_saltlen:20",
    ])
    func `accepts an RSA-PSS key whose restrictions allow the scheme`(restrictions: String) throws {
        let bench = try Workbench()
        let key = try PublicKey(parsingPEM: bench.generatedPublicKey(Self.pssGeneration + restrictions))
        #expect(key.algorithm == .rsaPSS)
        let privateKey = try PrivateKey(parsingPEM: bench.read("key.pem"), passphrase: noPassphrase)
        #expect(try key.verifies(signature: privateKey.sign(message), over: message))
    }

    @Test(arguments: [
        "-pkeyopt rsa_pss_keygen_md:sha384 -pkeyopt rsa_pss_keygen_mgf1_md:sha384 -pkeyopt rsa_pss_keygen_saltlen:32",
        "-pkeyopt rsa_pss_keygen_md:sha256 -pkeyopt rsa_pss_keygen_mgf1_md:sha1 -pkeyopt rsa_pss_keygen_saltlen:32",
        "-pkeyopt rsa_pss_keygen_md:sha256 -pkeyopt rsa_pss_keygen_mgf1_md:sha256 -pkeyopt rsa_pss_keygen_saltlen:33",
    ])
    func `rejects an RSA-PSS key whose restrictions do not allow the scheme`(restrictions: String) throws {
        let pem = try Workbench().generatedPublicKey("\(Self.pssGeneration) \(restrictions)")
        let error = keyError { _ = try PublicKey(parsingPEM: pem) }
        guard case .restrictedParameters(let failure) = error else {
            Issue.record("refused with \(String(describing: error))")
            return
        }
        #expect(!failure.reasons.isEmpty)
        #expect(ERR_peek_error() == 0)
    }

    @Test func `describes a private key that was passed as a public key`() throws {
        let key = try PrivateKey.generate(.ed25519)
        let pem = try key.pem(passphrase: nil)
        #expect(throws: KeyError.privateKeyGiven) { try PublicKey(parsingPEM: pem) }
        let both = Array(key.publicKey.pem.utf8) + pem
        #expect(throws: KeyError.privateKeyGiven) { try PublicKey(parsingPEM: both) }
        #expect(KeyError.privateKeyGiven.description.contains("private key"))
    }

    @Test func `rejects PEM text without exactly one valid block`() throws {
        let pem = try PrivateKey.generate(.ed25519).publicKey.pem
        let lines = pem.split(separator: "\n").map(String.init)
        let cases: [(String, KeyError)] = [
            ("", .noPEMBlock),
            (lines[1], .noPEMBlock),
            (pem + pem, .severalPEMBlocks(labels: ["PUBLIC KEY", "PUBLIC KEY"])),
            (pem.replacing("PUBLIC KEY", with: "CERTIFICATE"), .unexpectedPEMBlock(label: "CERTIFICATE")),
            (pem.replacing("PUBLIC KEY", with: "RSA PUBLIC KEY"), .unexpectedPEMBlock(label: "RSA PUBLIC KEY")),
            (lines[0] + "\n" + lines[1], .malformedPEM("the block PUBLIC KEY has no end")),
            (lines[1] + "\n" + lines[2], .malformedPEM("an END line has no BEGIN line")),
            (
                pem.replacing("END PUBLIC", with: "END PRIVATE"),
                .malformedPEM("the block PUBLIC KEY ends with another label")
            ),
            (lines[0] + "\n" + pem, .malformedPEM("a boundary line is damaged")),
            ("-----BEGIN PUBLIC KEY----\n", .malformedPEM("a boundary line is damaged")),
            ("-----BEGIN \u{1b}[31mKEY-----\n", .malformedPEM("a boundary line is damaged")),
            ("-----BEGIN -----\n", .malformedPEM("a boundary line is damaged")),
            (lines[0] + "\nProc-Type: 4\n" + lines[2], .malformedPEM("the block PUBLIC KEY has header lines")),
            (
                pem.replacing(lines[1], with: lines[1].dropLast(4) + "!!!!"),
                .malformedPEM("\(Base64Error.invalidByte(offset: lines[1].utf8.count - 4))")
            ),
            (pem + String(repeating: "\n", count: 65_537), .tooLarge(byteCount: pem.utf8.count + 65_537)),
        ]
        for (text, error) in cases {
            #expect(throws: error, "\(text.prefix(200))") { try PublicKey(parsingPEM: Array(text.utf8)) }
        }
    }

    @Test(arguments: KeyAlgorithm.allCases)
    func `rejects additional, missing and changed bytes`(algorithm: KeyAlgorithm) throws {
        let der = try PrivateKey.any(algorithm).publicKey.spki
        #expect(throws: KeyError.trailingBytes(count: 2)) { try PublicKey(parsingDER: der + [0, 0]) }
        let damaged: [[UInt8]] = [Array(der.dropLast()), Array(der.dropFirst()), [], [0x30], der.reversed()]
        for der in damaged {
            let error = keyError { _ = try PublicKey(parsingDER: der) }
            guard case .malformedDER = error else {
                Issue.record("\(der.count) bytes were answered with \(String(describing: error))")
                continue
            }
        }
        #expect(throws: KeyError.tooLarge(byteCount: 65_537)) {
            try PublicKey(parsingDER: [UInt8](repeating: 0x30, count: 65_537))
        }
        #expect(ERR_peek_error() == 0)
    }

    @Test func `rejects other BER encodings, so that a key has one ID`() throws {
        let der = try PrivateKey.generate(.ed25519).publicKey.spki
        let longLength = [0x30, 0x81, 0x2a] + der.dropFirst(2)
        let indefinite = [0x30, 0x80] + der.dropFirst(2) + [0, 0]
        for spelling in [longLength, indefinite] {
            let error = keyError { _ = try PublicKey(parsingDER: spelling) }
            #expect(error == .notCanonical)
        }
    }

    @Test func `rejects a point that is not on the curve`() throws {
        var der = try PrivateKey.generate(.ecdsaP256).publicKey.spki
        der[der.count - 1] ^= 1
        let error = keyError { _ = try PublicKey(parsingDER: der) }
        guard case .malformedDER(let failure) = error else {
            Issue.record("answered with \(String(describing: error))")
            return
        }
        #expect(failure.description.contains("OpenSSL failed"))
    }

    /// Returns the DER of an RSA key whose modulus has this many bits. The modulus is not a product of primes, which
    /// parsing does not check.
    static func rsaKey(bits: Int) -> [UInt8] {
        func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            [tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xff)] + content
        }
        let top: [UInt8] = bits % 8 == 0 ? [0, 0x80] : [1 << (bits % 8 - 1)]
        let modulus = top + [UInt8](repeating: 0xff, count: (bits - 1) / 8)
        let key = element(0x30, element(0x02, modulus) + bytes("0203010001"))
        return element(0x30, bytes("300d06092a864886f70d0101010500") + element(0x03, [0] + key))
    }

    @Test func `rejects an RSA key that is too large for OpenSSL`() throws {
        #expect(try PublicKey(parsingDER: Self.rsaKey(bits: 16_384)).bits == 16_384)
        let error = keyError { _ = try PublicKey(parsingDER: Self.rsaKey(bits: 16_385)) }
        #expect(error == .unsupportedRSASize(bits: 16_385))
    }
}
