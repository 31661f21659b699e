import BundleTesting
import Glibc

/// The folder for screenshots of pages: `SWAP_CLIENTS_SCREENSHOTS`, or a temporary folder whose path is printed.
enum ScreenshotFolder {
    static let path: String = {
        if let path = getenv("SWAP_CLIENTS_SCREENSHOTS").map({ String(cString: $0) }), !path.isEmpty {
            mkdir(path, 0o755)
            return path
        }
        var template = Array("/tmp/serve-screenshots.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return "/tmp" }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()

    /// Stores a screenshot of the page and returns its bytes.
    static func keep(_ page: BrowserPage, as name: String) throws -> [UInt8] {
        let picture = try page.screenshot()
        let file = "\(path)/\(name).png"
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw Unwritable(path: file) }
        defer { close(descriptor) }
        guard write(descriptor, picture, picture.count) == picture.count else { throw Unwritable(path: file) }
        print("serve: screenshot \(file)")
        return picture
    }

    struct Unwritable: Error { let path: String }
}
