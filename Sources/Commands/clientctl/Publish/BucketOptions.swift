import ArgumentParser
import BundleDisk
import BundleFetch
import BundlePublish
import BundleValues
import CLibrary

/// The flags for reading a feed in a bucket. Region, endpoint and keys come from the environment variables of AWS's tools.
struct BucketReading: ParsableArguments {
    @Option(help: .credentialCommand) var credentialCommand: String?

    /// Throws `ValidationError` if the flag is given for another feed than one in a bucket, where it has no effect.
    func requireBucket(_ place: any FeedLocation) throws {
        if case .bucket = place.address { return }
        guard CommandLineFlags.contain("credential-command") else { return }
        throw ValidationError("--credential-command is for buckets, and \(place.address) is not one: leave it out.")
    }

    func client(_ address: BucketAddress) throws -> ObjectClient {
        let keys = try keys()
        let configured = try Self.configuration()
        let region = Self.variable("AWS_REGION") ?? Self.variable("AWS_DEFAULT_REGION") ?? configured["region"]
        let (variable, endpoint) = Self.endpoint(configured["endpoint_url"])
        if endpoint == nil, region == nil {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_REGION",
                "The region of \(address) is not set: set AWS_REGION, or AWS_ENDPOINT_URL_S3 for a store that is not AWS, or write "
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
        var options = FetchOptions.command
        options.caFile = Self.variable("AWS_CA_BUNDLE")
        if let path = options.caFile {
            try EditedText.requirePlain(File.open(reading: path).readAll(maximumBytes: 16 << 20), in: path)
        }
        do {
            let bucket = try FetchURL(parsing: "\(base)/\(address.bucket)")
            try Self.requireCover(for: keys, to: bucket, variable)
            return ObjectClient(bucket: bucket, region: place, keys: keys, options: options)
        } catch let failure as UpdateFailure {
            throw failure
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: variable,
                "\(variable) is \(UntrustedName.display(base)), which is not a URL: begin it with http:// or https://. "
                    + "\(error)")
        }
    }

    /// Throws `configInvalid` if a session token would go to another machine without TLS. Requests contain the token itself, but not the
    /// keys.
    private static func requireCover(for keys: AccessKeys, to bucket: FetchURL, _ variable: String) throws {
        guard keys.hasSessionToken, bucket.scheme == .http, !ThisMachine.isNamed(by: bucket.origin.host) else { return }
        throw UpdateFailure(
            .configInvalid, subject: variable,
            "\(variable) is an http address, so an attacker on the network could read the session token (AWS_SESSION_TOKEN). Use https, or "
                + "keys without a session token.")
    }

    /// Returns the endpoint, which is `configured` if no variable is set, and the name of the setting that it comes from.
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
        // The file names the machine that receives the requests, so other users must not be able to write it.
        try OwnFile.require(file, with: "settings")
        let bytes = try EditedText.bytes(of: file.readAll(maximumBytes: 1 << 20), in: path)
        let text = String(decoding: bytes, as: UTF8.self)
        return BucketCredentials.configuration(of: variable("AWS_PROFILE") ?? "default", in: text)
    }

    /// The path of the configuration file of AWS's tools, whether it exists or not.
    static var configurationFile: String? {
        variable("AWS_CONFIG_FILE") ?? variable("HOME").map { "\($0)/.aws/config" }
    }

    private func keys() throws -> AccessKeys {
        if let line = credentialCommand { return try BucketCredentials.command(line) }
        if let id = Self.variable("AWS_ACCESS_KEY_ID"), Self.variable("AWS_PROFILE") == nil {
            return try BucketCredentials.keys(
                of: "The environment", id: id, secret: Self.variable("AWS_SECRET_ACCESS_KEY"),
                token: Self.variable("AWS_SESSION_TOKEN"))
        }
        let named = Self.variable("AWS_SHARED_CREDENTIALS_FILE")
        let (path, chosen) = (Self.sharedFile, Self.variable("AWS_PROFILE"))
        let profile = chosen ?? "default"
        let configured = try BucketCredentials.configured(
            Self.configuration(), profile: profile, of: Self.configurationFile ?? "~/.aws/config")
        if let path, named != nil || File.exists(path) {
            // As for AWS's tools, keys of the credentials file precede the configuration file.
            if let keys = try BucketCredentials.file(at: path, profile: profile, isRequired: configured == nil) {
                return keys
            }
        }
        if let configured { return try configured.keys() }
        if let chosen {
            throw UpdateFailure(
                .configInvalid, subject: "AWS_PROFILE",
                "AWS_PROFILE names the profile \(UntrustedName.display(chosen)), but the credentials file "
                    + "\(path ?? "~/.aws/credentials") does not exist, and \(Self.configurationFile ?? "~/.aws/config") has no keys of that "
                    + "profile. Write one of them, or set AWS_SHARED_CREDENTIALS_FILE.")
        }
        throw UpdateFailure(
            .configInvalid, subject: "AWS_ACCESS_KEY_ID",
            "No keys are set for the bucket. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a shared credentials file, or give "
                + "--credential-command.")
    }

    /// Whether the keys come from the program that the configuration file of AWS's tools names.
    static var startsProgram: Bool { (try? configuration())?["credential_process"] != nil }

    /// The path of the credentials file of AWS's tools, whether it exists or not.
    static var sharedFile: String? {
        variable("AWS_SHARED_CREDENTIALS_FILE") ?? variable("HOME").map { "\($0)/.aws/credentials" }
    }

    /// Returns the value of a variable; nil if it is empty.
    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}

/// The flags for changing a feed in a bucket.
struct BucketOptions: ParsableArguments {
    @Option(help: .credentialCommand) var credentialCommand: String?

    @Flag(help: "Write to a bucket whose store has no conditional writes. No other process may write to it.")
    var singleWriter = false

    @Option(
        help: ArgumentHelp(
            "How long caches keep the changing files of a bucket, such as channel files. (default: 30s)",
            valueName: "duration"))
    var documentMaxAge: String?

    var reading: BucketReading {
        var reading = BucketReading()
        reading.credentialCommand = credentialCommand
        return reading
    }

    func terms() throws -> BucketTerms {
        var terms = BucketTerms()
        terms.isSingleWriter = singleWriter
        if let age = try PublishTime.duration(documentMaxAge, of: "document-max-age") {
            terms.documentMaxAge = age
        }
        return terms
    }

    /// Throws `ValidationError` if flags of a bucket are given for another feed, where they have no effect. The environment and the
    /// configuration file can set them for several feeds.
    func requireBucket(_ place: any FeedLocation) throws {
        if case .bucket = place.address { return }
        try reading.requireBucket(place)
        if let flag = ["single-writer", "document-max-age"].first(where: CommandLineFlags.contain) {
            throw ValidationError("--\(flag) is for buckets, and \(place.address) is not one: leave it out.")
        }
    }
}
