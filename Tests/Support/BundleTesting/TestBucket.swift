import BundleValues
import Glibc

/// A bucket of moto, an object store in Python that verifies request signatures.
///
/// `SWAP_CLIENTS_PYTHON` names a Python with moto. The default is that of `Scripts/bootstrap --bucket`, or `python3`.
package final class TestBucket: Sendable {
    /// The reason why moto is not available; nil if it is.
    package static let missing: String? = {
        let check = try? Program.run(
            [python, "-c", search], environment: ["PATH": path, "HOME": "/nonexistent"])
        return check?.status == 0 ? nil : "no moto[server] for \(python): Scripts/bootstrap --bucket installs it"
    }()

    /// Only searches the modules, because their import takes a second.
    private static let search = """
        import importlib.util, sys
        sys.exit(not all(importlib.util.find_spec(name) for name in ["moto", "boto3", "flask", "flask_cors"]))
        """
    private static let path = setting("PATH") ?? "/usr/bin:/bin"
    private static let python = setting("SWAP_CLIENTS_PYTHON") ?? installed ?? "python3"
    /// The folder in which `Scripts/bootstrap --bucket` installs moto.
    private static let installed: String? = {
        let path = "\(Checkout.root)/.build/moto/bin/python"
        return access(path, X_OK) == 0 ? path : nil
    }()
    private static let program = "\(Checkout.root)/Scripts/lib/bucket.py"

    private static func setting(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    package let url: String
    package let keyId: String
    package let secret: String
    private let server: Command

    /// The environment of programs that use the bucket, with valid keys.
    package var environment: [String: String] {
        [
            "AWS_ENDPOINT_URL_S3": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": keyId,
            "AWS_SECRET_ACCESS_KEY": secret,
        ]
    }

    /// The bucket that all tests share. Each test uses separate folders.
    package static let forAllTests = Result { try TestBucket() }

    /// Starts moto with an empty bucket `feeds`.
    private init() throws {
        let server = try Command([Self.python, Self.program, "--signed"])
        let line = server.nextLine()
        guard let told = try JSONScanner.parse(Array(line.utf8), maximumBytes: 4096).objectValue,
            let url = told["url"]?.stringValue, let id = told["id"]?.stringValue,
            let secret = told["secret"]?.stringValue
        else { throw CommandError(command: ["moto"], printed: line) }
        (self.server, self.url, keyId, self.secret) = (server, url, id, secret)
    }
}
