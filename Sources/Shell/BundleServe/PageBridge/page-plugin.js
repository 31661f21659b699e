// The interface of the Capacitor plugin CapacitorMeteorWebApp, for pages outside Capacitor.

window.Capacitor = window.Capacitor || {};
window.Capacitor.Plugins = window.Capacitor.Plugins || {};
window.Capacitor.Plugins.CapacitorMeteorWebApp = {
  checkForUpdates: function () {
    return send('checkForUpdates');
  },
  startupDidComplete: function () {
    return send('startupDidComplete');
  },
  startupDidFail: function (options) {
    return send('startupDidFail', { reason: cut((options && options.reason) || '') });
  },
  busy: function (options) {
    reports += 1;
    return send('busy', { busy: !!(options && options.busy), page: loadName, number: reports });
  },
  getStatus: function () {
    return send('getStatus');
  },
  getCurrentVersion: function () {
    return send('getCurrentVersion');
  },
  isUpdateAvailable: function () {
    return send('isUpdateAvailable');
  },
  reload: function () {
    return send('reload').then(function (answer) {
      loadAgain();
      return answer;
    });
  },
  addListener: addListener,
  removeAllListeners: removeAllListeners
};

listen();
