import BundleValues
import BundleDisk
import BundleSigning
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

import BundleFormats
@testable import BundlePublish

@Suite("SigningCommand", .ownThread) struct SigningCommandTests {
    private let workspace: Workspace
    private let key: String

    init() throws {
        workspace = try Workspace()
        key = workspace.folder.file("k.key.pem")
    }

    private func signer(
        _ line: String, _ algorithm: KeyAlgorithm = .ed25519, limit: Duration = .seconds(600)
    ) throws -> Signer {
        let pair = try PrivateKey.generate(algorithm)
        try File.write(try pair.pem(passphrase: nil), to: key, mode: 0o600)
        return Signer(SigningCommand(line.replacing("KEY", with: key), limit: limit), publicKey: pair.publicKey)
    }

    private func refusal(_ line: String, limit: Duration = .seconds(600)) throws -> UpdateFailure? {
        let signer = try signer(line, limit: limit)
        return workspace.refusal { _ = try signer.sign(Array("message".utf8)) }
    }

    @Test(arguments: [
        (KeyAlgorithm.ed25519, "openssl pkeyutl -sign -rawin -inkey KEY -in /dev/stdin"),
        (.ecdsaP256, "openssl dgst -sha256 -sign KEY"),
        (.rsaPSS, "openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32 -sign KEY"),
    ])
    func `signs a message with a command`(algorithm: KeyAlgorithm, line: String) throws {
        let signer = try signer(line, algorithm)
        // Longer than the buffer of a pipe.
        let message = [UInt8](repeating: 0x61, count: 300_000)
        let signature = try signer.sign(message)
        #expect(try signer.publicKey.verifies(signature: signature, over: message))
    }

    @Test func `signs with a script that copies its input`() throws {
        let script = "cat > KEY.msg && openssl pkeyutl -sign -rawin -inkey KEY -in KEY.msg; rm -f KEY.msg"
        #expect(try signer(script).sign([1, 2, 3]).count == 64)
    }

    @Test func `passes only the descriptors of the message and the signature`() throws {
        let inherited = dup(0)
        defer { close(inherited) }
        // The last descriptor is that of the folder while it is read.
        let signature = try SigningCommand("ls /proc/self/fd", limit: .seconds(600)).sign([])
        #expect(String(decoding: signature, as: UTF8.self) == "0\n1\n2\n3\n")
    }

    @Test(arguments: [
        ("exit 7", "status 7"), ("true", "wrote nothing"), ("kill -KILL $$", "signal 9"),
        ("/nonexistent/hsm", "status 127"), ("head -c 100000 /dev/zero", "more than 65536 bytes"),
    ])
    func `reports a failing command without its line`(line: String, message: String) throws {
        let refused = try #require(try refusal(line + " # PIN 1234"))
        #expect(refused.code == .configInvalid)
        #expect(refused.subject == "signing command")
        #expect(refused.message.contains(message))
        #expect(!refused.message.contains("1234"))
    }

    @Test func `explains the failure of a token's EDDSA with a long message`() throws {
        let signer = try signer("exit 1 # --mechanism EDDSA")
        for (count, isTold) in [(1024, false), (1025, true)] {
            let refused = workspace.refusal { _ = try signer.sign([UInt8](repeating: 0, count: count)) }
            #expect(refused?.message.contains("at most 1024") == isTold)
        }
    }

    @Test func `kills a command that does not end`() throws {
        let refused = try #require(try refusal("exec sleep 600", limit: .milliseconds(100)))
        #expect(refused.message.contains("did not end within 100ms"))
    }

    @Test func `kills a command with all processes that it started`() throws {
        let started = workspace.folder.file("started")
        // The innermost of thirty shells starts another program, and writes more than is read.
        let script = """
            if [ $1 = 0 ]; then sleep 600 & echo $! > \(started); head -c 99999 /dev/zero; wait; exit; fi
            sh "$0" $(($1 - 1)); true
            """
        let line = "sh \(try workspace.folder.write(Array(script.utf8), to: "deep.sh")) 30"
        let refused = try #require(try refusal(line))
        #expect(refused.message.contains("wrote more than"))
        let id = try #require(
            pid_t(String(decoding: try contents(ofFile: started), as: UTF8.self).split(separator: "\n")[0]))
        #expect(Program.hasEnded(id))
    }

    @Test(arguments: ["printf x", "head -c 64 /dev/zero", "cat"])
    func `rejects output that is not a signature of the public key`(line: String) throws {
        let refused = try #require(try refusal(line))
        #expect(refused.code == .signatureInvalid)
        #expect(refused.message.contains("--sign-public-key"))
    }

    @Test func `rejects a command with another key`() throws {
        _ = try signer("")
        let otherKey = try Workspace.signer().publicKey
        let signer = Signer(
            SigningCommand("openssl pkeyutl -sign -rawin -inkey \(key) -in /dev/stdin"), publicKey: otherKey)
        let refused = workspace.refusal { _ = try signer.sign([1]) }
        #expect(refused?.code == .signatureInvalid)
        #expect(refused?.message.contains(otherKey.id) == true)
    }
}
