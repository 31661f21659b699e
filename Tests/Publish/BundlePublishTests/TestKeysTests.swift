import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundlePublish

/// The key pairs in Keys/, which are public.
@Suite("Test keys") struct TestKeysTests {
    private static let folder = "\(Checkout.root)/Keys"

    @Test(arguments: [
        ("ed25519", KeyAlgorithm.ed25519), ("ecdsa-p256", .ecdsaP256), ("rsa-pss", .rsaPSS),
        ("other-ed25519", .ed25519),
    ])
    func `pairs each private key with its public key only`(_ name: String, _ algorithm: KeyAlgorithm) throws {
        let message = Array("release".utf8)
        let pem = try File.open(reading: "\(Self.folder)/\(name).key.pem").readAll(maximumBytes: 1 << 16)
        let signature = try PrivateKey(parsingPEM: pem) { [] }.sign(message)

        for other in ["ed25519", "ecdsa-p256", "rsa-pss", "other-ed25519"] {
            let file = try File.open(reading: "\(Self.folder)/\(other).pub.pem")
            let key = try PublicKey(parsingPEM: try file.readAll(maximumBytes: 1 << 16))
            #expect(try key.verifies(signature: signature, over: message) == (other == name))
            if other == name { #expect(key.algorithm == algorithm) }
        }
    }

    @Test func `refuses a private key that other users can read`() throws {
        let folder = try TemporaryFolder()
        let pem = try File.open(reading: "\(Self.folder)/ed25519.key.pem").readAll(maximumBytes: 1 << 16)
        try File.write(pem, to: folder.file("open.pem"), mode: 0o644)
        try File.write(pem, to: folder.file("closed.pem"), mode: 0o600)

        let error = #expect(throws: (any Error).self) {
            _ = try KeyFile.signer(at: folder.file("open.pem")) { [] }.publicKey
        }
        #expect("\(error as Any)".contains("chmod 600"))
        #expect(try KeyFile.signer(at: folder.file("closed.pem")) { [] }.publicKey.algorithm == .ed25519)
    }

    @Test func `finds no test key in sources and scripts`() throws {
        for root in ["Sources", "Scripts"] {
            let top = Self.folder.dropLast("Keys".count) + root
            #expect(try mentions(of: "Keys/", below: try Directory.open(String(top))) == [])
        }
    }

    private func mentions(of text: String, below folder: Directory) throws -> [String] {
        var found: [String] = []
        for name in try folder.list() {
            switch try folder.kind(of: name) {
            case .directory?: found += try mentions(of: text, below: folder.directory(name))
            case .file?:
                let bytes = try folder.file(name).readAll(maximumBytes: 1 << 24)
                if String(decoding: bytes, as: UTF8.self).contains(text) { found.append(name) }
            default: break
            }
        }
        return found
    }
}
