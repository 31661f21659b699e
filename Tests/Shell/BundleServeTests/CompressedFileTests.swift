import BundleDisk
import BundleTestTraits
import BundleTesting
import Testing

@testable import BundleServe

@Suite("Compressed files", .ownThread) struct CompressedFileTests {
    private static let gzip: [UInt8] = [0x1F, 0x8B, 0x08, 0, 0, 0]
    private static let brotli: [UInt8] = [0x50, 0, 0x10]

    @Test(
        arguments: [
            ("Build/game.wasm.br", brotli, ["Build/game.loader.js"], "application/wasm"),
            ("Build/game.data.gz", gzip, ["Build/game.loader.js"], "application/octet-stream"),
            ("Build/game.framework.js.gz", gzip, ["Build/game.loader.js"], "text/javascript; charset=utf-8"),
            ("app.js.br", brotli, [], "text/javascript; charset=utf-8"),
            ("app.js.gz", gzip, [], "text/javascript; charset=utf-8"),
            ("app.js.gz", gzip, ["app.js"], nil), ("app.js.gz", brotli, [], nil), ("app.js.br", gzip, [], nil),
            ("app.wasm.br", Array("\0asm".utf8), [], nil), ("files.tar.gz", gzip, [], nil),
            ("backup.gz", gzip, [], nil),
            ("Build/game.data.gz", gzip, ["game.loader.js"], nil), ("index.html.gz", gzip, [], nil),
            ("app.js", gzip, [], nil),
            ("game.wasm.unityweb", gzip, ["game.loader.js"], nil),
        ] as [(String, [UInt8], [String], String?)])
    func `recognizes files that a page cannot decompress`(path: String, head: [UInt8], others: [String], type: String?)
    {
        let file = CompressedFile(Array(path.utf8), head: head) { others.contains(String(decoding: $0, as: UTF8.self)) }
        #expect(file?.type == type)
    }

    @Test func `sends a compressed file with its coding, and as it is to those who decompress it themselves`()
        async throws
    {
        let fixture = try await Fixture()
        let files: [String: [UInt8]] = [
            "game.wasm.br": Self.brotli, "game.wasm.gz": Self.gzip, "game.loader.js": [], "app.js.gz": Self.gzip,
            "own.json.gz": Self.gzip, "plain.js": [], "plain.js.gz": Self.gzip,
        ]
        let root = try Directory.open(try fixture.folder.writeTree(files, to: "built"))
        let site = try Site(root: root, index: Fixture.index)
        fixture.host.with { $0.current = site }
        let all = "Accept-Encoding: gzip, deflate, br"
        let rows: [(String, [String], String?, String)] = [
            ("/game.wasm.br", [all], "br", "application/wasm"), ("/game.wasm.gz", [all], "gzip", "application/wasm"),
            ("/game.wasm.br", ["Accept-Encoding: gzip"], nil, "application/octet-stream"),
            ("/game.wasm.br", ["Accept-Encoding: gzip, br;q=0"], nil, "application/octet-stream"),
            ("/game.wasm.br", [], nil, "application/octet-stream"),
            ("/app.js.gz", [all, "Sec-Fetch-Dest: script"], "gzip", "text/javascript; charset=utf-8"),
            ("/app.js.gz", [all, "Sec-Fetch-Dest: empty"], nil, "application/gzip"),
            ("/own.json.gz", [all, "Sec-Fetch-Dest: empty"], nil, "application/gzip"),
            ("/own.json.gz", [all] + navigation, nil, "application/gzip"),
            ("/game.wasm.br", [all] + navigation, nil, "application/octet-stream"),
            ("/plain.js.gz", [all, "Sec-Fetch-Dest: script"], nil, "application/gzip"),
        ]
        for (path, fields, coding, type) in rows {
            let answer = try fixture.ask(path, fields)
            #expect(
                answer.status == 200 && answer["Content-Encoding"] == coding && answer["Content-Type"] == type,
                "\(path) \(fields)")
            #expect(answer.body == files[String(path.dropFirst())])
        }
        let coded = try fixture.ask("/game.wasm.br", [all])
        let bare = try fixture.ask("/game.wasm.br")
        let tag = try #require(coded["ETag"])
        #expect(tag != bare["ETag"])
        #expect(try fixture.ask("/game.wasm.br", [all, "If-None-Match: \(tag)"]).status == 304)
        #expect(try fixture.ask("/game.wasm.br", ["If-None-Match: \(tag)"]).status == 200)
        #expect(try fixture.ask("/game.wasm.br", [all, "Range: bytes=0-0"]).status == 200)
    }
}
