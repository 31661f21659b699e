import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Servers that fail or send other bytes than the signed archive, and the next run after them.
@Suite(.ownThread) struct RefusedDownloadTests {
    private static let archivePath = "/releases/v2.0.0/client-v2.0.0.tar.zst"

    private let site: Site
    private let server: LoopbackServer
    private let url: String
    private let archive: [UInt8]

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try site.publish("2.0.0", Self.client)
        server = try LoopbackServer(folder: site.feed)
        url = try server.url("/manifest.json").display
        archive = try contents(ofFile: site.feed + Self.archivePath)
    }

    /// Random bytes keep their size in an archive.
    private static let client = Site.client("2.0.0").merging(["noise": noise(300_000)]) { $1 }

    private func serve(_ change: (inout Route) -> Void) {
        server.set(Self.archivePath, Route.resource(archive, entityTag: "\"one\"").with(change))
    }

    private var archiveRequests: [LoopbackServer.Request] { server.requests.filter { $0.target == Self.archivePath } }

    private func downloads() throws -> [String: [UInt8]] { try TreeSnapshot(of: "\(site.store)/downloads").files }

    /// Returns the store without unfinished downloads, which the next run may resume.
    private func settled() throws -> TreeSnapshot {
        let downloads = try downloads().keys.map { "downloads/\($0)" }
        return try TreeSnapshot(of: site.store, without: Set(downloads)).withoutWanted
    }

    @Test func `install rejects unsigned bytes and keeps none of them`() throws {
        var flipped = archive
        flipped[archive.count / 2] ^= 1
        let lies: [(String, String, (inout Route) -> Void)] = [
            ("a flipped bit", "digestMismatch", { $0.body = .bytes(flipped) }),
            ("longer", "sizeMismatch", { $0.body = .bytes(archive + [0]) }),
            (
                "longer without saying so", "sizeMismatch",
                {
                    $0.body = .bytes(archive + [0])
                    $0.framing = .chunked
                }
            ),
            (
                "endless", "sizeMismatch",
                {
                    $0.body = .endless
                    $0.framing = .chunked
                }
            ),
            ("shorter", "sizeMismatch", { $0.body = .bytes(archive.dropLast()) }),
            ("empty", "sizeMismatch", { $0.body = .bytes([]) }),
            (
                "shorter without a length", "sizeMismatch",
                {
                    $0.body = .bytes(archive.dropLast(1000))
                    $0.framing = .untilClose
                }
            ),
        ]
        try site.leavingStoreAlone {
            for (what, code, lie) in lies {
                serve(lie)
                let refused = try site.install(url).failed(23, code, "\(what)")
                #expect(refused.subject?.hasSuffix("client-v2.0.0.tar.zst") == true, "\(what)")
            }
        }
        serve { _ in }
        try site.install(url).succeeded("installed")
    }

    @Test func `install rejects a signed but unsafe archive and names the rule`() throws {
        let handmade = HandmadeRelease(site: site)
        let source = try site.folder.writeTree(Site.client("3.0.0"), to: "unsafe")
        try #require(symlink("/etc/passwd", "\(source)/link") == 0)
        try Clientctl.stock(["tar", "--zstd", "-C", source, "-cf", site.folder.file("unsafe.tar.zst"), "."])
        let manifest = try handmade.write(handmade.required("3.0.0", archive: "unsafe.tar.zst"), to: "unsafe.json")
        try site.leavingStoreAlone {
            let refused = try site.install(manifest).failed(24, "archiveRejected")
            #expect(refused.subject == "type-symlink: ./link")
        }
    }

    @Test func `install fails with httpStatus when the server rejects the request`() throws {
        try site.leavingStoreAlone {
            for status in [404, 403, 410, 500, 503] {
                serve { $0 = Route([], status: status) }
                try site.install(url).failed(11, "httpStatus", "\(status)")
            }
            try site.install(server.url("/nothing.json").display).failed(11, "httpStatus")
        }
    }

    @Test func `install fails with networkUnavailable without a server`() throws {
        server.stop()
        try site.leavingStoreAlone { try site.install(url).failed(10, "networkUnavailable") }
        try site.leavingStoreAlone {
            // A missing file is not a network error.
            try site.install("\(site.feed)/nothing.json").failed(78, "configInvalid")
        }
    }

    /// Cuts every attempt of one run after 40,000 bytes, until the run gives up. Returns the bytes it kept.
    private func interrupt() throws -> Int {
        serve { $0.pace = .cut(after: 40_000) }
        let before = try settled()
        try site.install(url).failed(10, "networkUnavailable")
        #expect(try settled().changes(since: before) == [])
        #expect(try site.list().strings("versions") == ["embedded", "v1.0.0"])
        let part = try #require(try downloads().first { $0.key.hasSuffix(".part") })
        #expect(archive.starts(with: part.value))
        #expect(part.value.count >= 40_000 && part.value.count < archive.count)
        return part.value.count
    }

    @Test func `install resumes an interrupted download`() throws {
        let had = try interrupt()
        serve { _ in }
        let requests = archiveRequests.count
        let installed = try site.install(url).succeeded("installed")
        #expect(installed["bytesDownloaded"] == .integer(archive.count - had))
        let resumed = archiveRequests.dropFirst(requests)
        #expect(resumed.map { $0["Range"] } == ["bytes=\(had)-"])
        #expect(resumed.map { $0["If-Range"] } == [nil])
        #expect(try site.installed("2.0.0") == Self.client)
        #expect(try downloads().isEmpty)
    }

    @Test func `install resumes a download when only the ETag changed`() throws {
        let had = try interrupt()
        server.set(Self.archivePath, .resource(archive, entityTag: "\"two\""))
        let requests = archiveRequests.count
        let installed = try site.install(url).succeeded("installed")
        #expect(installed["bytesDownloaded"] == .integer(archive.count - had))
        #expect(archiveRequests.dropFirst(requests).map { $0["Range"] } == ["bytes=\(had)-"])
        #expect(try downloads().isEmpty)
    }

    @Test func `install restarts a download when the archive changed on the server`() throws {
        let had = try interrupt()
        var other = archive
        other[had + 10] ^= 1
        let (right, wrong) = (archive, other)
        let changing = try LoopbackServer(answer: { [feed = site.feed] request in
            guard request.target == Self.archivePath else {
                return (try? contents(ofFile: feed + request.target)).map { Route($0) } ?? Route(status: 404)
            }
            return .resource(request["Range"] == nil ? right : wrong, entityTag: "\"two\"")
        })
        try site.install(changing.url("/manifest.json").display).succeeded("installed")
        #expect(
            changing.requests.filter { $0.target == Self.archivePath }.map { $0["Range"] } == ["bytes=\(had)-", nil])
        #expect(try downloads().isEmpty)
    }

    @Test func `a damaged or missing archive in a local feed is named as such`() throws {
        var damaged = archive
        damaged[100] ^= 1
        try site.folder.write(damaged, to: "feed" + Self.archivePath)
        let refused = try site.install().failed(23, "digestMismatch")
        #expect(refused.errors.contains("it is damaged. Copy the feed again."), "\(refused.errors)")
        #expect(unlink(site.feed + Self.archivePath) == 0)
        let missing = try site.install().failed(78, "configInvalid")
        #expect(missing.errors.contains("copy the feed again"), "\(missing.errors)")
    }

    @Test func `install downloads a damaged partial file again`() throws {
        _ = try interrupt()
        let part = try #require(try downloads().first { $0.key.hasSuffix(".part") })
        var damaged = part.value
        damaged[100] ^= 1
        try site.folder.write(damaged, to: "store/downloads/\(part.key)")
        serve { _ in }
        try site.install(url).succeeded("installed")
        #expect(try site.installed("2.0.0") == Self.client)
    }

    @Test func `install downloads a partial file again when the server has no more bytes`() throws {
        let had = try interrupt()
        server.set(Self.archivePath, .resource(Array(archive.prefix(had)), entityTag: "\"one\""))
        // The file on the server is too short, so the archive is rejected and no bytes are kept.
        try site.install(url).failed(23, "sizeMismatch")
        #expect(try downloads().isEmpty)
        #expect(archiveRequests.suffix(2).map { $0["Range"] } == ["bytes=\(had)-", nil])
    }

    /// The second read of the archive by a thread happens during unpacking.
    @Test(
        .enabled(if: Strace.works, "no strace, or it may not trace"),
        arguments: [("EIO", 1, "internal"), ("ENOMEM", 34, "resourcesExhausted")] as [(String, Int32, String)])
    func `install keeps a valid archive when the machine cannot unpack it`(
        error: String, status: Int32, code: String
    ) throws {
        serve { _ in }
        let digest = try Clientctl.stock(["sha256sum", site.feed + Self.archivePath]).prefix(64)
        let failed = Outcome(
            try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-P", "\(site.store)/downloads/\(digest).part", "-e",
                    "trace=pread64", "-e", "inject=pread64:error=\(error):when=2", Clientctl.path,
                ] + site.arguments("install", url), environment: Clientctl.environment())
        ).failed(status, code)
        #expect(failed.error["message"]?.stringValue?.contains("Publish") == false)
        #expect(try downloads()["\(digest).part"] == archive)
        let installed = try site.install(url).succeeded("installed")
        #expect(installed["bytesDownloaded"] == .integer(0))
    }

    /// The first send of each thread fails: the one that wakes libcurl or one to the server.
    @Test(.enabled(if: Strace.works, "no strace, or it may not trace"))
    func `install ends when it cannot wake libcurl, and releases the store`() throws {
        serve { _ in }
        let calls = site.folder.file("calls")
        let ending = try Program.run(
            [
                "timeout", "120", "strace", "-f", "-qq", "-o", calls, "-e", "trace=sendto", "-e",
                "inject=sendto:error=EPIPE:when=1", Clientctl.path,
            ] + site.arguments("install", url), environment: Clientctl.environment())
        #expect(String(decoding: try contents(ofFile: calls), as: UTF8.self).contains("INJECTED"))
        #expect(ending.status != 124, "the install never ends")
        #expect(try ["installed", "upToDate"].contains(site.install(url).outcome))
    }

    /// Covers openat2 and the fallback that opens each folder of a path.
    @Test(
        .enabled(if: Strace.works, "no strace, or it may not trace"),
        arguments: [
            ("EMFILE", 34, "resourcesExhausted", "open files"), ("ENOMEM", 34, "resourcesExhausted", "memory"),
            ("EPERM", 31, "permissionDenied", "owner and mode"), ("EOPNOTSUPP", 78, "configInvalid", "file system"),
            ("EIO", 1, "internal", "Check the disk"),
        ] as [(String, Int32, String, String)])
    func `install reports each kernel error with its own message`(
        error: String, status: Int32, code: String, word: String
    )
        throws
    {
        serve { _ in }
        let failed = Outcome(
            try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdirat", "-e",
                    "inject=mkdirat:error=\(error):when=8",
                    Clientctl.path,
                ] + site.arguments("install", url), environment: Clientctl.environment())
        ).failed(status, code)
        #expect(failed.error["message"]?.stringValue?.contains(word) == true, "\(failed.errors)")
        try site.install(url).succeeded("installed")
    }

    /// The loader gets ENOMEM, as under a memory limit.
    @Test(.enabled(if: Strace.works, "no strace, or it may not trace"))
    func `install reports a library that cannot be loaded as resourcesExhausted`() throws {
        let failed = Outcome(
            try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat", "-e",
                    "inject=openat:error=ENOMEM", "-P", Self.libcurl, Clientctl.path,
                ] + site.arguments("install", url), environment: Clientctl.environment())
        ).failed(34, "resourcesExhausted")
        #expect(failed.errors.contains("libcurl") && !failed.errors.contains("network"), "\(failed.errors)")
    }

    @Test(.enabled(if: Strace.works, "no strace, or it may not trace"))
    func `install reports a missing libcurl, and not a lack of memory`() throws {
        let failed = Outcome(
            try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat", "-e",
                    "inject=openat:error=ENOENT", "-P", Self.libcurl, "-P", "/usr" + Self.libcurl, Clientctl.path,
                ] + site.arguments("install", url), environment: Clientctl.environment())
        ).failed(78, "configInvalid")
        #expect(failed.errors.contains("Install libcurl 4") && !failed.errors.contains("memory"), "\(failed.errors)")
    }

    /// The path of libcurl in the loader's cache.
    private static let libcurl: String = {
        let cache = (try? Clientctl.stock(["ldconfig", "-p"])) ?? ""
        let words = cache.split { $0.isWhitespace }
        return words.first { $0.hasPrefix("/") && $0.hasSuffix("/libcurl.so.4") }.map(String.init) ?? "libcurl.so.4"
    }()

    @Test func `install names the limit on open files`() throws {
        serve { _ in }
        let failed = Outcome(
            try Program.run(
                ["prlimit", "--nofile=14", Clientctl.path] + site.arguments("install", url),
                environment: Clientctl.environment())
        ).failed(34, "resourcesExhausted")
        #expect(failed.errors.contains("Raise the limit on open files"))
        try site.install(url).succeeded("installed")
    }

    @Test func `installing another release removes the partial download before it`() throws {
        _ = try interrupt()
        try site.publish("2.1.0")
        let installed = try site.install(url).succeeded("installed")
        #expect(installed.string("version") == "2.1.0")
        #expect(try downloads().isEmpty)
    }

    @Test func `concurrent installs of a release: the second fails with storeLocked`() throws {
        let gate = try Gate()
        serve { $0.pace = .held(after: 1000, gate) }
        let first = try Clientctl.start(site.arguments("install", url))
        try #require(server.wait(for: Self.archivePath))
        let refused = try site.install(url).failed(32, "storeLocked")
        #expect(refused.subject == site.store)
        // `list` needs no lock.
        #expect(try site.list().succeeded().strings("versions") == ["embedded", "v1.0.0"])
        try Clientctl.run(["prune", "--store", site.store, "--json"]).failed(32, "storeLocked")
        gate.open()
        Outcome(try first.wait()).succeeded("installed")
        try site.install(url).succeeded("upToDate")
    }

    @Test func `a killed process releases the store's lock`() throws {
        serve { $0.pace = .stall(after: 1000) }
        let first = try Clientctl.start(site.arguments("install", url))
        try #require(server.wait(for: Self.archivePath))
        first.send(SIGKILL)
        #expect(try first.wait().signal == SIGKILL)
        serve { _ in }
        try site.install(url).succeeded("installed")
    }
}
