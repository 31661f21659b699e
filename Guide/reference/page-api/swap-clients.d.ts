/** What `clientctl serve` puts into every page. See the page API of the guide. */

/** An error with a word for programs: an exit status's, or one of the calls' own. */
interface SwapClientsError extends Error {
  code?: string;
}

/** Callbacks, as in Meteor's Cordova plugin. */
interface WebAppLocalServer {
  /** Confirms the start of this client. Required: without it the device goes back. */
  startupDidComplete(callback?: () => void): void;
  /** Fails a trial at once; `reason` becomes the evidence. */
  startupDidFail(reason?: string, callback?: () => void): void;
  /** Says that somebody is in the middle of something, or no longer: nothing else is shown by itself, for a time at most. */
  busy(isBusy: boolean, callback?: () => void): void;
  /** Starts a check; calls back when it has started. */
  checkForUpdates(callback?: () => void): void;
  /** Calls back with the version when another client is ready. */
  onNewVersionReady(callback: (version: string) => void): void;
  /** Shows the client that is ready: the page is loaded again. */
  switchToPendingVersion(callback?: () => void, errorCallback?: (error: SwapClientsError) => void): void;
  /** Calls back when a check or an update fails, and after a rollback. */
  onError(callback: (error: SwapClientsError) => void): void;
  /** Not supported: throws. */
  localFileSystemUrl(url: string): never;
}

interface UpdateAvailableEvent {
  version: string;
}

interface UpdateErrorEvent {
  code: string;
  message: string;
}

interface ListenerHandle {
  remove(): Promise<void>;
}

/** Promises and listeners, as in the Capacitor plugin. Calls reject with a `SwapClientsError`. */
interface CapacitorMeteorWebApp {
  startupDidComplete(): Promise<object>;
  startupDidFail(options?: { reason?: string }): Promise<object>;
  /** While a page is busy, no other client is shown by itself, for 10 minutes at most or as long as the channel says; a recalled one is left after a minute. */
  busy(options: { busy: boolean }): Promise<object>;
  /** `checking` where the check goes on for more than 20 s. */
  checkForUpdates(): Promise<{
    outcome: 'upToDate' | 'updateAvailable' | 'failed' | 'checking';
    version?: string;
    code?: string;
    message?: string;
  }>;
  getCurrentVersion(): Promise<{ version: string }>;
  isUpdateAvailable(): Promise<{ available: boolean }>;
  /** Rejects with `noPendingVersion` where no other client is ready. */
  reload(): Promise<object>;
  addListener(event: 'updateAvailable', callback: (event: UpdateAvailableEvent) => void): Promise<ListenerHandle>;
  addListener(event: 'error', callback: (event: UpdateErrorEvent) => void): Promise<ListenerHandle>;
  addListener(event: 'upToDate', callback: (event: UpdateAvailableEvent) => void): Promise<ListenerHandle>;
  removeAllListeners(): Promise<void>;
}

interface Window {
  WebAppLocalServer?: WebAppLocalServer;
  Capacitor?: { Plugins?: { CapacitorMeteorWebApp?: CapacitorMeteorWebApp } };
}

declare const WebAppLocalServer: WebAppLocalServer;
