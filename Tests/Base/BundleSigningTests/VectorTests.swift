import BundleSigning
import COpenSSL
import Testing

@Suite("Signature vectors") struct VectorTests {
    struct Ed25519Vector: Sendable {
        let secret: String
        let key: String
        let message: String
        let signature: String

        var publicKey: PublicKey {
            get throws { try PublicKey(parsingDER: bytes("302a300506032b6570032100" + key)) }
        }
    }

    /// RFC 8032, section 7.1, tests 1 to 3.
    static let ed25519 = [
        Ed25519Vector(
            secret: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            key: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            message: "",
            signature: "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
                + "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        Ed25519Vector(
            secret: "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            message: "72",
            signature: "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                + "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
        Ed25519Vector(
            secret: "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            key: "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            message: "af82",
            signature: "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                + "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
    ]

    @Test(arguments: ed25519)
    func `signs and verifies the Ed25519 vectors of RFC 8032`(vector: Ed25519Vector) throws {
        let key = try vector.publicKey
        let signature = bytes(vector.signature)
        #expect(try key.verifies(signature: signature, over: bytes(vector.message)))
        #expect(try !key.verifies(signature: signature, over: bytes(vector.message) + [0]))
        let der = bytes("302e020100300506032b657004220420" + vector.secret)
        let pem = "-----BEGIN PRIVATE KEY-----\n\(Base64.encode(der))\n-----END PRIVATE KEY-----\n"
        let privateKey = try PrivateKey(parsingPEM: Array(pem.utf8), passphrase: noPassphrase)
        #expect(privateKey.publicKey == key)
        #expect(try privateKey.sign(bytes(vector.message)) == signature)
    }

    @Test(arguments: [
        // S + L is the same signature for a verifier that reduces it (RFC 8032, section 5.1.7).
        (0, "S plus the group order", "4c8c7872aa064e049dbb3013fbf29380d25bf5f0595bbe24655141438e7a101b"),
        (0, "S zero", String(repeating: "00", count: 32)),
        (0, "S all ones", String(repeating: "ff", count: 32)),
        (1, "S of another message", "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ])
    func `rejects an Ed25519 signature with a wrong S`(index: Int, name: String, scalar: String) throws {
        let vector = Self.ed25519[index]
        let forged = bytes(String(vector.signature.prefix(64)) + scalar)
        #expect(forged.count == 64)
        #expect(try !vector.publicKey.verifies(signature: forged, over: bytes(vector.message)))
        #expect(ERR_peek_error() == 0)
    }

    // RFC 6979, section A.2.5: P-256, SHA-256, message "sample".
    static let point =
        "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
        + "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
    static let r = "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
    static let s = "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    static let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

    static func sampleKey() throws -> PublicKey {
        try PublicKey(parsingDER: bytes("3059301306072a8648ce3d020106082a8648ce3d03010703420004" + point))
    }

    @Test(arguments: [
        // r and s have their top bit set, so DER adds a zero byte before each.
        ("the vector itself", "3046 022100\(r) 022100\(s)", true),
        (
            "n - s: ECDSA is malleable",
            "3045 022100\(r) 02200834e36ad29a83bf2bc9385e491d6099c8fdf9d1ed67aa7ea5f51f93782857a9", true
        ),
        ("nothing", "", false),
        ("an empty sequence", "3000", false),
        ("r = 0", "3026 020100 022100\(s)", false),
        ("s = 0", "3026 022100\(r) 020100", false),
        ("r = s = 0", "3006 020100 020100", false),
        ("r = s = 1", "3006 020101 020101", false),
        ("r = n", "3046 022100\(order) 022100\(s)", false),
        ("s = n", "3046 022100\(r) 022100\(order)", false),
        ("r = s = n", "3046 022100\(order) 022100\(order)", false),
        ("r = 0, s = n", "3026 020100 022100\(order)", false),
        ("r + n", "3046 022101efd48b29acb6a8fe1140dd9cd45e81d65a138228fdc29816b706d96b4b125c67 022100\(s)", false),
        ("s + n", "3046 022100\(r) 022101f7cb1c932d657c42d436c7a1b6e29f65b0cffb8960c7928b417e75f2809df2f9", false),
        ("r and s exchanged", "3046 022100\(s) 022100\(r)", false),
        ("r negative, its zero byte missing", "3045 0220\(r) 022100\(s)", false),
        ("s negative, its zero byte missing", "3045 022100\(r) 0220\(s)", false),
        ("both zero bytes missing", "3044 0220\(r) 0220\(s)", false),
        ("r with one zero byte too many", "3047 02220000\(r) 022100\(s)", false),
        ("s with one zero byte too many", "3047 022100\(r) 02220000\(s)", false),
        ("bytes behind the sequence", "3046 022100\(r) 022100\(s) 00", false),
        ("a null behind the sequence", "3046 022100\(r) 022100\(s) 0500", false),
        ("a null inside the sequence", "3048 022100\(r) 022100\(s) 0500", false),
        ("a third integer", "3049 022100\(r) 022100\(s) 020100", false),
        ("s missing", "3023 022100\(r)", false),
        ("a long length for the sequence", "308146 022100\(r) 022100\(s)", false),
        ("a longer length for the sequence", "30820046 022100\(r) 022100\(s)", false),
        ("a long length for r", "3047 02812100\(r) 022100\(s)", false),
        ("a long length for s", "3047 022100\(r) 02812100\(s)", false),
        ("an indefinite length", "3080 022100\(r) 022100\(s) 0000", false),
        ("a length beyond the end", "3047 022100\(r) 022100\(s)", false),
        ("a length of 2^64 - 1", "3088ffffffffffffffff 022100\(r) 022100\(s)", false),
        ("a set instead of a sequence", "3146 022100\(r) 022100\(s)", false),
        ("octet strings instead of integers", "3046 042100\(r) 042100\(s)", false),
        ("an empty r", "3025 0200 022100\(s)", false),
        ("IEEE P1363 instead of DER", "\(r) \(s)", false),
    ])
    func `accepts an ECDSA signature only in canonical DER`(name: String, signature: String, isValid: Bool) throws {
        let verifies = try Self.sampleKey().verifies(signature: bytes(signature), over: Array("sample".utf8))
        #expect(verifies == isValid)
        #expect(ERR_peek_error() == 0)
    }
}
