package import BundleValues

/// What a feed answers where a guard may have put a hold.
enum HoldFile: Sendable {
    case none
    /// Its bytes, unverified.
    case found([UInt8])
    /// The server gave no usable response.
    case unknown(UpdateFailure)

    /// Returns the hold of the channel `name`, whose document is at `url`.
    static func fetch(
        of name: String, beside url: FetchURL, with fetcher: any Fetcher
    ) async throws -> HoldFile {
        do {
            let address = try url.resolve(relative: ChannelFileName.holdFile(of: name))
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
                    "Whether a guard holds releases of channel \(name) is not known, so none is installed. \(failure.message)"
                ))
        }
    }
}

extension FetchError {
    /// Whether a device takes this for the absence of a hold: the responses of servers for a missing file differ, but those about a token
    /// or an overload do not mean that it is missing.
    package var isAbsenceOfHold: Bool {
        switch self {
        case .fileMissing: true
        case .httpStatus(let status, _, _): (400...499).contains(status) && ![401, 408, 429].contains(status)
        default: false
        }
    }
}
