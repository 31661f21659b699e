/// A random number generator with a seed: SplitMix64.
struct Chance: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    static func mix(_ number: UInt64) -> UInt64 {
        var mixed = number &+ 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func next() -> UInt64 {
        defer { state &+= 0x9E37_79B9_7F4A_7C15 }
        return Self.mix(state)
    }

    /// Returns a number in 0..<1.
    mutating func share() -> Double { Self.share(next()) }

    mutating func seconds(below limit: Int) -> Int { Int(next() % UInt64(limit)) }

    static func share(_ number: UInt64) -> Double { Double(number >> 11) * 0x1p-53 }
}

/// The properties of a device, derived from its number and the seed. Guide/concepts/fleet.md lists the percentages.
struct Traits {
    /// The times at which a device is on.
    enum Habit {
        case always
        /// `length` seconds of each period, which begins at `phase`.
        case some(length: Int, period: Int)
    }

    /// Of 1,000 devices, 600 are always on, 300 half of each day, 90 an hour a day, and the rest an hour a week.
    private static let habits: [(below: UInt64, habit: Habit)] = [
        (600, .always), (900, .some(length: 43_200, period: 86_400)), (990, .some(length: 3600, period: 86_400)),
        (1000, .some(length: 3600, period: 7 * 86_400)),
    ]
    /// The devices of 1,000 with a wrong clock.
    private static let wrongClocks: UInt64 = 40
    /// A wrong clock differs by one hour to one year, with a logarithmic distribution.
    private static let clockErrors = (least: 3600.0, factor: 8760.0)

    private let number: UInt64

    init(_ device: Int, seed: UInt64) { number = Chance.mix(seed ^ (UInt64(device) << 20)) }

    private func draw(_ salt: UInt64) -> UInt64 { Chance.mix(number &+ salt) }

    static func id(_ device: Int) -> String { "device-\(device)" }

    var habit: Habit {
        let drawn = draw(1) % 1000
        return Self.habits.first { drawn < $0.below }?.habit ?? .always
    }

    func phase(_ period: Int) -> Int { Int(draw(2) % UInt64(period)) }

    func edge(of count: Int) -> Int { Int(draw(3) % UInt64(count)) }

    var hasWrongClock: Bool { draw(5) % 1000 < Self.wrongClocks }

    /// The error of the clock in seconds, positive or negative.
    var clockError: Int {
        var power = 1.0
        // Computes factor^share by halving, with the same result on every machine.
        var (root, share) = (Self.clockErrors.factor, Chance.share(draw(6)))
        for _ in 0..<24 {
            root = root.squareRoot()
            share *= 2
            if share >= 1 {
                power *= root
                share -= 1
            }
        }
        let error = Int(Self.clockErrors.least * power)
        return draw(7) % 2 == 0 ? error : -error
    }

    /// Returns whether a release that fails on `permille` of 1,000 devices fails on this one.
    func fails(permille: Int) -> Bool { draw(8) % 1000 < UInt64(permille) }
}
