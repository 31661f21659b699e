import BundleTestTraits
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// Runs the cases of Meteor's own suite for its local server (Meteor reference, section 8.3) against the real
/// `clientctl serve`: with the seed, and with a hot code push that inherits most of its files.
@Suite(.ownThread) struct CordovaServeTests {
    private let push: PushSite

    init() throws { push = try PushSite() }

    /// Starts `serve` for this device. Returns the program and its port.
    private func serve() throws -> (program: Program, port: Int) {
        let program = try Clientctl.start([
            "serve", "--store", push.store, "--seed", push.seed, "--shell-version", "1.5.0", "--port", "0",
            "--fallback",
            "everything",
        ])
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            if let address = try program.printed().output.firstMatch(of: /http:\/\/127\.0\.0\.1:([0-9]+)/),
                let port = Int(address.output.1)
            {
                return (program, port)
            }
            poll(nil, 0, 10)
        }
        throw Silent(errors: try program.printed().errors)
    }

    private struct Silent: Error { let errors: String }

    private func ask(_ target: String, _ port: Int) throws -> RawResponse {
        let connection = try RawConnection(port: port)
        connection.send("GET \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n\r\n")
        return try connection.receiveAnswer()
    }

    private func bundle(_ version: CordovaVersion) -> CordovaServerCase.Bundle {
        let fixtures = push.fixtures
        return CordovaServerCase.Bundle(
            hash: { fixtures.hash(of: $0, in: version) }, sourceMapURL: { fixtures.sourceMapURL(of: $0, in: version) },
            content: { path in
                if path == "cordova_plugins.js" { return bytes("// cordova_plugins.js\n") }
                return try fixtures.content(of: path, in: version)
            })
    }

    private func expectAll(_ version: CordovaVersion) throws {
        let (program, port) = try serve()
        let bundle = bundle(version)
        #expect(CordovaServerCase.all.count == 26)
        for one in CordovaServerCase.all {
            let answer = try ask(one.target(in: bundle), port)
            #expect(try one.findings(in: answer, of: bundle) == [], "\(one.number)")
        }
        program.send(SIGTERM)
        let ending = try #require(try program.wait(within: .seconds(60)), "serve does not end")
        #expect(ending.status == 0, "\(ending.errors)")
    }

    @Test func `CW-01 to CW-26: serves the seed`() throws { try expectAll(.version1) }

    @Test func `CW-01 to CW-26: serves a hot code push over the seed`() throws {
        try push.serve(.version2)
        try push.install().succeeded("installed")
        try expectAll(.version2)
    }
}
