import BundleValues
import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore

@Suite struct CordovaFilesTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func map(_ urls: [String] = [], files: [String: [UInt8]] = [:]) throws -> AssetMap {
        let client = try Directory.open(try folder.writeTree(files, to: "client"))
        return try AssetMap(urls.map { .init(url: $0, source: client, file: String($0.dropFirst())) })
    }

    private func www(_ files: [String: [UInt8]]) throws -> Directory {
        try Directory.open(try folder.writeTree(files, to: "www"))
    }

    @Test func `adds stand-ins for missing Cordova files`() throws {
        var map = try map()
        try map.addCordovaFiles(from: nil)
        #expect(map.assets.isEmpty)
        #expect(map.generated.map(\.urlPath.string) == ["cordova.js", "cordova_plugins.js"])
        for file in map.generated {
            #expect(String(decoding: file.bytes, as: UTF8.self).hasPrefix("// "))
        }
        #expect(String(decoding: map.generated[0].bytes, as: UTF8.self).contains("deviceready"))
        #expect(map.warnings == [])
    }

    @Test func `adds the Cordova files of the folder and its plugins only`() throws {
        let www = try www([
            "cordova.js": [1], "plugins/a/www/a.js": [2], "plugins/b.js": [3], "index.html": [4], "other.js": [5],
        ])
        try #require(symlink("other.js", "\(www.path)/cordova_plugins.js") == 0)
        try #require(symlink("/etc", "\(www.path)/plugins/out") == 0)
        var map = try map()
        try map.addCordovaFiles(from: www)
        #expect(Set(map.assets.map(\.urlPath.string)) == ["cordova.js", "plugins/a/www/a.js", "plugins/b.js"])
        #expect(map.assets.allSatisfy { $0.source === www && $0.path == $0.urlPath })
        #expect(map.generated.map(\.urlPath.string) == ["cordova_plugins.js"])
        #expect(map.warnings == ["plugins/out is a symbolic link; it is not served."])
    }

    @Test func `prefers assets of the client to Cordova files`() throws {
        let www = try www(["cordova.js": [1], "plugins/a.js": [2], "plugins/b.js": [3], "plugins/c/d/e.js": [4]])
        var map = try map(["/cordova.js?1", "/Cordova_Plugins.js", "/plugins/a.js", "/plugins/B.js", "/plugins/c"])
        let assets = map.assets.count
        try map.addCordovaFiles(from: www)
        #expect(map.assets.count == assets)
        #expect(map.generated.isEmpty)
        #expect(
            Set(map.warnings) == [
                "cordova_plugins.js is not served: "
                    + "URL paths Cordova_Plugins.js and cordova_plugins.js differ only in case or normalization.",
                "plugins/b.js is not served: "
                    + "URL paths plugins/B.js and plugins/b.js differ only in case or normalization.",
                "plugins/c/d/e.js is not served: URL path plugins/c is a file and a folder.",
            ])
    }

    @Test func `omits plugins one by one if a file has the name of their folder`() throws {
        let www = try www(["plugins/a.js": [1], "plugins/b.js": [2], "plugins/c/d.js": [3], "plugins/c/e.js": [4]])
        var map = try map(["/plugins"])
        try map.addCordovaFiles(from: www)
        #expect(map.assets.map(\.urlPath.string) == ["plugins"])
        #expect(map.warnings.count == 4)
    }

    @Test func `adds Cordova files to the serving root`() throws {
        let www = try www(["cordova.js": [1], "plugins/a/a.js": [2]])
        let serving = try Directory.open(try folder.makeFolder("serving"))
        var map = try map(["/index.html"], files: ["index.html": []])
        try map.addCordovaFiles(from: www)
        let root = try BundleOrganizer(serving: serving).organize(map, as: "r")
        let files = try TreeSnapshot(of: root.path).files
        #expect(files.keys.sorted() == ["cordova.js", "cordova_plugins.js", "index.html", "plugins/a/a.js"])
        #expect(files["cordova.js"] == [1])
        #expect(files["plugins/a/a.js"] == [2])
        #expect(files["cordova_plugins.js"]?.starts(with: Array("// ".utf8)) == true)
        #expect(try root.directory.file("cordova_plugins.js").permissions() == 0o644)
    }
}
