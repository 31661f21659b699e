// fuzz: max_len=4096
//
// Reads JSON and manifests, writes statements, and resolves the URLs of manifests.
@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    checkScanner(input)
    guard let read = manifest(input) else { return }
    let statement = try read.claims.statement()
    require(statement.count { $0 == 0x0A } == 11, "a statement has eleven lines")
    checkDocument(of: read, statement)
    try checkAddresses(read.claims)
}

private func manifest(_ input: [UInt8]) -> UnverifiedManifest? {
    do throws(ManifestRefusal) { return try ManifestFormat.parse(input) } catch {
        require(error.failure.code == .manifestMalformed, "a refusal is manifestMalformed")
        return nil
    }
}

/// Checks that a document is read as it was written, and that `JSONReader` accepts it.
private func checkScanner(_ input: [UInt8]) {
    guard let value = try? JSONScanner.parse(input, maximumBytes: 4096) else { return }
    for layout in [JSONWriter.Layout.compact, .pretty] {
        let written = JSONWriter.bytes(of: value, layout: layout)
        let again = try? JSONScanner.parse(written, maximumBytes: 1 << 20)
        require(again == value, "a document is read as it was written")
    }
    var reader = require(
        try? JSONReader(input, maximumBytes: 4096), "JSONReader accepts a document that the scanner accepts")
    require((try? reader.skipValue()) != nil && (try? reader.finish()) != nil, "JSONReader skips the document")
}

private func checkDocument(of read: UnverifiedManifest, _ statement: [UInt8]) {
    let document = ManifestFormat.document(
        read.claims, signature: read.signatures[0].bytes, others: Array(read.signatures.dropFirst()))
    // With escapes, the written document may be longer than the read one, but less than sixteen times.
    let again = require(manifest(JSONWriter.bytes(of: document)), "a written manifest is read")
    require(again.claims == read.claims, "with the same claims")
    require(again.signatures == read.signatures, "with the same signatures")
    require((try? again.claims.statement()) == statement, "with the same statement")
}

private func checkAddresses(_ claims: Manifest) throws {
    for text in ["https://h.example/a/manifest.json", "http://h.example/", "file:///a/manifest.json"] {
        let base = try FetchURL(parsing: text)
        guard let url = try? ManifestRequest.archiveURL(of: claims, at: base) else { continue }
        require(base.isFile || base.mayLead(to: url), "a manifest does not refer to a less protected URL")
        require(
            url.display.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control },
            "the display of a URL contains no control characters")
        require((try? FetchURL(parsing: url.description)) == url, "a URL is read as it was written")
    }
}
