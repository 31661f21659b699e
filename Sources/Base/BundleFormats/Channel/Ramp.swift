package import BundleValues

/// Scheduled percentages of devices. Each step applies from its time on.
package struct Ramp: Sendable, Equatable {
    /// A percentage and its start.
    package struct RampStep: Sendable, Equatable {
        package let at: Timestamp
        /// The thousandths of devices that may install the release, 1...1000.
        package let rollout: Int

        package init(at: Timestamp, rollout: Int) {
            self.at = at
            self.rollout = rollout
        }
    }

    /// The largest number of steps.
    package static let maximumSteps = 20

    /// The steps, at least one, with ascending times and percentages.
    package let steps: [RampStep]
    /// The time at which the ramp stopped because the release was paused; nil if it is not paused.
    package let heldAt: Timestamp?

    /// Returns nil unless there are 1 to 20 steps with ascending times and ascending values of 1 to 1000.
    package init?(_ steps: [RampStep], heldAt: Timestamp? = nil) {
        let shares = steps.map(\.rollout)
        guard (1...Self.maximumSteps).contains(steps.count),
            shares.allSatisfy((1...ChannelDocument.Release.allDevices).contains),
            zip(steps, steps.dropFirst()).allSatisfy({ $0.at < $1.at && $0.rollout < $1.rollout })
        else { return nil }
        self.steps = steps
        self.heldAt = heldAt
    }

    /// Creates steps of `shares` with a distance of `seconds`, the first at `start`. Returns nil if they are not a
    /// valid ramp or reach beyond the year 9999.
    package init?(_ shares: [Int], every seconds: Int, from start: Timestamp) {
        guard shares.count <= Self.maximumSteps else { return nil }
        var steps: [RampStep] = []
        for share in shares {
            let (distance, isTooFar) = seconds.multipliedReportingOverflow(by: steps.count)
            guard !isTooFar, distance < Timestamp.latestSecond - start.secondsSinceEpoch else { return nil }
            steps.append(RampStep(at: Timestamp(clamping: start.secondsSinceEpoch + distance), rollout: share))
        }
        self.init(steps)
    }

    /// Returns the step that applies at the trusted time `time`; nil before the first.
    package func step(at time: Timestamp) -> RampStep? {
        let time = min(time, heldAt ?? time)
        return steps.last { $0.at <= time }
    }

    /// Returns the thousandths of devices at the trusted time `time`; 0 before the first step.
    package func share(at time: Timestamp) -> Int { step(at: time)?.rollout ?? 0 }

    /// Returns the steps after `time`.
    package func remaining(at time: Timestamp) -> [RampStep] { steps.filter { $0.at > min(time, heldAt ?? time) } }

    /// Returns the ramp stopped at `time`. A stopped ramp stays as it is.
    package func holding(at time: Timestamp) -> Ramp { Ramp(checked: steps, heldAt: heldAt ?? time) }

    /// Returns the ramp continued at `time`, with the remaining steps delayed by the length of the stop.
    package func resuming(at time: Timestamp) -> Ramp {
        guard let heldAt else { return self }
        let pause = max(0, time.secondsSinceEpoch - heldAt.secondsSinceEpoch)
        let moved = steps.map { step in
            step.at <= heldAt
                ? step : RampStep(at: Timestamp(clamping: step.at.secondsSinceEpoch + pause), rollout: step.rollout)
        }
        // The delay would exceed the year 9999.
        return Ramp(moved) ?? Ramp(checked: steps, heldAt: nil)
    }

    private init(checked steps: [RampStep], heldAt: Timestamp?) {
        self.steps = steps
        self.heldAt = heldAt
    }
}

extension Ramp: CustomStringConvertible {
    /// The steps, such as `1% from 2026-11-21T21:09:38Z, 10% from …`.
    package var description: String { Self.words(steps) }

    /// Returns a description of `steps`.
    package static func words(_ steps: [RampStep]) -> String {
        steps.map { "\(RolloutPercentage(permille: $0.rollout)) from \($0.at)" }.joined(separator: ", ")
    }
}

// MARK: A ramp as JSON

extension Ramp {
    init(_ reader: MemberReader) throws {
        let steps = try reader.objects("steps").map { step in
            RampStep(at: try step.timestamp("at"), rollout: try step.integer("rollout"))
        }
        guard
            let ramp = Ramp(
                steps, heldAt: reader.optional("heldAt") == nil ? nil : try reader.timestamp("heldAt"))
        else {
            throw reader.refusal(
                "steps",
                "are not 1 to \(Self.maximumSteps) steps with ascending times and ascending rollouts within 1 to 1000")
        }
        self = ramp
    }

    /// The JSON value in a channel document.
    package var json: JSONValue {
        var object: JSONObject = [
            "steps": .array(
                steps.map { .object(["at": .string($0.at.description), "rollout": .integer($0.rollout)]) })
        ]
        object["heldAt"] = heldAt.map { .string($0.description) }
        return .object(object)
    }
}
