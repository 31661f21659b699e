/// What a run brought.
public struct DownloadedAssets: Sendable {
    /// The files that are in the tree now, in no order.
    public internal(set) var assets: [DownloadedAsset] = []
    /// The jobs, by index, of optional files that the server does not have.
    public internal(set) var missing: [Int] = []
    /// Body bytes taken from the network, those of failed attempts included.
    public internal(set) var bytesFromNetwork = 0
}

/// A file that is complete, accepted and in the tree.
public struct DownloadedAsset: Sendable, Equatable {
    /// The index of its job.
    public let job: Int
    /// Size, digest and what speaks for it.
    public let receipt: AssetReceipt
    /// Body bytes taken from the network, those of failed attempts included.
    public let bytesFromNetwork: Int
}

/// How far a run is.
public struct DownloadProgress: Sendable, Equatable {
    /// Body bytes taken from the network.
    public var bytes = 0
    /// Files placed in the tree.
    public var files = 0
}
