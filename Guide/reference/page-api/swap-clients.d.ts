/** The API that `clientctl serve` inserts into every page. See the page API in the guide. */

/** An error with a code for programs: the code of an exit status or of a call. */
interface SwapClientsError extends Error {
  code?: string;
}

/** Callbacks, as in Meteor's Cordova plugin. */
interface WebAppLocalServer {
  /** Confirms the start of this client. Required: without it, the device rolls the client back. */
  startupDidComplete(callback?: () => void): void;
  /** Confirms the start. With `blank`, the page is meant to show nothing. */
  startupDidComplete(options: { blank?: boolean }, callback?: () => void): void;
  /** Fails a trial at once, with `reason` as the failure detail. */
  startupDidFail(reason?: string, callback?: () => void): void;
  /** Reports that the user is busy, or no longer busy. A busy page defers a switch to another client for a limited time. */
  busy(isBusy: boolean, callback?: () => void): void;
  /** Starts a check. Calls back when it has started. */
  checkForUpdates(callback?: () => void): void;
  /** Calls back with the version when another client is ready. */
  onNewVersionReady(callback: (version: string) => void): void;
  /** Shows the pending client by loading the page again. */
  switchToPendingVersion(callback?: () => void, errorCallback?: (error: SwapClientsError) => void): void;
  /** Calls back when a check or an update fails, and after a rollback. */
  onError(callback: (error: SwapClientsError) => void): void;
  /** Not supported: throws. */
  localFileSystemUrl(url: string): never;
}

interface UpToDateEvent {
  version: string;
  /** The client that failed once and is tried once more later. */
  waiting?: { version: string; message: string };
}

/** A client that is ready. The seed has only a version. */
interface UpdateAvailableEvent {
  version: string;
  /** The size of its files in bytes. */
  size?: number;
  /** The beginning of the release notes, as text. */
  notes?: string | null;
  /** Whether its channel marks it as urgent. */
  urgent?: boolean;
}

interface DownloadProgressEvent {
  bytes: number;
  /** The size of the download; null if it is unknown. */
  of: number | null;
}

interface UpdateErrorEvent {
  code: string;
  message: string;
  /** The client that failed, after a rollback. */
  version?: string;
}

/** A client of the device. The seed has only a version, `embedded`, and a state. */
interface DeviceClient {
  version: string;
  state: 'seed' | 'staged' | 'trial' | 'good' | 'failed' | 'blocked';
  /** The size of its files in bytes. */
  size?: number;
  sha256?: string;
  installedAt?: string;
  /** The time of its last confirmed start. */
  confirmedAt?: string | null;
  /** The beginning of the release notes, as text. */
  notes?: string | null;
  /** Whether its channel marks it as urgent. */
  urgent?: boolean;
}

interface DeviceStatus {
  running: DeviceClient | null;
  /** The client that `reload` would show. */
  ready: DeviceClient | null;
  installed: DeviceClient[];
  /** The last start that failed. */
  lastFailure: { version: string; cause: string; message: string; at: string; retryAt: string | null } | null;
  /** Whether the running client replaced the one that failed, and has not confirmed a start since. */
  rolledBack: boolean;
  /** The version of the shell. */
  shell: string | null;
}

interface ListenerHandle {
  remove(): Promise<void>;
}

/** Promises and listeners, as in the Capacitor plugin. Calls reject with a `SwapClientsError`. */
interface CapacitorMeteorWebApp {
  startupDidComplete(): Promise<object>;
  startupDidFail(options?: { reason?: string }): Promise<object>;
  /** While a page is busy, the device does not switch clients, for at most 10 minutes or the limit of the channel. It leaves a recalled client after a minute. */
  busy(options: { busy: boolean }): Promise<object>;
  /** The outcome is `checking` if the check takes longer than 20 s. */
  checkForUpdates(): Promise<{
    outcome: 'upToDate' | 'updateAvailable' | 'waiting' | 'failed' | 'checking';
    version?: string;
    code?: string;
    message?: string;
  }>;
  getCurrentVersion(): Promise<{ version: string }>;
  isUpdateAvailable(): Promise<{ available: boolean }>;
  getStatus(): Promise<DeviceStatus>;
  /** Rejects with `noPendingVersion` if no other client is ready. */
  reload(): Promise<object>;
  addListener(event: 'updateAvailable', callback: (event: UpdateAvailableEvent) => void): Promise<ListenerHandle>;
  addListener(event: 'error', callback: (event: UpdateErrorEvent) => void): Promise<ListenerHandle>;
  addListener(event: 'upToDate', callback: (event: UpToDateEvent) => void): Promise<ListenerHandle>;
  /** Called at most twice a second. */
  addListener(event: 'downloadProgress', callback: (event: DownloadProgressEvent) => void): Promise<ListenerHandle>;
  removeAllListeners(): Promise<void>;
}

interface Window {
  WebAppLocalServer?: WebAppLocalServer;
  Capacitor?: { Plugins?: { CapacitorMeteorWebApp?: CapacitorMeteorWebApp } };
}

declare const WebAppLocalServer: WebAppLocalServer;
