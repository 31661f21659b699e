import ArgumentParser
import BundleTesting
import Glibc
import MeteorTesting

/// `MockMeteor serve`, the default command.
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serves versions of a client, prints each request, and reads commands.",
        discussion: """
            Every folder is in the server layout, as "MockMeteor bundle" makes it: manifest.json, index.html, and the files by URL \
            path. It is a version by its name; a folder of such folders is all of them. Type "help" for the commands.

            The demo: swift run MockMeteor --demo --write-seed /tmp/demo-seed
            shows version1 of a small client. Start a shell with the seed, open its page, then type "serve version2" here: the \
            page changes by itself. version3 throws before it has started up; a shell goes back to the version before.
            """)

    @Option(help: "The port of 127.0.0.1; 0 is a free one.")
    var port = 3000

    @Option(parsing: .upToNextOption, help: "Folders to serve.")
    var folder: [String] = []

    @Flag(help: "Serve the built-in demo client, in versions 1, 2 and a broken 3.")
    var demo = false

    @Option(help: ArgumentHelp("Write version 1 of the demo there, as a seed for a shell.", valueName: "dir"))
    var writeSeed: String?

    @Option(help: ArgumentHelp("The path of the ROOT_URL, as /sub; none unless given.", valueName: "path"))
    var rootPath = ""

    @Flag(help: "Send the SHA-1 of the bytes as ETag, as the Cordova plugin's test server does, and no cache headers.")
    var contentTags = false

    mutating func validate() throws {
        guard (0...65535).contains(port) else { throw ValidationError("--port \(port) is no port; use 0 to 65535.") }
        guard demo || !folder.isEmpty else {
            throw ValidationError("There is nothing to serve; give --demo or --folder.")
        }
        guard demo || writeSeed == nil else { throw ValidationError("--write-seed is for the demo; add --demo.") }
        guard rootPath.isEmpty || rootPath.hasPrefix("/") && !rootPath.hasSuffix("/") else {
            throw ValidationError("--root-path \(rootPath) must begin with a slash and not end with one.")
        }
    }

    func run() throws {
        let temporary = demo ? try TemporaryFolder() : nil
        let server = try MeteorServer(
            folder, port: port, tags: contentTags ? .contentDigest : .manifestHash, rootPath: rootPath,
            talksDDP: true
        ) { request, status in
            say("\(status == 0 ? "---" : String(status)) \(request.method) \(request.target)")
        }
        if let temporary { try serveDemo(from: temporary, on: server) }
        guard let first = server.versions.first else {
            throw ValidationError("No folder has a manifest.json; make one with \"MockMeteor bundle\".")
        }
        try server.serve(version: first)
        say("Serving \(first) of \(server.versions.joined(separator: ", ")) at \(rootURL(of: server))")
        var console = Console(server)
        while let line = readLine(), console.obey(line) {}
        // Without a terminal no "quit" arrives.
        while console.isWanted { pause() }
        server.stop()
    }

    private func rootURL(of server: MeteorServer) -> String { "http://localhost:\(server.port)\(rootPath)/" }

    private func serveDemo(from temporary: TemporaryFolder, on server: MeteorServer) throws {
        for number in 1...3 {
            let bundle = try DemoClient.bundle(number, rootURL: rootURL(of: server)).build()
            try bundle.writeServerLayout(to: temporary.file(bundle.version))
            server.add(bundle.version, folder: temporary.file(bundle.version))
        }
        guard let writeSeed else { return }
        try DemoClient.bundle(1, rootURL: rootURL(of: server)).build().writeBundleLayout(to: writeSeed)
        say("Wrote the seed to \(writeSeed)")
    }
}
