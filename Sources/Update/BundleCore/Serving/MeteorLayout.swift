package import BundleValues
package import BundleDisk

/// How Meteor bundles lie on the disk: an asset manifest says which file answers for which URL path. Archives need no such
/// thing; there, a file's path is its URL path.
package protocol MeteorLayout: Sendable {
    /// What `folder` says about itself; nil where it has no asset manifest. Throws where it has one that cannot be read.
    func facts(of folder: Directory) throws -> MeteorFacts?

    /// Which file answers for which URL path of the bundle in `folder`: those of `owned` are its own, all others the seed's.
    /// A seed owns everything, which a nil `owned` says.
    func assets(of folder: Directory, owned: Set<BundlePath>?, inheriting seed: Directory?) throws -> AssetMap

    /// What the asset manifest of the bundle in `folder` says to those who serve it.
    func labels(of folder: Directory) throws -> AssetLabels
}
