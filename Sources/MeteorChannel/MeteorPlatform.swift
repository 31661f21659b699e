/// Whose compatibility version a device reads out of an asset manifest (METEOR section 1.2).
public enum MeteorPlatform: String, Sendable, CaseIterable {
    case ios, android
}
