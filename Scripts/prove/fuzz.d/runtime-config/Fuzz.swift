// fuzz: max_len=4096
//
// Reads the configuration of a Meteor page, with the input as the page and as the configuration in a page.
@testable import BundleCore
@testable import BundleValues
@testable import MeteorSource

func fuzz(_ input: [UInt8]) throws {
    for architecture in ["web.cordova", "web.browser"] {
        check(try config(in: input, architecture))
        check(try config(in: page(of: input), architecture))
    }
    try checkAgainstScanner(input)
}

private func page(of config: [UInt8]) -> [UInt8] {
    let start = "<script>__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\""
    return Array((start + PercentEncoding.encode(path: config) + "\"))</script>").utf8)
}

private func config(in page: [UInt8], _ architecture: String = "web.cordova") throws -> RuntimeConfig? {
    do throws(PageRefusal) { return try RuntimeConfig.read(page: page, architecture: architecture) } catch {
        require(error.failure.code == .unsuitableBundle, "a page without configuration is unsuitable")
        return nil
    }
}

private func check(_ config: RuntimeConfig?) {
    guard let config else { return }
    require(config.appId != "", "the application has an id")
    guard let root = config.parsedRootURL else { return }
    require(!root.isFile, "a server is not a file")
    require((try? FetchURL(parsing: root.description)) == root, "a URL is read as it was written")
    guard let urls = try? MeteorURLs(rootURL: root) else { return }
    require(urls.manifest.origin == root.origin, "the manifest has the origin of the server")
}

/// Checks that an object which the strict reader accepts is read with the same values.
private func checkAgainstScanner(_ input: [UInt8]) throws {
    guard let value = try? JSONScanner.parse(input, maximumBytes: 4096), let object = value.objectValue else { return }
    let read = require(try config(in: page(of: input)), "an object of the strict reader is a configuration")
    require(same(read.rootURL, object["ROOT_URL"]), "ROOT_URL")
    require(same(read.ddpURL, object["DDP_DEFAULT_CONNECTION_URL"]), "DDP_DEFAULT_CONNECTION_URL")
    require(object["appId"]?.stringValue == "" || same(read.appId, object["appId"]), "appId")
    let versions = object["autoupdate"]?.objectValue?["versions"]?.objectValue
    let version = versions?["web.cordova"]?.objectValue?["version"]
    require(
        same(read.pageVersion, version?.stringValue == nil ? object["autoupdateVersionCordova"] : version),
        "the version is the same")
}

private func same(_ text: String?, _ value: JSONValue?) -> Bool {
    switch (text, value?.stringValue) {
    case (let left?, let right?): left.utf8.elementsEqual(right.utf8)
    case (nil, nil): true
    default: false
    }
}
