import BundleFormats
import BundleValues

/// The response of a feed to the request for a hold.
enum HoldFile: Sendable {
    case none
    /// The unverified bytes of a hold.
    case found([UInt8])
    /// The server did not send a usable response.
    case unknown(UpdateFailure)

    /// Returns the hold of the channel `name`, whose document is at `url`.
    static func fetch(
        of name: String, beside url: FetchURL, with fetcher: any Fetcher
    ) async throws -> HoldFile {
        do {
            let address = try url.file(ChannelFileName.holdFile(of: name))
            return .found(try await fetcher.fetchBytes(address, maximumBytes: HoldFormat.maximumBytes))
        } catch let error as FetchError where error.isAbsenceOfHold {
            return .none
        } catch FetchError.tooLarge {
            // No guard signs such a file, so devices ignore it.
            return .found([])
        } catch let error as FetchError {
            let failure = UpdateFailure(error)
            return .unknown(
                UpdateFailure(
                    failure.code, subject: failure.subject,
                    "It is unknown whether a guard holds releases of channel \(name), so none is installed. \(failure.message)"
                ))
        }
    }
}
