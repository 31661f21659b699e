import ArchiveSource
import BundleFormats
import ArgumentParser
import BundleDisk
import BundleFleet
import BundleValues

/// The flags of a host that answers the updater plugins of phones.
struct PhoneHostOptions: ParsableArguments {
    @Flag(
        help:
            "Answer the updater plugins of phones at /phones/updates/CHANNEL, /phones/stats and /phones/capawesome/CHANNEL."
    )
    var phones = false

    @Option(
        help: ArgumentHelp(
            "(required with --phones) The key, folder of keys or trust root with which answers to phones are verified.",
            valueName: "path"), completion: .file())
    var trust: String?

    @Option(
        help: ArgumentHelp(
            "(required with --phones) The address of this feed for phones, such as https://updates.example.com/.",
            valueName: "url"))
    var publicUrl: String?

    @Flag(help: "Read the groups of a phone from its custom ID, which the app sets. Anyone can claim a group.")
    var phoneGroups = false

    /// Returns the service for phones; nil without `--phones`.
    func desk(_ feed: Directory?, reports: ReportCounter?, needsToken: Bool) throws -> PhoneDesk? {
        guard phones else {
            let given = [("trust", trust != nil), ("public-url", publicUrl != nil), ("phone-groups", phoneGroups)]
            if let flag = given.first(where: { $0.1 })?.0, CommandLineFlags.contain(flag) {
                throw ValidationError("--\(flag) needs --phones: give it, or leave --\(flag) out.")
            }
            return nil
        }
        guard let feed else {
            throw ValidationError(
                "--phones needs the folder of a feed. Give it to the host of the feed, not to a relay.")
        }
        if needsToken {
            throw ValidationError(
                "Plugins of phones send no tokens: leave out --token-file, or run another host for phones.")
        }
        let anchor = try TrustAnchor.read(at: FlagValue.required(trust, of: "trust"))
        let url = try FlagValue.url(FlagValue.required(publicUrl, of: "public-url"), of: "public-url")
        let text = url.description
        if url.isFile || text.contains("?") || text.contains("#") {
            throw ValidationError("--public-url takes an http or https address without a query.")
        }
        if text.hasPrefix("http://") {
            Output.warn(
                "phones download over http, and most refuse it. Put a proxy with TLS in front, and give its address.")
        }
        return PhoneDesk(
            feed,
            PhoneDesk.Terms(trust: anchor, publicURL: text.hasSuffix("/") ? text : text + "/", usesGroups: phoneGroups),
            reports: reports, log: { Output.say($0) })
    }
}
