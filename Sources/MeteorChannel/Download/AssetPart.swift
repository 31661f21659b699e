import BundleCore
import BundleDisk

/// The beginning of a file, in the folder of parts.
struct AssetPart: Sendable {
    let name: String
    let file: File
    /// Nil where the server gave none: the part cannot be gone on with later.
    let validator: String?

    /// How to go on behind it.
    func resume() throws -> FetchRequest.Resume? {
        let size = try file.size()
        return validator.flatMap { FetchRequest.Resume(offset: size, validator: $0) }
    }
}
