import BundleSigning
import COpenSSL
import Testing

@Suite("PrivateKey") struct PrivateKeyTests {
    static let passphrase = Array("correct horse \u{e9} battery".utf8)

    @Test(arguments: KeyAlgorithm.allCases)
    func `writes a generated key, reads it back and signs with it`(algorithm: KeyAlgorithm) throws {
        let key = try PrivateKey.generate(algorithm)
        #expect(key.publicKey.algorithm == algorithm)
        #expect(key.publicKey.bits == (algorithm == .rsaPSS ? 3072 : 256))
        let pem = try key.pem(passphrase: nil)
        let again = try PrivateKey(parsingPEM: pem, passphrase: noPassphrase)
        #expect(again.publicKey == key.publicKey)
        #expect(try key.publicKey.verifies(signature: again.sign(message), over: message))
        #expect(try key.publicKey.verifies(signature: again.sign([]), over: []))
        #expect(ERR_peek_error() == 0)
    }

    @Test func `generates different keys`() throws {
        #expect(try PrivateKey.generate(.ed25519).publicKey != PrivateKey.generate(.ed25519).publicKey)
    }

    @Test(arguments: KeyAlgorithm.allCases)
    func `decrypts an encrypted key only with its passphrase, as the openssl command does`(
        algorithm: KeyAlgorithm
    ) throws {
        let bench = try Workbench()
        let key = try PrivateKey.any(algorithm)
        let pem = try key.pem(passphrase: Self.passphrase)
        let again = try PrivateKey(parsingPEM: pem) { Self.passphrase }
        #expect(again.publicKey == key.publicKey)

        let wrong = keyError { _ = try PrivateKey(parsingPEM: pem) { Array("wrong".utf8) } }
        #expect(wrong == .wrongPassphrase)
        let none = keyError { _ = try PrivateKey(parsingPEM: pem) { [] } }
        #expect(none == .wrongPassphrase)
        #expect(throws: Workbench.Failure.self) { _ = try PrivateKey(parsingPEM: pem, passphrase: noPassphrase) }
        #expect(ERR_peek_error() == 0)

        try bench.write(pem, to: "key.pem")
        try bench.write(Self.passphrase, to: "passphrase")
        try bench.openssl("pkey -in key.pem -passin file:passphrase -pubout -out pub.pem")
        #expect(try PublicKey(parsingPEM: bench.read("pub.pem")) == key.publicKey)
    }

    /// Returns the output of `openssl asn1parse` for the key.
    static func structure(of key: borrowing PrivateKey) throws -> String {
        let bench = try Workbench()
        try bench.write(key.pem(passphrase: passphrase), to: "key.pem")
        return try bench.openssl("asn1parse -in key.pem")
    }

    /// Returns the line with the salt of PBKDF2.
    static func salt(in structure: String) -> Substring? {
        structure.split(separator: "\n").first { $0.contains("d=5") && $0.contains("OCTET STRING") }
    }

    @Test func `encrypts with PBES2, 600,000 rounds of HMAC-SHA256, AES-256 and a new salt of 16 bytes`() throws {
        let key = try PrivateKey.generate(.ed25519)
        let structure = try Self.structure(of: key)
        let rounds = "INTEGER           :0927C0"
        for part in ["PBES2", "PBKDF2", "hmacWithSHA256", "aes-256-cbc", rounds] {
            #expect(structure.contains(part), "\(part) is missing in \(structure)")
        }
        let salt = try #require(Self.salt(in: structure))
        #expect(salt.contains("l=  16"))
        #expect(try salt != Self.salt(in: Self.structure(of: key)))
    }

    @Test func `rejects an empty passphrase when it encrypts`() throws {
        let key = try PrivateKey.generate(.ed25519)
        let error = keyError { _ = try key.pem(passphrase: []) }
        #expect(error == .emptyPassphrase)
    }

    @Test(
        arguments: KeyAlgorithm.allCases,
        ["-v2 aes-256-cbc -iter 10000", "-v2 aes-128-cbc -v2prf hmacWithSHA512", "-scrypt", "-v1 PBE-SHA1-3DES"])
    func `decrypts a key that the openssl command encrypted`(algorithm: KeyAlgorithm, encryption: String) throws {
        let bench = try Workbench()
        _ = try bench.generatedKey(algorithm.generation)
        try bench.write(Self.passphrase, to: "passphrase")
        try bench.openssl("pkcs8 -topk8 -in key.pem -passout file:passphrase -out encrypted.pem \(encryption)")
        let pem = try bench.read("encrypted.pem")
        let plain = try PrivateKey(parsingPEM: bench.read("key.pem"), passphrase: noPassphrase)
        let opened = try PrivateKey(parsingPEM: pem) { Self.passphrase }
        #expect(opened.publicKey == plain.publicKey)
        let wrong = keyError { _ = try PrivateKey(parsingPEM: pem) { Self.passphrase + [1] } }
        #expect(wrong == .wrongPassphrase)
    }

    @Test(arguments: [
        ("ecparam -name prime256v1 -genkey", KeyAlgorithm.ecdsaP256),
        ("ecparam -name prime256v1 -genkey -noout", .ecdsaP256),
        ("genrsa -traditional", .rsaPSS),
    ])
    func `reads a traditional key of the openssl command`(generation: String, algorithm: KeyAlgorithm) throws {
        let bench = try Workbench()
        let size = algorithm == .rsaPSS ? " 2048" : ""
        try bench.openssl("\(generation) -out key.pem\(size)")
        try bench.openssl("pkey -in key.pem -pubout -out pub.pem")
        let key = try PrivateKey(parsingPEM: bench.read("key.pem"), passphrase: noPassphrase)
        #expect(key.publicKey == (try PublicKey(parsingPEM: bench.read("pub.pem"))))
        #expect(key.publicKey.algorithm == algorithm)
        #expect(try key.publicKey.verifies(signature: key.sign(message), over: message))
    }

    @Test func `rejects an encrypted traditional key before it asks for a passphrase`() throws {
        let bench = try Workbench()
        _ = try bench.generatedKey(KeyAlgorithm.rsaPSS.generation)
        try bench.openssl("rsa -in key.pem -traditional -aes256 -passout pass:secret -out old.pem")
        let pem = try bench.read("old.pem")
        let error = keyError { _ = try PrivateKey(parsingPEM: pem, passphrase: noPassphrase) }
        #expect(error == .traditionalEncryption)
    }

    @Test func `rejects a file that does not have exactly one private key`() throws {
        let key = try PrivateKey.generate(.ed25519)
        let pem = String(decoding: try key.pem(passphrase: nil), as: UTF8.self)
        let cases: [(String, KeyError)] = [
            (key.publicKey.pem, .publicKeyGiven),
            (pem + pem, .severalPEMBlocks(labels: ["PRIVATE KEY", "PRIVATE KEY"])),
            (pem + key.publicKey.pem, .severalPEMBlocks(labels: ["PRIVATE KEY", "PUBLIC KEY"])),
            (
                pem.replacing("PRIVATE KEY", with: "OPENSSH PRIVATE KEY"),
                .unexpectedPEMBlock(label: "OPENSSH PRIVATE KEY")
            ),
            ("", .noPEMBlock),
        ]
        for (text, error) in cases {
            let found = keyError { _ = try PrivateKey(parsingPEM: Array(text.utf8), passphrase: noPassphrase) }
            #expect(found == error)
        }
    }

    /// RFC 8410, section 10.3: the key with its public key.
    @Test func `names version 2 of PKCS#8`() {
        let pem = """
            -----BEGIN PRIVATE KEY-----
            MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
            oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
            Z9w7lshQhqowtrbLDFw4rXAxZuE=
            -----END PRIVATE KEY-----

            """
        #expect(keyError { _ = try PrivateKey(parsingPEM: Array(pem.utf8), passphrase: noPassphrase) } == .secondPKCS8)
    }

    @Test(arguments: ["PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
    func `rejects bytes after a private key and bytes that are not a key`(label: String) throws {
        let bench = try Workbench()
        _ = try bench.generatedKey(KeyAlgorithm.ecdsaP256.generation)
        try bench.openssl("ec -in key.pem -outform DER -out EC-PRIVATE-KEY")
        try bench.openssl("pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out PRIVATE-KEY")
        try bench.openssl("pkcs8 -topk8 -passout pass:p -in key.pem -outform DER -out ENCRYPTED-PRIVATE-KEY")
        let der = try bench.read(label.replacing(" ", with: "-"))
        func error(_ der: [UInt8]) -> KeyError? {
            let pem = "-----BEGIN \(label)-----\n\(Base64.encode(der))\n-----END \(label)-----\n"
            return keyError { _ = try PrivateKey(parsingPEM: Array(pem.utf8)) { Array("p".utf8) } }
        }
        #expect(error(der) == nil)
        #expect(error(der + [0x05, 0x00]) == .trailingBytes(count: 2))
        guard case .malformedDER = error(Array(der.dropLast())) else {
            Issue.record("a cut-off key was answered with \(String(describing: error(Array(der.dropLast()))))")
            return
        }
        #expect(ERR_peek_error() == 0)
    }

    @Test func `rejects a private key that does not match its public key`() throws {
        let bench = try Workbench()
        _ = try bench.generatedKey(KeyAlgorithm.ecdsaP256.generation)
        try bench.openssl("ec -in key.pem -outform DER -out key.der")
        let stranger = try PrivateKey.generate(.ecdsaP256).publicKey.spki.suffix(65)
        let der = try bench.read("key.der").dropLast(65) + stranger
        let pem = "-----BEGIN EC PRIVATE KEY-----\n\(Base64.encode(Array(der)))\n-----END EC PRIVATE KEY-----\n"
        let error = keyError { _ = try PrivateKey(parsingPEM: Array(pem.utf8), passphrase: noPassphrase) }
        #expect(error == .mismatchedHalves)
    }
}
