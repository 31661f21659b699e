import BundleTesting
import BundleTestTraits
import BundleValues
import Glibc
import Testing

/// The files of `Integrations`. Their shell steps run here; the services that would run them are not available.
@Suite(.ownThread) struct IntegrationsTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private static func file(_ name: String) throws -> String {
        String(decoding: try contents(ofFile: "\(Checkout.root)/Integrations/\(name)"), as: UTF8.self)
    }

    /// Returns the lines of the block after the first line that ends with `key`, without their common indentation.
    private static func block(after key: String, of file: String) throws -> String {
        let lines = try Self.file(file).split(separator: "\n", omittingEmptySubsequences: false)
        let first = try #require(lines.firstIndex { $0.hasSuffix(key) }) + 1
        let indentation = lines[first].prefix { $0 == " " }
        return lines[first...].prefix { $0.hasPrefix(indentation) }.map { $0.dropFirst(indentation.count) }
            .joined(separator: "\n")
    }

    private func digest() throws -> String {
        String(try Clientctl.stock(["sha256sum", Clientctl.path]).prefix(64))
    }

    /// Runs the install step of a service, then `clientctl --version` from the path of the job.
    private func install(_ step: String, sha256: String) throws -> Program.Ending {
        let environment = Clientctl.environment([
            "PROGRAM_URL": "file://\(Clientctl.path)", "PROGRAM_SHA256": sha256, "RUNNER_TEMP": folder.path,
            "GITHUB_PATH": folder.file("path"), "CI_PROJECT_DIR": folder.path,
        ])
        let next = """
            \(step)
            test ! -e "$GITHUB_PATH" || PATH=$(cat "$GITHUB_PATH"):$PATH
            case $(command -v clientctl) in "\(folder.path)"/*) ;; *) exit 1 ;; esac
            """
        return try Program.run(["sh", "-c", next], environment: environment)
    }

    @Test func `Scripts install puts the program into a folder of the user, also a second time`() throws {
        try folder.makeFolder("Scripts")
        for script in ["install", "bootstrap"] {
            try Clientctl.stock(["cp", "\(Checkout.root)/Scripts/\(script)", folder.file("Scripts")])
        }
        // The build, which takes minutes.
        try folder.write(bytes("#!/bin/sh\necho \(Clientctl.path)\n"), to: "Scripts/release")
        try Clientctl.stock(["chmod", "+x", folder.file("Scripts/release")])
        let home = folder.file("home")
        for _ in 1...2 {
            let ending = try Program.run(
                [folder.file("Scripts/install")], environment: Clientctl.environment(["HOME": home]))
            #expect(ending.status == 0, "\(ending.errors)")
            #expect(ending.text.contains("next: export PATH=\"\(home)/.local/bin:$PATH\" && clientctl demo"))
            #expect(try Clientctl.stock(["ls", "-A", "\(home)/.local/bin"]) == "clientctl\n")
        }
        let refused = try Program.run(
            [folder.file("Scripts/install"), "--prefix", "/proc/none"], environment: Clientctl.environment())
        #expect(refused.status == 1 && refused.errors.contains("--prefix"), "\(refused.errors)")
    }

    @Test func `Scripts package replaces the files of an earlier run, and keeps others`() throws {
        let line = ["\(Checkout.root)/Scripts/package", folder.file("out"), "--binary", Clientctl.path]
        // Like the files of an earlier version. A run takes minutes beside the other tests.
        try folder.writeTree(["old.deb": [], "SHA256SUMS": bytes("00  old.deb\n")], to: "out")
        try Clientctl.stock(line)
        #expect(access(folder.file("out/old.deb"), F_OK) != 0)
        try folder.write([], to: "out/mine")
        let refused = try Program.run(line, environment: Clientctl.environment())
        #expect(refused.status == 1 && refused.errors.contains("has other files: mine"), "\(refused.errors)")
        #expect(try Clientctl.stock(["ls", folder.file("out")]).contains("mine\n"))
    }

    private static let steps = [("run: |", "github/action.yml"), ("- |", "gitlab/template.yml")]

    @Test(arguments: steps)
    func `the install step of a CI service adds clientctl to the path of the job`(key: String, file: String) throws {
        let ending = try install(try Self.block(after: key, of: file), sha256: try digest())
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.text.hasPrefix(try Clientctl.run(["--version"]).text))
    }

    @Test(arguments: steps)
    func `the install step of a CI service rejects a program whose digest differs`(key: String, file: String) throws {
        let ending = try install(
            try Self.block(after: key, of: file), sha256: String(repeating: "0", count: 64))
        #expect(ending.status != 0)
        #expect(!ending.text.contains(try Clientctl.run(["--version"]).text))
    }

    @Test func `the hook of pre-commit rejects a feed with a changed archive`() throws {
        let site = try Site()
        try site.publish("1.0.0")
        let line = try #require(
            try Self.file("pre-commit-hooks.yaml").split(separator: "\n").first { $0.contains("entry: ") })
        let words = line.split(separator: " ").dropFirst().map(String.init)
        #expect(words.first == "clientctl")
        let arguments = Array(words.dropFirst())
        #expect(try Clientctl.run(arguments, in: site.folder.path).status == 0)
        try Clientctl.stock(["sh", "-c", "for file in \(site.feed)/releases/*/*.tar.*; do echo x >>\"$file\"; done"])
        #expect(try Clientctl.run(arguments, in: site.folder.path).status != 0)
    }

    /// The wheel contains a script in this test, because only `Scripts/release --portable` builds the program.
    @Test func `the wheel installs and runs its program in an empty Python environment`() throws {
        let environment = Clientctl.environment([
            "TMPDIR": folder.path, "SOURCE_DATE_EPOCH": "1700000000",
            // The tests may run as another user than the owner of the checkout.
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        ])
        if try Program.run(["python3", "-c", "import ensurepip"], environment: environment).status != 0 {
            try Test.cancel("Python has no venv: Scripts/bootstrap --guide installs it")
        }
        let versions = #"{"version":"1.2.3","libraries":{"zlib1g-dev":"1"}}"#
        let script = "#!/bin/sh\ncase $* in *--json) echo '\(versions)' ;; *) echo 1.2.3 ;; esac\n"
        let program = try folder.write(bytes(script), to: "program")
        chmod(program, 0o755)
        let ending = try Program.run(["\(Checkout.root)/Scripts/checks/wheel", program], environment: environment)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.text.contains("reproducible"))
    }

    @Test func `the provenance of a release is right, and each change is found`() throws {
        let environment = Clientctl.environment([
            "TMPDIR": folder.path, "SOURCE_DATE_EPOCH": "1700000000",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        ])
        let ending = try Program.run(["\(Checkout.root)/Scripts/checks/provenance"], environment: environment)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.text.contains("reproducible"))
    }

    @Test(arguments: [
        "yocto/clientctl.bb", "buildroot/clientctl.mk", "buildroot/clientctl.hash", "buildroot/Config.in",
    ])
    func `a recipe contains only placeholders that Scripts/package fills`(file: String) throws {
        let rest = ["@VERSION@", "@PROGRAM@", "@SHA256@", "@LICENSES@", "@MD5@"].reduce(try Self.file(file)) {
            $0.replacing($1, with: "")
        }
        #expect(!rest.replacing("$(@D)", with: "").contains("@"))
    }
}
