// A stand-in for cordova.js in a shell without Cordova. Pages that were built for Cordova wait for its event
// `deviceready`.
(function () {
  'use strict';
  var isReady = false;
  var listen = document.addEventListener;

  // Cordova calls listeners that are added after the event, too.
  document.addEventListener = function (type, listener, options) {
    listen.call(document, type, listener, options);
    if (type !== 'deviceready' || !isReady) return;
    setTimeout(function () {
      document.removeEventListener(type, listener, options);
      if (typeof listener === 'function') listener.call(document, new Event(type));
      else if (listener) listener.handleEvent(new Event(type));
    }, 0);
  };

  function fire() {
    isReady = true;
    document.dispatchEvent(new Event('deviceready'));
  }

  if (document.readyState === 'loading') listen.call(document, 'DOMContentLoaded', fire);
  else setTimeout(fire, 0);
})();
