/// The media types of files, from a fixed table of extensions. The content of a file never changes its type.
package enum MediaType {
    /// The type of files with another extension.
    static let unknown = "application/octet-stream"
    package static let html = "text/html; charset=utf-8"
    package static let json = "application/json; charset=utf-8"
    static let text = "text/plain; charset=utf-8"
    static let events = "text/event-stream"
    package static let metrics = "text/plain; version=0.0.4; charset=utf-8"

    /// Returns the type of the file at `path`.
    package static func of(_ path: [UInt8]) -> String {
        let name = RequestPath(path).lastComponent
        guard let dot = name.lastIndex(of: UInt8(ascii: ".")) else { return unknown }
        let tail = String(decoding: name[(dot + 1)...], as: UTF8.self).lowercased()
        return table[tail] ?? unknown
    }

    /// Returns whether a browser runs scripts in a file of this type when a user opens it.
    static func isPage(_ type: String) -> Bool { isHTML(type) || type == xhtml }

    /// Returns whether scripts can be inserted into a page of this type.
    static func isHTML(_ type: String) -> Bool { type.hasPrefix("text/html") }

    /// Returns the type of an HTML page with its declared character set, or UTF-8.
    static func html(in charset: String?) -> String { charset.map { "text/html; charset=\($0)" } ?? html }

    private static let xhtml = "application/xhtml+xml; charset=utf-8"
    private static let script = "text/javascript; charset=utf-8"
    private static let xml = "application/xml; charset=utf-8"

    private static let table: [String: String] = [
        "html": html, "htm": html, "xhtml": xhtml,
        "js": script, "mjs": script, "cjs": script,
        // A style sheet may declare its character set with `@charset`; without one it uses that of its page.
        "css": "text/css",
        "json": json, "map": json, "jsonld": "application/ld+json; charset=utf-8",
        "geojson": "application/geo+json; charset=utf-8",
        "webmanifest": "application/manifest+json; charset=utf-8",
        "txt": text, "log": text, "license": text, "md": "text/markdown; charset=utf-8",
        "csv": "text/csv; charset=utf-8", "tsv": "text/tab-separated-values; charset=utf-8",
        "vtt": "text/vtt; charset=utf-8", "ics": "text/calendar; charset=utf-8",
        "yaml": "application/yaml; charset=utf-8", "yml": "application/yaml; charset=utf-8",
        "xml": xml, "xsl": xml, "rss": "application/rss+xml; charset=utf-8",
        "atom": "application/atom+xml; charset=utf-8",
        "wasm": "application/wasm", "pdf": "application/pdf", "zip": "application/zip",
        "gz": "application/gzip", "tar": "application/x-tar",
        "svg": "image/svg+xml; charset=utf-8", "png": "image/png", "apng": "image/apng", "jpg": "image/jpeg",
        "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "avif": "image/avif", "bmp": "image/bmp",
        "ico": "image/x-icon", "tif": "image/tiff", "tiff": "image/tiff",
        "woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
        "eot": "application/vnd.ms-fontobject",
        "mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "ogv": "video/ogg", "mov": "video/quicktime",
        "mp3": "audio/mpeg", "m4a": "audio/mp4", "aac": "audio/aac", "flac": "audio/flac", "ogg": "audio/ogg",
        "oga": "audio/ogg", "opus": "audio/ogg", "wav": "audio/wav", "weba": "audio/webm",
        "glb": "model/gltf-binary", "gltf": "model/gltf+json; charset=utf-8",
    ]
}
