// A shell needs one import. `ClientServer` is separate, because it needs SwiftNIO.
@_exported public import BundleCore
@_exported public import BundleFetch
@_exported public import BundleShell
@_exported public import BundleTransport
@_exported public import BundleValues
@_exported public import MeteorSource
