// Meteor's WebAppLocalServer on top of the Capacitor plugin CapacitorMeteorWebApp.
(function () {
  'use strict';

  if (window.WebAppLocalServer) {
    return;
  }

  // The lookup runs at every call, since Capacitor may register its plugins after this script.
  function findPlugin() {
    var plugins = window.Capacitor && window.Capacitor.Plugins;
    var plugin = plugins && plugins.CapacitorMeteorWebApp;
    if (!plugin) {
      console.warn('WebAppLocalServer: the plugin CapacitorMeteorWebApp is not available');
    }
    return plugin;
  }

  function complain(error) {
    console.error('WebAppLocalServer: ' + ((error && error.message) || error));
  }

  // Runs `action` on the plugin. An exception counts as a rejection.
  function attempt(action, done, failed) {
    var plugin = findPlugin();
    if (!plugin) {
      return;
    }
    var result;
    try {
      result = Promise.resolve(action(plugin));
    } catch (error) {
      result = Promise.reject(error);
    }
    result.then(done, failed);
  }

  function calling(callback) {
    return function () {
      if (typeof callback === 'function') {
        callback();
      }
    };
  }

  function setUp() {
    if (window.WebAppLocalServer) {
      return;
    }
    window.WebAppLocalServer = {
      // The options may be left out, as in Meteor.
      startupDidComplete: function (options, callback) {
        var done = typeof options === 'function' ? options : callback;
        attempt(function (plugin) {
          return options && options.blank === true ? plugin.startupDidComplete({ blank: true }) : plugin.startupDidComplete();
        }, calling(done), complain);
      },

      startupDidFail: function (reason, callback) {
        attempt(function (plugin) {
          return plugin.startupDidFail({ reason: String(reason) });
        }, calling(callback), complain);
      },

      checkForUpdates: function (callback) {
        attempt(function (plugin) {
          return plugin.checkForUpdates();
        }, calling(callback), complain);
      },

      busy: function (isBusy, callback) {
        attempt(function (plugin) {
          return plugin.busy({ busy: !!isBusy });
        }, calling(callback), complain);
      },

      onNewVersionReady: function (callback) {
        attempt(function (plugin) {
          return plugin.addListener('updateAvailable', function (event) {
            callback(event.version);
          });
        }, null, complain);
      },

      switchToPendingVersion: function (callback, errorCallback) {
        attempt(function (plugin) {
          return plugin.reload();
        }, calling(callback), function (error) {
          if (typeof errorCallback === 'function') {
            errorCallback(error);
          } else {
            complain(error);
          }
        });
      },

      onError: function (callback) {
        attempt(function (plugin) {
          return plugin.addListener('error', function (event) {
            var error = new Error(event.message);
            error.code = event.code;
            callback(error);
          });
        }, null, complain);
      },

      localFileSystemUrl: function () {
        throw new Error('WebAppLocalServer.localFileSystemUrl is not supported');
      }
    };
  }

  if (window.Capacitor) {
    setUp();
  } else {
    document.addEventListener('deviceready', function () {
      if (window.Capacitor) {
        setUp();
      }
    });
  }
})();
