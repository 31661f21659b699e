import BundleValues
package import BundleDisk

/// The disk's side of a run: where files grow, where they go, and what is recorded of them for a later run. Jobs are known by index.
///
/// The run's writing thread calls everything but `hasEarlierPart` and `received`.
package protocol DownloadPlaces: AnyObject, Sendable {
    /// Whether `earlierPart` may find something. Called by any thread.
    func hasEarlierPart(of job: Int) throws -> Bool
    /// The beginning of the file that an earlier run has left; nil where there is none.
    func earlierPart(of job: Int) throws -> PartFile?
    /// Begins the file, and records it where it can be gone on with.
    func beginPart(of job: Int, validator: String?) throws -> PartFile
    /// Gives a file that is complete and accepted its place.
    func place(_ part: PartFile, of job: Int, _ receipt: DownloadReceipt) throws
    /// Removes a part that is no good.
    func remove(_ part: PartFile) throws
    /// Throws where less room is left than the device needs. Called before each file and every few megabytes.
    func requireRoom() throws
    /// `count` more body bytes are here of a file, of which `reached` bytes are here by now; 0 with the head. Called by the network's thread.
    func received(_ count: Int, reached: Int)
}

/// The beginning of a file, on the disk.
package struct PartFile: Sendable {
    /// Its name in the folder that it lies in.
    package let name: String
    /// Open, at its end.
    package let file: File
    /// Nil where the server gave none: the part cannot be gone on with later.
    package let validator: String?

    /// States where a part is.
    package init(name: String, file: File, validator: String?) {
        self.name = name
        self.file = file
        self.validator = validator
    }

    /// Takes up what an earlier run has left at `name`.
    package init(resuming name: String, in folder: Directory, validator: String?) throws(DiskError) {
        let file = try folder.file(appending: name)
        try file.truncate(to: try file.size())
        self.init(name: name, file: file, validator: validator)
    }

    /// How to go on behind it.
    func resume() throws(DiskError) -> FetchRequest.Resume? {
        let size = try file.size()
        return validator.flatMap { FetchRequest.Resume(offset: size, validator: $0) }
    }
}
