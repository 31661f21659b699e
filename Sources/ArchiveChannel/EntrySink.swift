import BundleCore

/// Takes the files of an archive in order: the unpacker writes them, verification only reads on.
protocol EntrySink {
    /// A folder; its parents came before or are implied.
    mutating func addDirectory(_ path: BundlePath) throws
    /// A file of `size` bytes starts.
    mutating func beginFile(_ path: BundlePath, size: Int) throws
    /// Its next bytes, valid during the call.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws
    /// It is complete.
    mutating func endFile() throws
    /// The archive is refused: nothing more comes.
    func abandon()
}
