/// The content types of Meteor's server: by the type of the entry, otherwise by the file extension.
enum ServedTypes {
    static func of(_ path: String, entryType: String?) -> String {
        switch entryType {
        case "js", "dynamic js": return "application/javascript; charset=UTF-8"
        case "css": return "text/css; charset=UTF-8"
        case "json": return "application/json; charset=UTF-8"
        default: break
        }
        let name = path.split(separator: "/").last ?? ""
        guard let dot = name.lastIndex(of: ".") else { return "application/octet-stream" }
        return table[name[name.index(after: dot)...].lowercased()] ?? "application/octet-stream"
    }

    private static let table = [
        "js": "application/javascript; charset=UTF-8", "mjs": "application/javascript; charset=UTF-8",
        "css": "text/css; charset=UTF-8", "html": "text/html; charset=UTF-8", "htm": "text/html; charset=UTF-8",
        "json": "application/json; charset=UTF-8", "map": "application/json; charset=UTF-8",
        "txt": "text/plain; charset=UTF-8", "md": "text/markdown; charset=UTF-8", "xml": "application/xml",
        "svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
        "webp": "image/webp", "ico": "image/x-icon", "woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf",
        "otf": "font/otf", "eot": "application/vnd.ms-fontobject", "mp4": "video/mp4", "webm": "video/webm",
        "mp3": "audio/mpeg", "ogg": "audio/ogg", "wav": "audio/x-wav", "pdf": "application/pdf",
        "wasm": "application/wasm", "zip": "application/zip", "webmanifest": "application/manifest+json",
    ]
}
