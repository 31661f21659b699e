import ArchiveSource
import BundleFormats
import ArgumentParser
import BundlePublish
import BundleSigning
import BundleValues

/// The bundle of a release for the updater plugins of phones.
struct PhoneOptions: ParsableArguments {
    @Flag(help: "Also write phone.zip and phone.json, for phones with the updater plugin of Capgo or Capawesome.")
    var phone = false

    @Option(
        help: ArgumentHelp(
            "RSA key (PEM) of keys generate --phone. It encrypts and signs the bundle, so that phones can verify it. Implies --phone.",
            valueName: "file"), completion: .file())
    var phoneKey: String?

    /// Whether the release gets a bundle.
    var isAsked: Bool { phone || phoneKey != nil }

    func sealer(_ passphrase: PassphraseOptions) throws -> PhoneSealer? {
        try phoneKey.map { path in try KeyFile.phoneSealer(at: path) { try passphrase.require(for: path) } }
    }

    static func object(_ bundle: PhoneBundle) -> JSONObject {
        [
            "file": .string(bundle.zip.name), "size": .integer(bundle.zip.size),
            "sha256": .string(bundle.zip.sha256.hex),
            "encrypted": .bool(bundle.sealing != nil),
        ]
    }

    static func line(_ bundle: PhoneBundle) -> String {
        let what =
            bundle.sealing == nil
            ? "not encrypted, so phones trust the server" : "encrypted by \(bundle.sealing?.keyId ?? "")"
        return "  phones     \(bundle.zip.name), \(ByteCount(bytes: bundle.zip.size)); \(what)"
    }
}
