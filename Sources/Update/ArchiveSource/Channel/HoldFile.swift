import BundleValues

/// What a feed answers where a guard may have put a hold.
enum HoldFile: Sendable {
    case none
    /// Nobody has vouched for it.
    case found([UInt8])
    /// It could not be had.
    case unknown(UpdateFailure)

    /// The hold of the channel `name` whose document is at `url`. Servers answer with many a status for what is not there; those of a
    /// token that is missing and of a server that is overloaded say nothing of the file.
    static func fetch(
        of name: String, beside url: FetchURL, with fetcher: any Fetcher
    ) async throws -> HoldFile {
        do {
            let address = try url.resolve(relative: ChannelFileName.holdFile(of: name))
            return .found(try await fetcher.fetchBytes(address, maximumBytes: HoldFormat.maximumBytes))
        } catch FetchError.fileMissing {
            return .none
        } catch FetchError.httpStatus(let status, _, _)
            where (400...499).contains(status) && ![401, 408, 429].contains(status)
        {
            return .none
        } catch FetchError.tooLarge {
            // Nobody's hold; it keeps nobody from anything.
            return .found([])
        } catch let error as FetchError {
            let failure = UpdateFailure(error)
            return .unknown(
                UpdateFailure(
                    failure.code, subject: failure.subject,
                    "Whether a guard holds releases of channel \(name) is not known, so none is installed. \(failure.message)"
                ))
        }
    }
}
