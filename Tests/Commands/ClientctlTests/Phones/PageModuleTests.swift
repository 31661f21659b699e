import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The module of `feed page-module` in node, with a feed on a static server and a plugin that only records its calls.
@Suite(.ownThread) struct PageModuleTests {
    private let site: ChannelSite
    private let module: String

    init() throws {
        site = try ChannelSite()
        module = site.folder.file("updates.mjs")
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        try Clientctl.run(["feed", "page-module", module, "--trust", site.pinned, "--json"]).succeeded()
    }

    /// Runs `update` of the module once for an app that runs `running`. The storage is kept in a file. `before` is a statement that
    /// runs first.
    private func update(_ host: Hosting, running: String = "builtin", before: String = "") throws -> JSONObject {
        let script = """
            import { existsSync, readFileSync, writeFileSync } from 'node:fs';
            const kept = existsSync('storage.json') ? JSON.parse(readFileSync('storage.json', 'utf8')) : {};
            const storage = {
              getItem: (name) => kept[name] ?? null,
              setItem: (name, value) => { kept[name] = value; writeFileSync('storage.json', JSON.stringify(kept)); },
            };
            const calls = [];
            const updater = {
              current: async () => ({ bundle: { id: 'b', version: '\(running)' } }),
              download: async (options) => { calls.push({ download: options }); return { id: 'new', version: options.version }; },
              next: async (options) => { calls.push({ next: options }); },
              reset: async (options) => { calls.push({ reset: options }); },
            };
            \(before)
            const { update } = await import('\(module)');
            let answer;
            try {
              answer = await update(updater, { id: 'phone-1', shell: '1.5', feed: '\(host.url)', storage });
            } catch (error) { answer = { error: error.message }; }
            console.log(JSON.stringify({ answer, calls }));
            """
        let file = try site.folder.write(bytes(script), to: "run.mjs")
        let ending = try Program.run(["node", file], environment: Clientctl.environment(), in: site.folder.path)
        let line = bytes(ending.text)
        return try #require(
            try JSONScanner.parse(line, maximumBytes: 65536).objectValue, "\(ending.text)\(ending.errors)")
    }

    private func action(_ outcome: JSONObject) -> String? {
        let answer = outcome["answer"]?.objectValue
        return answer?["action"]?.stringValue ?? answer?["error"]?.stringValue
    }

    private func calls(_ outcome: JSONObject) -> [String] {
        (outcome["calls"]?.arrayValue ?? []).compactMap { $0.objectValue?.members.first?.name }
    }

    @Test func `module has at most 250 lines and no dependency`() throws {
        let text = String(decoding: try contents(ofFile: module), as: UTF8.self)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 251)
        #expect(!text.contains("\nimport ") && !text.contains("require("))
        let isKnown = try ["release", "channel", "root1"].map { text.contains(try site.id($0)) }
        #expect(isKnown == [true, true, false])
    }

    @Test func `app installs a release, stays, and returns to its own files after a recall`() throws {
        let host = try Hosting(site.feed)
        let first = try update(host)
        #expect(action(first) == "install" && calls(first) == ["download", "next"], "\(first)")
        let download = first["calls"]?.arrayValue?.first?.objectValue?["download"]?.objectValue
        #expect(download?["url"]?.stringValue == "\(host.url)releases/v1.0.0/phone.zip")
        #expect(
            download?["checksum"]?.stringValue == (try HandmadeRelease.sha256("\(site.feed)/releases/v1.0.0/phone.zip"))
        )
        let second = try update(host, running: "1.0.0")
        #expect(action(second) == "upToDate" && calls(second).isEmpty, "\(second)")
        try site.release("recall", "--version", "1.0.0", "--reason", "white screen").succeeded()
        let third = try update(host, running: "1.0.0")
        #expect(action(third) == "leave" && calls(third) == ["reset"], "\(third)")
    }

    @Test func `app refuses an old channel, a changed one, another bundle, and a web view without Ed25519`() throws {
        let host = try Hosting(site.feed)
        let file = "\(site.feed)/channels/stable.json"
        let old = try contents(ofFile: file)
        try site.publish("1.1.0", ["--phone"]).succeeded("published")
        #expect(action(try update(host)) == "install")
        let new = try contents(ofFile: file)
        try site.folder.write(old, to: "feed/channels/stable.json")
        #expect(action(try update(host))?.contains("went back") == true)
        let changed = String(decoding: new, as: UTF8.self).replacing(/"payload": "eyJ/, with: #""payload": "eyK"#)
        try site.folder.write(bytes(changed), to: "feed/channels/stable.json")
        #expect(action(try update(host))?.contains("does not match") == true)
        try site.folder.write(new, to: "feed/channels/stable.json")
        let without = "crypto.subtle.importKey = async () => { throw new DOMException('no', 'NotSupportedError'); };"
        let blind = try update(host, before: without)
        #expect(action(blind)?.contains("cannot verify Ed25519") == true && calls(blind).isEmpty, "\(blind)")
        try Clientctl.stock([
            "cp", "\(site.feed)/releases/v1.0.0/phone.json", "\(site.feed)/releases/v1.1.0/phone.json",
        ])
        let other = try update(host)
        #expect(action(other)?.contains("another release") == true && calls(other).isEmpty, "\(other)")
        let late = try update(host, before: "Date.now = () => 4102444800000;")
        #expect(action(late)?.contains("expired") == true && calls(late).isEmpty, "\(late)")
    }

    @Test func `page-module refuses keys that web views do not verify`() throws {
        try Clientctl.run([
            "keys", "generate", "--algorithm", "ecdsa-p256", "--out", site.folder.file("curve"), "--json",
        ]).succeeded()
        let refused = try Clientctl.run(["feed", "page-module", module, "--trust", site.pub("curve"), "--json"])
        refused.failed(78, "configInvalid")
        #expect(refused.errors.contains("only Ed25519"))
    }
}
