import BundleCore
import BundleValues
import BundleDisk
import BundleServe
import BundleTesting

/// The bundled client of Meteor's own suite (METEOR section 8.2), laid out as for a launch: `www/application` with
/// files that its manifest does not list, and the files of Cordova in `www`.
struct CordovaClient {
    struct Entry {
        let path: String
        let url: String
        let hash: String
        let isCacheable: Bool

        init(_ path: String, _ url: String, _ hash: String, isCacheable: Bool = false) {
            self.path = path
            self.url = url
            self.hash = hash
            self.isCacheable = isCacheable
        }

        var hasSourceMap: Bool { isCacheable }
        var sourceMapURL: String { "\(url[..<(url.lastIndex(of: "/") ?? url.startIndex)])/\(hash).map" }

        // The content of the Meteor suite, where its hashes allow a comparison. The scripts are written for this
        // test.
        var content: [UInt8] {
            let name = path.split(separator: "/").last.map(String.init) ?? path
            if !isCacheable { return Array("\(name)\n".utf8) }
            return Array((name.hasSuffix(".css") ? "/* \(path) */\n" : "// \(path)\n").utf8)
        }
    }

    /// Each hash is the SHA-1 digest of the content.
    static let entries = [
        Entry(
            "packages/meteor.js", "/packages/meteor.js", "60cbfcbf82c52e36be1ccaef11b38ec1cc844103", isCacheable: true),
        Entry(
            "app/template.mobileapp.js", "/app/template.mobileapp.js", "64cbd73270545cc23700db0daa0edcf66dc4eb82",
            isCacheable: true),
        Entry("app/mobileapp.js", "/app/mobileapp.js", "7b37552bf766ca61151bdc65eeffd117a9f4066e", isCacheable: true),
        Entry(
            "merged-stylesheets.css", "/merged-stylesheets.css", "07e407ceed7a6696dcadd1fc26070ea35c34da66",
            isCacheable: true),
        Entry("app/some-data.json", "/some-data.json", "3edc8875bc0dd76d9f5fce5e823dca6f17a26da7"),
        Entry("app/some-file", "/some-file", "23300652a57f3e819038d9a268ba36af0e25d33b"),
        Entry("app/some-font.woff", "/some-font.woff", "6ec7e1e1c0199bfb5bcd6877de9fe7abefd26df8"),
        Entry("app/some-image.jpg", "/some-image.jpg", "13f1d459365d5604dbf2b64b203fa583c1c7fc3f"),
        Entry("app/some-image.png", "/some-image.png", "06b05b4c2720cd9ff733d21c594eac4e865a6e73"),
        Entry("app/some-javascript.js", "/some-javascript.js", "51a3422f25ddf466a35e00e327d5f4ca90eee8f4"),
        Entry("app/some-page.html", "/some-page.html", "5dc6878863a1fd4f7f69713b4c072280932255af"),
        Entry("app/some-stylesheet.css", "/some-stylesheet.css", "b33cc1bdaa963ae1cec9afd4c833d80caf7641a2"),
        Entry("app/some-text.txt", "/some-text.txt", "bb874a02400d28518a3d0f7a4c7fd8970735bea1"),
        Entry("app/some-video.mp4", "/some-video.mp4", "45e892d4c7ce693f5cd551fcd671cf227ff1ae3a"),
    ]

    static let page = "<!DOCTYPE html><html><head><title>mobileapp</title></head><body></body></html>"

    /// Writes the client below `folder`.
    static func site(below folder: TemporaryFolder) throws -> Site {
        let www = try Directory.open(try folder.writeTree(files, to: "cordova"))
        let application = try www.directory("application")
        var assets = [AssetMap.PlacedAsset(url: "/", source: application, file: "index.html")]
        var labels: [BundlePath: AssetLabels.Label] = [:]
        for entry in entries {
            assets.append(.init(url: "\(entry.url)?\(entry.hash)", source: application, file: entry.path))
            labels[try BundlePath(parsing: entry.url.dropFirst())] = .init(
                hash: entry.hash, sourceMapURL: entry.hasSourceMap ? entry.sourceMapURL : nil)
            guard entry.hasSourceMap else { continue }
            assets.append(.init(url: entry.sourceMapURL, source: application, file: entry.path + ".map"))
            labels[try BundlePath(parsing: entry.sourceMapURL.dropFirst())] = .init(
                hash: nil, sourceMapURL: nil)
        }
        var map = try AssetMap(assets)
        try map.addCordovaFiles(from: www)
        let serving = try Directory.open(try folder.makeFolder("cordova-serving"))
        let root = try BundleOrganizer(serving: serving).organize(map, as: "meteor-version1")
        let index = try root.directory.file("index.html").readAll(maximumBytes: 1 << 20)
        let cut = HTMLOutline(index).headStart
        let page = IndexPage(
            before: Array(index[..<cut]), after: Array(index[cut...]),
            scriptSources: try ScriptSource.expressions(for: index))
        return try Site(root: root.directory, index: page, labels: AssetLabels(labels))
    }

    private static var files: [String: [UInt8]] {
        var files: [String: [UInt8]] = [
            "application/index.html": Array(page.utf8),
            "application/not-in-manifest": Array("not-in-manifest\n".utf8),
            "application/program.json": Array("{}".utf8),
            "cordova_plugins.js": Array("// cordova_plugins.js\n".utf8),
            "index.html": Array("the page of Cordova itself".utf8),
        ]
        for entry in entries {
            files["application/\(entry.path)"] = entry.content
            if entry.hasSourceMap {
                files["application/\(entry.path).map"] = Array(#"{"version":3,"sources":["\#(entry.path)"]}"#.utf8)
            }
        }
        return files
    }
}
