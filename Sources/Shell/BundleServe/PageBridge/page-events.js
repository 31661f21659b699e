// Events of the shell. Exports: `addListener`, `removeAllListeners`, `listen`, `listenWhileSeen`, `isSeen`.

var FIRST_DELAY = 500;
// `clientctl kiosk` restarts a browser whose page does not return in time (KioskCommand.swift).
var LONGEST_DELAY = 2000;
var KEPT_ERRORS = 8;

var listeners = [];
var keptUpdate = null;

// Calls the listeners of an event. Returns whether there are any.
function deliver(name, event) {
  var reached = listeners.filter(function (listener) {
    return listener.name === name;
  });
  reached.forEach(function (listener) {
    try {
      listener.callback(event);
    } catch (error) {
      // An uncaught error of the page, as from any event listener. The other listeners are called.
      setTimeout(function () {
        throw error;
      }, 0);
    }
  });
  return reached.length > 0;
}

function deliverKeptUpdate() {
  var event = keptUpdate;
  keptUpdate = null;
  if (event && !deliver('updateAvailable', event) && !keptUpdate) {
    keptUpdate = event;
  }
}

function addListener(name, callback) {
  var listener = { name: name, callback: callback };
  listeners.push(listener);
  if (name === 'updateAvailable' && keptUpdate) {
    Promise.resolve().then(deliverKeptUpdate);
  }
  if (name === 'error' && keptErrors.length > 0) {
    Promise.resolve().then(deliverKeptErrors);
  }
  return Promise.resolve({
    remove: function () {
      listeners = listeners.filter(function (other) {
        return other !== listener;
      });
      return Promise.resolve();
    }
  });
}

function removeAllListeners() {
  listeners = [];
  return Promise.resolve();
}

// The errors that were acknowledged, and those that wait for a listener.
var acknowledged = {};
var keptErrors = [];

// Delivers an error, or keeps it until the page's own scripts have added a listener. The shell receives the acknowledgement only
// then: it sends an error without one to the next page.
function receiveError(event, id) {
  // The shell repeats an error if it did not receive the acknowledgement.
  if (!id || !acknowledged[id]) {
    if (!deliver('error', event)) {
      keepError(event, id);
      return;
    }
  }
  if (id) {
    acknowledged[id] = true;
    send('heard', { id: Number(id) || 0 }, true).then(ignore, ignore);
  }
}

function keepError(event, id) {
  var isKept = keptErrors.some(function (kept) {
    return id && kept.id === id;
  });
  if (!isKept) {
    keptErrors = keptErrors.concat({ event: event, id: id }).slice(-KEPT_ERRORS);
  }
}

function deliverKeptErrors() {
  var errors = keptErrors;
  keptErrors = [];
  errors.forEach(function (kept) {
    receiveError(kept.event, kept.id);
  });
}

function onEvent(name, event, id) {
  if (name === 'end') {
    endStream(streams);
    return;
  }
  if (name === 'reload') {
    comeBack(event && event.ended, event && event.locked);
    return;
  }
  if (!event) {
    return;
  }
  if (name === 'updateAvailable') {
    if (!deliver(name, event)) {
      keptUpdate = event;
    }
  } else if (name === 'error') {
    receiveError(event, id);
  } else if (name === 'upToDate' || name === 'downloadProgress') {
    deliver(name, event);
  }
}

// Returns a parser of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), which is called with
// each part of the stream. An incomplete event at the end of the stream is ignored.
function eventReader() {
  var line = '';
  var isAfterReturn = false;
  var name = '';
  var id = '';
  var data = [];

  function endLine() {
    var text = line;
    line = '';
    if (text === '') {
      var lines = data;
      var type = name;
      var number = id;
      data = [];
      name = '';
      id = '';
      if (lines.length > 0) {
        onEvent(type || 'message', parsed(lines.join('\n')), number);
      }
      return;
    }
    var colon = text.indexOf(':');
    var field = colon < 0 ? text : text.slice(0, colon);
    var value = colon < 0 ? '' : text.slice(colon + 1);
    if (value.charAt(0) === ' ') {
      value = value.slice(1);
    }
    if (field === 'event') {
      name = value;
    } else if (field === 'id') {
      id = value;
    } else if (field === 'data') {
      data.push(value);
    }
  }

  return function (piece) {
    var start = 0;
    for (var index = 0; index < piece.length; index += 1) {
      var code = piece.charCodeAt(index);
      if (code === 10 && isAfterReturn) {
        start = index + 1;
      } else if (code === 10 || code === 13) {
        line += piece.slice(start, index);
        start = index + 1;
        endLine();
      }
      isAfterReturn = code === 13;
    }
    line += piece.slice(start);
  };
}

// The pause before the next connection.
var delay = FIRST_DELAY;

function readAll(response) {
  var stream = response.body.getReader();
  var decoder = new TextDecoder('utf-8');
  var read = eventReader();
  function next() {
    return stream.read().then(function (result) {
      if (result.done) {
        return;
      }
      delay = FIRST_DELAY;
      read(decoder.decode(result.value, { stream: true }));
      return next();
    });
  }
  return next();
}

// A page with a socket listens on it. Otherwise it listens by a request: a browser opens six connections to a server for all its
// windows, so a hidden page closes its own.

var isListening = false;
var isWaiting = false;
var stopListening = ignore;
// The number of the present stream of events. The end of an earlier one means nothing.
var streams = 0;

function isSeen() {
  return document.visibilityState !== 'hidden';
}

function listen() {
  isWaiting = false;
  if (!isSeen() || isListening || waitsForSocket) {
    return;
  }
  isListening = true;
  streams += 1;
  if (isConnected) {
    listenOnSocket(streams);
  } else {
    listenByRequest(streams);
  }
}

function listenOnSocket(stream) {
  stopListening = function () {
    if (isConnected) {
      askSocket('unlisten').then(ignore, ignore);
    }
  };
  askSocket('listen').then(function () {
    delay = FIRST_DELAY;
  }, function () {
    endStream(stream);
  });
}

function listenByRequest(stream) {
  var controller = AbortController && new AbortController();
  stopListening = function () {
    if (controller) {
      controller.abort();
    }
  };
  fetch(root + 'events?' + loadName, {
    headers: { 'X-Client-Token': token, Accept: 'text/event-stream' },
    cache: 'no-store',
    credentials: 'same-origin',
    signal: controller ? controller.signal : undefined
  }).then(function (response) {
    if (response.ok) {
      return readAll(response);
    }
    return response.text().then(function (text) {
      refusalOf(response.status, text);
    });
  }).then(ignore, ignore).then(function () {
    endStream(stream);
  });
}

function endStream(stream) {
  if (isListening && stream === streams) {
    isListening = false;
    listenLater();
  }
}

function listenLater() {
  var wait = delay * (0.8 + 0.2 * random());
  delay = Math.min(2 * delay, LONGEST_DELAY);
  isWaiting = true;
  setTimeout(listen, wait);
}

function stopStream() {
  if (isListening) {
    isListening = false;
    stopListening();
  }
}

function listenWhileSeen() {
  if (!isSeen()) {
    delay = FIRST_DELAY;
    stopStream();
  } else if (!isListening && !isWaiting) {
    listen();
  }
}
