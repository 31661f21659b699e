/// The subject of a finding of doctor. Each has a heading in `Guide/reference/doctor.md`.
package enum FindingCode: String, Sendable, CaseIterable {
    /// The clock of this machine, compared with signed documents and the feed's server.
    case clock
    /// The folder of the store: its owner, its permissions, and whether it is a store.
    case storeFolder
    /// The folders above the store, and which users can replace it.
    case storeParents
    /// The free space for the next client.
    case diskSpace
    /// The number of files that the file system can still store.
    case inodes
    /// Hard links, which serving roots need.
    case links
    /// The atomic rename of an installation.
    case rename
    /// The ledger, and whether its clients exist.
    case ledger
    /// Whether there is a client to show.
    case clients
    /// Whether this device grants the origins that the next client declares.
    case origins
    /// The users who may see it: a lock, or a session that has ended.
    case session
    /// Whether a browser shows the expected page.
    case screen
    /// The remains of interrupted runs.
    case leftovers
    case trust
    /// Whether the device has a source of updates.
    case source
    /// The document of the source: its signatures, sequence and expiry.
    case document
    /// Whether the offered release is for this device.
    case offer
    /// Whether offered releases arrive.
    case wanted
    /// The ID that places this device in rollouts.
    case deviceId
    /// The proxy between this machine and the feed.
    case proxy
    /// The address of the feed's host name.
    case dns
    case tcp
    /// The encrypted and trusted connection.
    case tls
    /// The response of the feed's server.
    case http
    case port
    /// Whether the kernel supports confining commands.
    case landlock

    /// The finding in a few words, for the row of a device.
    package var words: String {
        switch self {
        case .clock: "clock"
        case .storeFolder: "store not usable"
        case .storeParents: "store open to other users"
        case .diskSpace: "little free space"
        case .inodes: "few free inodes"
        case .links: "no hard links"
        case .rename: "no atomic rename"
        case .ledger: "ledger damaged"
        case .clients: "a client failed, or there is none"
        case .origins: "origins refused"
        case .session: "locked, or nobody signed in"
        case .screen: "no page on the screen"
        case .leftovers: "remains of an interrupted run"
        case .trust: "trust root expires"
        case .source: "no source of updates"
        case .document: "document refused"
        case .offer: "release not for this device"
        case .wanted: "a release does not arrive"
        case .deviceId: "no ID of its own"
        case .proxy: "proxy refuses"
        case .dns: "no address of the feed"
        case .tcp: "no connection to the feed"
        case .tls: "connection not trusted"
        case .http: "no response of the feed"
        case .port: "port not usable"
        case .landlock: "commands not confined"
        }
    }

    /// The remedy in one sentence, which `Guide/reference/doctor.md` contains, too. Codes with several causes have that of `doctor`.
    package var remedy: String {
        switch self {
        case .clock: "Set the clock and keep it right with NTP, such as `timedatectl set-ntp true`."
        case .diskSpace: "Free some space: `clientctl prune`, a smaller --keep, or other files on that disk."
        case .inodes: "Remove files from that disk, or create its file system again with more inodes."
        case .links: "Keep the whole store on one file system that has hard links, such as ext4, btrfs or xfs."
        case .rename: "Keep the whole store on one file system and one mount."
        case .origins:
            "If its pages need them, widen --csp-allow; otherwise publish a release that does not declare them."
        case .session:
            "`clientctl screen unlock` unlocks the device, and `clientctl session login` begins a session."
        case .screen: "Start the browser again, or have `clientctl kiosk` or `serve --browser` start it."
        case .trust: "The publisher has to sign the next one: `clientctl trust renew`, then `trust publish`."
        case .source:
            "Give the settings of serve, such as --config /etc/clientctl/device.env, or name a feed with --channel, --manifest or --meteor."
        case .wanted:
            "Run `clientctl install` on the device to see each step, and `clientctl feed check` on another machine."
        case .deviceId: "Run `systemd-machine-id-setup`, or give each device its own --device-id."
        case .proxy: "Correct the proxy with --proxy, its variable or its rules; --proxy none disables it."
        case .tcp: "Check the network, the port, and firewalls on the way; a proxy may be needed (--proxy)."
        case .storeFolder, .storeParents, .ledger, .clients, .leftovers, .document, .offer, .dns, .tls, .http, .port,
            .landlock:
            "Run `clientctl doctor` on the device: it names the cause and what to do."
        }
    }
}
