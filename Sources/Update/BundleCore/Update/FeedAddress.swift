public import BundleValues

/// Where a device looks for signed archives.
public enum FeedAddress: Sendable, Equatable {
    /// A flat manifest: one release, believed for as long as its keys are.
    case manifest(FetchURL)
    /// A channel document: releases with their rollouts and recalls, believed until it expires.
    case channel(FetchURL)

    /// Its address.
    public var url: FetchURL {
        switch self {
        case .manifest(let url), .channel(let url): url
        }
    }
}
