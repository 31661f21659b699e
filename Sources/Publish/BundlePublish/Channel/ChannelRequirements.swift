import BundleFormats
package import BundleValues

extension ChannelDocument {
    package func index(of version: SemanticVersion) throws -> Int {
        if let index = releases.firstIndex(where: { $0.version == version }) { return index }
        let known = releases.isEmpty ? "none" : releases.map(\.version.description).joined(separator: ", ")
        throw UpdateFailure(
            .configInvalid, subject: version.description,
            "Channel \(channel) has no release \(version), but it has \(known). Choose one of these, or publish or promote it first."
        )
    }

    /// Throws if devices may not run `version`.
    func requireAllowed(_ version: SemanticVersion) throws {
        if let recall = recalled.first(where: { $0.version == version }) {
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is recalled in channel \(channel)"
                    + (recall.reason.isEmpty ? "" : " (\(UntrustedName.display(recall.reason)))")
                    + ": publish a higher one, or undo the recall with `clientctl release recall --version \(version) --undo`."
            )
        }
        if let floor = minimumVersion, version < floor {
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Channel \(channel) requires at least \(floor), so \(version) is refused. Publish a higher version.")
        }
    }

    func requireSameApp(_ appId: String?, of version: SemanticVersion) throws {
        if appId.map({ Array($0.utf8) }) == self.appId.map({ Array($0.utf8) }) { return }
        let advice =
            switch (appId, self.appId) {
            case (nil, let own?): "Give --app-id \(own)."
            case (_, nil):
                "Publish without --app-id here, or in a new feed with it: the application of a channel never changes."
            default: "Check --app-id and --feed: each application has its own feed."
            }
        throw UpdateFailure(
            .appMismatch, subject: appId ?? "",
            "Version \(version) names \(appId.map { "the application \($0)" } ?? "no application"), and channel \(channel) "
                + "\(self.appId.map { "is for \($0)" } ?? "names none"). \(advice)")
    }
}
