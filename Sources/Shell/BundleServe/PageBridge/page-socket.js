// The WebSocket for calls and events. A page with films or many downloads occupies the browser's six connections to a server, of which
// WebSockets are none. Without a socket, each call is a request. Exports: `send`, `sendLast`,
// `askSocket`, `isConnected`, `waitsForSocket`, `connect`, `closeSocket`, `socketIsRefused`.

var FIRST_PAUSE = 500;
var LONGEST_PAUSE = 2000;
var LONGEST_WAIT = 2000;
// A server without sockets is not asked again.
var MOST_FAILURES = 5;

var SOCKET_URL = root.replace('http', 'ws') + 'socket';

var socket = null;
// Whether the socket is open.
var isConnected = false;
// Whether calls wait for the first socket.
var waitsForSocket = !!(WebSocket && token);
var wasConnected = false;
var failures = 0;
// Whether a policy of the page blocks the socket.
var isRefused = false;
var reconnectPause = FIRST_PAUSE;
// The calls without a result, by number.
var calls = {};
var lastCall = 0;

// Carries out a call and returns a promise of its result. With `outlivesPage`, a request is sent even if the page unloads.
function send(method, body, outlivesPage) {
  return new Promise(function (resolve, reject) {
    var call = begin(method, body, resolve, reject);
    call.outlivesPage = outlivesPage;
    if (isConnected) {
      post(call);
    } else if (!waitsForSocket || outlivesPage) {
      requestFor(call);
    }
  });
}

// Carries out a call that only an open socket accepts.
function askSocket(method) {
  return new Promise(function (resolve, reject) {
    var call = begin(method, {}, resolve, reject);
    call.needsSocket = true;
    post(call);
  });
}

function begin(method, body, resolve, reject) {
  lastCall += 1;
  calls[lastCall] = { id: lastCall, method: method, body: body || {}, resolve: resolve, reject: reject };
  return calls[lastCall];
}

// Sends the last report of a page in both ways: the socket may end before it has sent the report, and the request may wait. The shell
// ignores the second one by its number.
function sendLast(method, body) {
  if (isConnected) {
    send(method, body).then(ignore, ignore);
  }
  request(method, body, true).then(ignore, ignore);
}

function settle(call, isKept, value) {
  if (calls[call.id]) {
    delete calls[call.id];
    (isKept ? call.resolve : call.reject)(value);
  }
}

function post(call) {
  socket.send(stringify({ id: call.id, method: call.method, body: call.body }));
}

function requestFor(call) {
  call.isRequested = true;
  request(call.method, call.body, call.outlivesPage).then(function (result) {
    settle(call, true, result);
  }, function (error) {
    settle(call, false, error);
  });
}

function eachCall(act) {
  Object.keys(calls).forEach(function (id) {
    act(calls[id]);
  });
}

function goOnWithoutSocket() {
  waitsForSocket = false;
  eachCall(function (call) {
    if (call.needsSocket) {
      settle(call, false, new Error('The connection has ended.'));
    } else if (!call.isRequested) {
      requestFor(call);
    }
  });
  listenWhileSeen();
}

function receive(text) {
  var message = parsed(text) || {};
  var call = calls[message.id];
  if (message.event) {
    onEvent(message.event, message.data, message.number);
  } else if (message.status) {
    var error = refusal(message.status, message.error);
    if (call) {
      settle(call, false, error);
    }
  } else if (call) {
    settle(call, true, message.result || {});
  }
}

function connect() {
  var opened;
  if (socket || isRefused || hasLeft) {
    return;
  }
  try {
    opened = new WebSocket(SOCKET_URL, ['clientctl', token, loadName]);
  } catch (error) {
    setTimeout(goOnWithoutSocket, 0);
    return;
  }
  socket = opened;
  opened.onopen = function () {
    if (socket !== opened) {
      return;
    }
    isConnected = true;
    waitsForSocket = false;
    reconnectPause = FIRST_PAUSE;
    if (wasConnected) {
      reportAgain();
    }
    wasConnected = true;
    // A request of a call may still wait for a connection. The shell may receive a call twice.
    eachCall(post);
    stopStream();
    listen();
  };
  opened.onmessage = function (event) {
    if (socket === opened) {
      receive(event.data);
    }
  };
  opened.onclose = function () {
    if (socket === opened) {
      socket = null;
      // A socket that has not opened ends no stream of events.
      isListening = isListening && !isConnected;
      isConnected = false;
      goOnWithoutSocket();
      failures += 1;
      if (!isRefused && !hasLeft && (wasConnected || failures < MOST_FAILURES)) {
        setTimeout(connect, reconnectPause * (0.8 + 0.2 * random()));
        reconnectPause = Math.min(2 * reconnectPause, LONGEST_PAUSE);
      }
    }
  };
}

// Ends the socket of a page that leaves its window. With a socket, a page would not enter the cache of the browser.
function closeSocket() {
  var open = socket;
  socket = null;
  isConnected = false;
  if (open) {
    open.close();
  }
}

// A policy in the page allows no connection to its own server.
function socketIsRefused(url) {
  if (String(url).indexOf('ws') !== 0 || SOCKET_URL.indexOf(String(url)) !== 0) {
    return false;
  }
  isRefused = true;
  return true;
}

if (waitsForSocket) {
  connect();
  setTimeout(function () {
    if (waitsForSocket) {
      goOnWithoutSocket();
    }
  }, LONGEST_WAIT);
}
