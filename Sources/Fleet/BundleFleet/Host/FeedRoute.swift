import BundleServe
import BundleValues

/// The target of a request to a feed server, by its method and path alone.
enum FeedRoute: Equatable {
    case file(FeedFile)
    /// Whether the server responds.
    case health
    /// Notifications of changes.
    case push
    /// A report of a device.
    case report
    /// The totals of the reports and of the roster.
    case metrics
    /// A message of a device to the roster, or a picture of its screen.
    case post(isPicture: Bool)
    /// The roster as JSON, and as a page.
    case roster, rosterPage
    /// The page of a device.
    case rosterDevice(String)
    /// A picture of a device's screen.
    case rosterPicture(String, PicturePost.Kind)
    /// The removal of a device from the roster.
    case forget
    /// A request of a phone.
    case phone(PhoneRoute)
    case refused(Status, allow: String?)

    private static let healthPath = Array("healthz".utf8)
    private static let pushPath = Array("push".utf8)
    private static let reportPath = Array("report".utf8)
    private static let metricsPath = Array("metrics".utf8)
    private static let rosterPath = Array("roster".utf8)
    private static let rosterDocument = Array("roster.json".utf8)
    private static let rosterDevices = Array("roster/".utf8)
    private static let picturePath = Array("roster/picture".utf8)

    /// The services of a server besides its files.
    struct Services: Equatable {
        var reports = false
        /// Whether devices may send messages to a roster.
        var roster = false
        /// Whether operators may read the roster.
        var reader = false
        var phones = false
    }

    init(_ method: RequestHead.Method, _ path: RequestPath, _ services: Services) {
        let isPush = path.bytes == Self.pushPath
        let reads = method == .get || method == .head
        if services.phones, let phone = PhoneRoute(method, path) {
            self = .phone(phone)
        } else if services.roster && path.bytes == Self.rosterPath && (method == .post || !services.reader) {
            self = method == .post ? .post(isPicture: false) : .refused(.methodNotAllowed, allow: "POST")
        } else if services.roster && path.bytes == Self.picturePath {
            self = method == .post ? .post(isPicture: true) : .refused(.methodNotAllowed, allow: "POST")
        } else if services.reader && path.bytes == Self.rosterPath {
            self = reads ? .rosterPage : .refused(.methodNotAllowed, allow: "GET, HEAD, POST")
        } else if services.reader && path.bytes == Self.rosterDocument {
            self = method == .post ? .forget : reads ? .roster : .refused(.methodNotAllowed, allow: "GET, HEAD, POST")
        } else if services.reader && path.bytes.starts(with: Self.rosterDevices) {
            let device = String(decoding: path.bytes.dropFirst(Self.rosterDevices.count), as: UTF8.self)
            let picture = PicturePost.Kind.place(device)
            let route = picture.map { FeedRoute.rosterPicture($0.device, $0.kind) } ?? .rosterDevice(device)
            self = reads ? route : .refused(.methodNotAllowed, allow: "GET, HEAD")
        } else if services.reports && path.bytes == Self.reportPath {
            self = method == .post ? .report : .refused(.methodNotAllowed, allow: "POST")
        } else if isPush && method != .get {
            self = .refused(.methodNotAllowed, allow: "GET")
        } else if method != .get && method != .head {
            self = .refused(.methodNotAllowed, allow: "GET, HEAD")
        } else if isPush {
            self = .push
        } else if (services.reports || services.reader) && path.bytes == Self.metricsPath {
            self = .metrics
        } else if path.bytes == Self.healthPath {
            self = .health
        } else if let file = FeedFile(path) {
            self = .file(file)
        } else {
            self = .refused(.notFound, allow: nil)
        }
    }
}
