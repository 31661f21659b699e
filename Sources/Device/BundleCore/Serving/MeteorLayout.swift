package import BundleValues
package import BundleDisk

/// The layout of Meteor bundles on the disk, in which an asset manifest maps URL paths to files. In an archive, the
/// path of a file is its URL path.
package protocol MeteorLayout: Sendable {
    /// Returns the facts of the bundle in `folder`; nil if it has no asset manifest. Throws if the manifest cannot be
    /// read.
    func facts(of folder: Directory) throws -> MeteorFacts?

    /// Returns the assets of the bundle in `folder`. Files of `owned` are its own; the others belong to the seed. A
    /// nil `owned` means that all files are its own, as for a seed.
    func assets(of folder: Directory, owned: Set<BundlePath>?, inheriting seed: Directory?) throws -> AssetMap

    /// Returns the labels from the asset manifest of the bundle in `folder`.
    func labels(of folder: Directory) throws -> AssetLabels
}
