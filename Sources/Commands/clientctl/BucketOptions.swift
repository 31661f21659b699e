import ArgumentParser
import BundleDisk
import BundleFetch
import BundlePublish
import BundleValues
import Glibc

/// How to read a feed in a bucket; the rest is in the environment, where other tools for object stores look for it, too.
struct BucketReading: ParsableArguments {
    @Option(help: .credentialCommand) var credentialCommand: String?

    func line(_ settings: Settings) throws -> String? { try settings.optional("credential-command", credentialCommand) }

    /// Refuses the flag for a feed in a folder, where it would have no effect.
    func requireBucket(_ place: any FeedLocation) throws {
        guard place.folder != nil, credentialCommand != nil else { return }
        throw ValidationError("--credential-command is for buckets, and \(place.address) is a folder: leave it out.")
    }

    /// A client of the bucket of `address`.
    func client(_ address: BucketAddress, _ settings: Settings) throws -> ObjectClient {
        let keys = try keys(settings)
        let configured = try Self.configuration()
        let region = Self.variable("AWS_REGION") ?? Self.variable("AWS_DEFAULT_REGION") ?? configured["region"]
        let (variable, endpoint) = Self.endpoint(configured["endpoint_url"])
        if endpoint == nil, region == nil {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_REGION",
                "It is not known where \(address) is: set AWS_REGION, or AWS_ENDPOINT_URL_S3 for a store of another make, or write "
                    + "region or endpoint_url into \(Self.configurationFile ?? "~/.aws/config").")
        }
        let place = region ?? "us-east-1"
        guard place.utf8.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }) else {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_REGION",
                "AWS_REGION, or region in the configuration file, is not the name of a region: \(UntrustedName.display(place))."
            )
        }
        var base = endpoint ?? "https://s3.\(place).amazonaws.com"
        while base.hasSuffix("/") { base.removeLast() }
        var options = FetchOptions(userAgent: Product.userAgent)
        options.caFile = Self.variable("AWS_CA_BUNDLE")
        do {
            let bucket = try FetchURL(parsing: "\(base)/\(address.bucket)")
            try Self.requireCover(for: keys, to: bucket, variable)
            return ObjectClient(bucket: bucket, region: place, keys: keys, options: options)
        } catch let failure as UpdateFailure {
            throw failure
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: variable,
                "\(variable) is \(UntrustedName.display(base)), which is not an address: write it with http:// or https:// in front. "
                    + "\(error)")
        }
    }

    /// Throws `configInvalid` if a session token would go to another machine without TLS: unlike the keys, it is sent as it is.
    private static func requireCover(for keys: AccessKeys, to bucket: FetchURL, _ variable: String) throws {
        guard keys.hasSessionToken, bucket.scheme == .http, !ThisMachine.isNamed(by: bucket.origin.host) else { return }
        throw UpdateFailure(
            .configInvalid, subject: variable,
            "\(variable) is an http address, so anyone on the way could read the session token (AWS_SESSION_TOKEN). Use https, or "
                + "keys without a session token.")
    }

    /// Returns the address of a store of another make, `configured` if no variable names one, and the setting that names it.
    private static func endpoint(_ configured: String?) -> (setting: String, address: String?) {
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
            if let address = variable(name) { return (name, address) }
        }
        return (configured == nil ? "AWS_ENDPOINT_URL" : "endpoint_url", configured.flatMap { $0.isEmpty ? nil : $0 })
    }

    /// Returns the settings of the profile in the configuration file of AWS's tools; an empty dictionary if there is no such file.
    private static func configuration() throws -> [String: String] {
        guard let path = configurationFile, File.exists(path) else { return [:] }
        let file = try File.open(reading: path)
        // It names the machine that gets the requests.
        try OwnFile.require(file, with: "settings")
        let text = String(decoding: try file.readAll(maximumBytes: 1 << 20), as: UTF8.self)
        return BucketCredentials.configuration(of: variable("AWS_PROFILE") ?? "default", in: text)
    }

    /// The path of the configuration file of AWS's tools, whether it exists or not.
    static var configurationFile: String? {
        variable("AWS_CONFIG_FILE") ?? variable("HOME").map { "\($0)/.aws/config" }
    }

    private func keys(_ settings: Settings) throws -> AccessKeys {
        if let line = try line(settings) { return try BucketCredentials.command(line) }
        if let id = Self.variable("AWS_ACCESS_KEY_ID"), Self.variable("AWS_PROFILE") == nil {
            return try BucketCredentials.keys(
                of: "The environment", id, Self.variable("AWS_SECRET_ACCESS_KEY"), Self.variable("AWS_SESSION_TOKEN"))
        }
        let named = Self.variable("AWS_SHARED_CREDENTIALS_FILE")
        let path = Self.sharedFile
        if let profile = Self.variable("AWS_PROFILE"), path.map(File.exists) != true {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_PROFILE",
                "AWS_PROFILE names the profile \(UntrustedName.display(profile)), and there is no credentials file "
                    + "\(path ?? "~/.aws/credentials") to have it: write the file, or set AWS_SHARED_CREDENTIALS_FILE.")
        }
        guard let path, named != nil || File.exists(path) else {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_ACCESS_KEY_ID",
                "No keys for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a shared credentials file, or give "
                    + "--credential-command.")
        }
        return try BucketCredentials.file(at: path, profile: Self.variable("AWS_PROFILE") ?? "default")
    }

    /// Where AWS's tools have keys in a file, whether it is there or not.
    static var sharedFile: String? {
        variable("AWS_SHARED_CREDENTIALS_FILE") ?? variable("HOME").map { "\($0)/.aws/credentials" }
    }

    /// A variable that is empty is none.
    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}

/// How to change a feed in a bucket.
struct BucketOptions: ParsableArguments {
    @Option(help: .credentialCommand) var credentialCommand: String?

    @Flag(help: "Write to a bucket whose store has no conditional writes: nobody else ever writes there.")
    var withoutCompareAndSwap = false

    @Option(
        help: ArgumentHelp(
            "How long caches keep a bucket's documents, such as channels; 30s by default.", valueName: "duration"))
    var documentMaxAge: String?

    /// The flags that say how to read.
    var reading: BucketReading {
        var reading = BucketReading()
        reading.credentialCommand = credentialCommand
        return reading
    }

    func terms(_ settings: Settings) throws -> BucketTerms {
        var terms = BucketTerms()
        terms.isSingleWriter = try settings.isOn("without-compare-and-swap", withoutCompareAndSwap)
        if let age = try PublishTime.duration("document-max-age", documentMaxAge, settings) {
            terms.documentMaxAge = age
        }
        return terms
    }

    /// Refuses flags of a bucket for a feed in a folder, where they would have no effect. The environment and the configuration file
    /// may set them for several feeds.
    func requireBucket(_ place: any FeedLocation) throws {
        guard place.folder != nil else { return }
        try reading.requireBucket(place)
        if withoutCompareAndSwap || documentMaxAge != nil {
            throw ValidationError(
                "--\(withoutCompareAndSwap ? "without-compare-and-swap" : "document-max-age") is for buckets, and \(place.address) is a "
                    + "folder: leave it out.")
        }
    }

    /// Whether keys come from a command.
    func startsPrograms(_ settings: Settings) throws -> Bool { try reading.line(settings) != nil }
}
