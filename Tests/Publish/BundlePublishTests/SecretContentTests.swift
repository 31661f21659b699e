import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

@Suite("SecretContent") struct SecretContentTests {
    private static let lines = [
        "MC4CAQAwBQYDK2VwBCIEIDuSnrNTLiNXTqeTObHmWNLvZMFE6vRRwBdlT+bwpAn6",
        "MHcCAQEEIHD0ZJt9pTn0sFOuU0BcgYc0RPWO3mjh7c3gSeCL8hzroAoGCCqGSM49",
    ]

    private static func block(_ name: String = "PRIVATE KEY", header: [String] = []) -> [String] {
        ["-----BEGIN \(name)-----"] + header + lines + ["-----END \(name)-----"]
    }

    private static func text(_ lines: [String], before mark: String = "") -> String {
        lines.map { "\(mark)\($0)\n" }.joined()
    }

    private static let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

    @Test(arguments: [
        text(block()), text(block("RSA PRIVATE KEY")), "\u{FEFF}" + text(block("EC PRIVATE KEY")),
        text(block("ENCRYPTED PRIVATE KEY")), text(block("PGP PRIVATE KEY BLOCK", header: ["Version: GnuPG v2", ""])),
        text([
            "-----BEGIN OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2",
        ]),
        text(["-----BEGIN RSA PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0011", ""])
            + String(repeating: "Q", count: 64),
        "# Bob's \"key\"\n" + text(block()), String(repeating: certificate, count: 400) + text(block()),
        "# Bob's \"key\"\nAGE-SECRET-KEY-1ABC\n", "untrusted comment: minisign encrypted secret key\n",
        "PuTTY-User-Key-File-3: ssh-ed25519\n",
    ])
    func `recognizes a file that is a private key`(text: String) {
        #expect(SecretContent.find(in: Array(text.utf8)) == .keyFile)
    }

    @Test(arguments: [
        "Bag Attributes\n    friendlyName: Joe's kiosk\n" + text(block()), "key: |\n" + text(block(), before: "  "),
        "KEY=" + text(block()), "{\"private_key\": \"\(block().joined(separator: "\\n"))\"}",
        "k = \"" + block().joined(separator: "\\n\" +\n  \"") + "\"", "<pre>" + text(block()),
        String(repeating: "let a = 1;\n", count: 90_000) + "const k = `\(text(block()))`;",
        "let a = '';\n" + text(block(), before: "// "), "/*'*/\n" + text(block(), before: " * "),
        "a: '1'\n" + text(block(), before: "# "), text(block(), before: "> "),
        String(repeating: "'-----BEGIN PRIVATE KEY-----'\n", count: 1_001) + "k = `\(text(block()))`",
        "{\"key\":\"-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIDuSnrNTLiNXTqeTObHm\\/NLvZMFE6vRRwBdlT\\n\"}",
        "-----BEGIN PRIVATE KEY-----\nyours\n",
    ])
    func `recognizes a private key inside a file`(text: String) {
        #expect(SecretContent.find(in: Array(text.utf8)) == .keyInside)
    }

    @Test(arguments: [
        "<pre>\n-----BEGIN PRIVATE KEY-----\n", "let a = '\n-----BEGIN PRIVATE KEY-----", certificate,
        "h='-----BEGIN PRIVATE KEY-----',t='ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/='",
        "b=a('-----BEGIN RSA PRIVATE KEY-----\\n',c)+'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijABCDEFGHIJ'",
        "identities start with AGE-SECRET-KEY-1, and are secret", "/* PRIVATE KEY */ " + lines[0],
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A\"}", "",
    ])
    func `finds no private key in text that only quotes a header`(text: String) {
        #expect(SecretContent.find(in: Array(text.utf8)) == nil)
    }

    @Test func `searches many headers without a key in linear time`() {
        let text = String(repeating: "'-----BEGIN PRIVATE KEY-----Version: a: b: c: ", count: 10_000)
        #expect(SecretContent.find(in: Array(text.utf8)) == nil)
    }
}
