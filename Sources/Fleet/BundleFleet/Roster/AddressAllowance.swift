import CLibrary

/// Limits the messages of each address, by default to 5 per second, with bursts of 20.
struct AddressAllowance {
    private let rate: Double
    private let burst: Double
    /// The number of addresses that are counted on their own. All others share one allowance.
    private static let most = 20_000

    private struct Bucket {
        var left: Double
        var last: Duration
    }

    private var buckets: [[UInt8]: Bucket] = [:]

    init(perSecond rate: Double = 5, burst: Double = 20) { (self.rate, self.burst) = (rate, burst) }

    /// Returns whether a message from `address` is accepted at `time`, the reading of a clock.
    mutating func consume(_ address: String, at time: Duration) -> Bool {
        var network = Self.network(of: address)
        if buckets[network] == nil, buckets.count >= Self.most {
            // An address with a full bucket counts like one that was never seen.
            buckets = buckets.filter { filled($0.value, at: time) < burst }
            if buckets.count >= Self.most { network = [] }
        }
        var bucket = buckets[network] ?? Bucket(left: burst, last: time)
        bucket.left = filled(bucket, at: time)
        bucket.last = time
        let isAccepted = bucket.left >= 1
        if isAccepted { bucket.left -= 1 }
        buckets[network] = bucket
        return isAccepted
    }

    private func filled(_ bucket: Bucket, at time: Duration) -> Double {
        min(burst, bucket.left + (time - bucket.last) / .seconds(1) * rate)
    }

    /// Returns the IPv4 address, or the first 64 bits of an IPv6 address, which one host may change below. Returns the text of anything else.
    static func network(of address: String) -> [UInt8] {
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, address, &four) == 1 { return withUnsafeBytes(of: four) { Array($0) } }
        guard inet_pton(AF_INET6, address, &six) == 1 else { return Array(address.utf8.prefix(64)) }
        return withUnsafeBytes(of: six) { bytes in
            let mapped = [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF]
            return bytes.prefix(12).elementsEqual(mapped) ? Array(bytes.suffix(4)) : Array(bytes.prefix(8))
        }
    }
}
