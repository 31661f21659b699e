import Glibc

/// Why an archive cannot be read, before any rule about its entries is asked.
package enum ArchiveFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// Not tar, not gzip or zstd around tar, not zip.
    case unsupportedFormat(String)
    /// Damaged, cut short, or nonsense where a header should be.
    case corrupt(String)
    /// More bytes behind the end of the compressed stream.
    case trailingData
    /// A zip that is not exactly one archive from its first byte to its last.
    case zipStructure(String)
    /// A zstd window larger than this reader allows; in bytes of log2.
    case windowTooLarge(maximumLog: Int)
    /// It unpacks to more than `maximum` times its size.
    case ratio(maximum: Int)
    /// Reading it takes longer than allowed.
    case tooSlow
    /// A file that a delta builds on is not what was installed.
    case damagedBase(String)
    /// The operating system failed, not the archive.
    case system(operation: String, code: Int32)

    /// The rule's name as it appears in answers; nil where no rule of the archive's is broken.
    package var rule: String? {
        switch self {
        case .unsupportedFormat: "unsupported-format"
        case .corrupt: "corrupt"
        case .trailingData: "trailing-data"
        case .zipStructure: "zip-structure"
        case .windowTooLarge: "window-too-large"
        case .ratio: "ratio"
        case .tooSlow: "too-slow"
        case .damagedBase: "damaged-base"
        case .system: nil
        }
    }

    /// One sentence for people.
    package var description: String {
        switch self {
        case .unsupportedFormat(let detail): "not an archive this tool reads (tar, tar.gz, tar.zst, zip): \(detail)"
        case .corrupt(let detail): "damaged archive: \(detail)"
        case .trailingData: "there are bytes behind the end of the archive"
        case .zipStructure(let detail): "malformed zip: \(detail)"
        case .windowTooLarge(let log): "the zstd window is larger than 2^\(log) bytes"
        case .ratio(let maximum): "it unpacks to more than \(maximum) times its size"
        case .tooSlow: "unpacking takes longer than allowed"
        case .damagedBase(let path): "the installed file \(path) is damaged"
        case .system(let operation, let code): "cannot \(operation) the archive: \(String(cString: strerror(code)))"
        }
    }
}
