import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("File ownership", .ownThread) struct FileOwnershipTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    private func status(_ more: [String], environment: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(["status", "--store", site.store, "--json"] + more, environment: environment)
    }

    @Test(arguments: [0o666, 0o620, 0o602]) func `rejects a configuration file that other users may write`(mode: Int)
        throws
    {
        let config = try site.folder.write(bytes("{}"), to: "clientctl.json")
        try status(["--config", config]).succeeded()
        chmod(config, mode_t(mode))
        let refused = try status(["--config", config]).failed(31, "permissionDenied")
        #expect(refused.subject == config)
        #expect(refused.errors.contains("chmod go-w"), "\(refused.errors)")
    }

    @Test func `rejects the user's configuration file when other users may write it`() throws {
        try site.folder.makeFolder("config")
        let config = try site.folder.write(bytes("{}"), to: "config/clientctl.json")
        let home = ["XDG_CONFIG_HOME": site.folder.file("config")]
        try status([], environment: home).succeeded()
        chmod(config, 0o666)
        try status([], environment: home).failed(31, "permissionDenied")
    }

    @Test func `rejects trusted keys that other users may write, as a file or in a folder`() throws {
        let folder = try site.folder.makeFolder("keys")
        try Clientctl.stock(["cp", site.trust, "\(folder)/release.pem"])
        try site.install(nil, ["--trust", folder]).succeeded("installed")
        chmod(folder, 0o777)
        try site.check(nil, ["--trust", folder]).failed(31, "permissionDenied")
        chmod(folder, 0o755)
        chmod("\(folder)/release.pem", 0o666)
        try site.check(nil, ["--trust", folder]).failed(31, "permissionDenied")
        chmod(site.trust, 0o666)
        try site.check().failed(31, "permissionDenied")
        let doctor = try Clientctl.run([
            "doctor", "--store", site.store, "--manifest", site.manifest, "--trust", site.trust, "--port", "0",
            "--json",
        ])
        #expect(doctor.status == 62, "\(doctor.text)")
    }

    @Test(.enabled(if: Clientctl.isRoot, "only root may give a file away"))
    func `rejects settings and keys that another user owns`() throws {
        let config = try site.folder.write(bytes("{}"), to: "clientctl.json")
        chown(config, 4322, 4322)
        let refused = try status(["--config", config]).failed(31, "permissionDenied")
        #expect(refused.errors.contains("another user (4322)"), "\(refused.errors)")
        chown(site.trust, 4322, 4322)
        try site.install().failed(31, "permissionDenied")
    }
}
