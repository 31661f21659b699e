import CLibrary

/// The reason why an archive cannot be read, before any rule about its entries applies.
package enum ArchiveFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file is not a tar (plain, gzip or zstd) or a zip.
    case unsupportedFormat(String)
    /// The archive is damaged or truncated.
    case corrupt(String)
    /// Bytes follow the compressed stream.
    case trailingData
    /// The zip is not exactly one archive from its first to its last byte.
    case zipStructure(String)
    /// The zstd window is larger than 2^`maximumLog` bytes.
    case windowTooLarge(maximumLog: Int)
    /// The archive unpacks to more than `maximum` times its size.
    case ratio(maximum: Int)
    /// Unpacking takes longer than allowed.
    case tooSlow
    /// A file that a delta builds on differs from the installed one.
    case damagedBase(String)
    /// The operating system failed, so the archive is not at fault.
    case system(operation: String, code: Int32)

    /// The identifier of the broken rule in output; nil for failures that are not the archive's fault.
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

    package var description: String {
        switch self {
        case .unsupportedFormat(let detail): "not a supported archive (tar, tar.gz, tar.zst, zip): \(detail)"
        case .corrupt(let detail): "damaged archive: \(detail)"
        case .trailingData: "bytes follow the end of the archive"
        case .zipStructure(let detail): "malformed zip: \(detail)"
        case .windowTooLarge(let log): "the zstd window is larger than 2^\(log) bytes"
        case .ratio(let maximum): "it unpacks to more than \(maximum) times its size"
        case .tooSlow: "unpacking takes longer than allowed"
        case .damagedBase(let path): "the installed file \(path) is damaged"
        case .system(let operation, let code): "cannot \(operation) the archive: \(String(cString: strerror(code)))"
        }
    }
}
