package import BundleValues

/// Shares of devices that grow by themselves: each step counts from its time on (CONTRACT section 4).
package struct Ramp: Sendable, Equatable {
    /// A share, and when it begins.
    package struct Step: Sendable, Equatable {
        /// From then on.
        package let at: Timestamp
        /// 1...1000: the devices that may have the release, in thousandths.
        package let rollout: Int

        /// States a step.
        package init(at: Timestamp, rollout: Int) {
            self.at = at
            self.rollout = rollout
        }
    }

    /// The most steps of a ramp.
    package static let maximumSteps = 20

    /// At least one; times and shares ascend.
    package let steps: [Step]
    /// When the release was paused: the ramp stays at what it was then. nil while it goes on.
    package let heldAt: Timestamp?

    /// A ramp of `steps`; nil unless they are 1 to 20, and their times and shares (1 to 1000) ascend.
    package init?(_ steps: [Step], heldAt: Timestamp? = nil) {
        let shares = steps.map(\.rollout)
        guard (1...Self.maximumSteps).contains(steps.count),
            shares.allSatisfy((1...ChannelDocument.Release.everybody).contains),
            zip(steps, steps.dropFirst()).allSatisfy({ $0.at < $1.at && $0.rollout < $1.rollout })
        else { return nil }
        self.steps = steps
        self.heldAt = heldAt
    }

    /// `shares` one after the other, `seconds` apart, the first one from `start` on; nil where they are no ramp, or reach beyond the
    /// year 9999.
    package init?(_ shares: [Int], every seconds: Int, from start: Timestamp) {
        guard shares.count <= Self.maximumSteps else { return nil }
        var steps: [Step] = []
        for share in shares {
            let (distance, isTooFar) = seconds.multipliedReportingOverflow(by: steps.count)
            guard !isTooFar, distance < Timestamp.latestSecond - start.secondsSinceEpoch else { return nil }
            steps.append(Step(at: Timestamp(clamping: start.secondsSinceEpoch + distance), rollout: share))
        }
        self.init(steps)
    }

    /// The step that counts at the trusted time `time`: the last one whose time has come; nil before the first.
    package func step(at time: Timestamp) -> Step? {
        let time = min(time, heldAt ?? time)
        return steps.last { $0.at <= time }
    }

    /// The share at the trusted time `time`, in thousandths; 0 before the first step.
    package func share(at time: Timestamp) -> Int { step(at: time)?.rollout ?? 0 }

    /// The steps that are still to come at `time`.
    package func remaining(at time: Timestamp) -> [Step] { steps.filter { $0.at > min(time, heldAt ?? time) } }

    /// The same, held from `time` on; one that is held stays as it is.
    package func holding(at time: Timestamp) -> Ramp { Ramp(checked: steps, heldAt: heldAt ?? time) }

    /// The same, going on at `time`: what remains is later by the time that it was held.
    package func resuming(at time: Timestamp) -> Ramp {
        guard let heldAt else { return self }
        let pause = max(0, time.secondsSinceEpoch - heldAt.secondsSinceEpoch)
        let moved = steps.map { step in
            step.at <= heldAt
                ? step : Step(at: Timestamp(clamping: step.at.secondsSinceEpoch + pause), rollout: step.rollout)
        }
        // In the year 9999 there is no later.
        return Ramp(moved) ?? Ramp(checked: steps, heldAt: nil)
    }

    private init(checked steps: [Step], heldAt: Timestamp?) {
        self.steps = steps
        self.heldAt = heldAt
    }
}

extension Ramp: CustomStringConvertible {
    /// Its steps in words: `1% from 2026-11-21T21:09:38Z, 10% from …`.
    package var description: String { Self.words(steps) }

    /// `steps` in words.
    package static func words(_ steps: [Step]) -> String {
        steps.map { "\(RolloutShare(permille: $0.rollout)) from \($0.at)" }.joined(separator: ", ")
    }
}

// MARK: A ramp as JSON

extension Ramp {
    init(_ reader: MemberReader) throws {
        let steps = try reader.objects("steps").map { step in
            Step(at: try step.timestamp("at"), rollout: try step.integer("rollout"))
        }
        guard
            let ramp = Ramp(
                steps, heldAt: reader.optional("heldAt") == nil ? nil : try reader.timestamp("heldAt"))
        else {
            throw reader.refusal(
                "steps",
                "are no ramp: 1 to \(Self.maximumSteps) of them, with times that ascend, and rollouts that ascend within 1 to 1000"
            )
        }
        self = ramp
    }

    /// As documents hold it.
    package var json: JSONValue {
        var object: JSONObject = [
            "steps": .array(
                steps.map { .object(["at": .string($0.at.description), "rollout": .integer($0.rollout)]) })
        ]
        object["heldAt"] = heldAt.map { .string($0.description) }
        return .object(object)
    }
}
