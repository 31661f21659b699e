// Whether the page shows something. Exports: `looks`.
//
// Every doubt is in favor of the page: what cannot be read counts as something, and an error of this script does, too.

// A page that shows nothing yet is looked at again after these pauses, in milliseconds. A page may mount or fade in late.
var LOOK_PAUSES = [100, 200, 400, 800, 1500];
// A blank page is looked at for as long as it stays, after growing pauses.
var FIRST_LATER_LOOK = 1000;
var LONGEST_LATER_LOOK = 10000;
var MOST_NODES = 5000;
// The share of the window, without its scroll bars, from which an element counts as its background.
var WHOLE = 0.95;
var SCROLL_BAR = 20;
var SMALLEST_AREA = 4;

var getStyle = window.getComputedStyle.bind(window);
var requestFrame = window.requestAnimationFrame.bind(window);
var OPAQUE = ['canvas', 'video', 'iframe', 'frame', 'embed', 'object', 'button', 'textarea', 'select', 'progress', 'meter', 'input', 'audio'];
var INVISIBLE = ['defs', 'symbol', 'title', 'desc', 'metadata', 'style', 'script', 'template', 'noscript', 'option'];

// A closed shadow root is readable only here. A proxy keeps the text of the native function.
var shadowRoots = new window.WeakMap();
try {
  window.Element.prototype.attachShadow = new window.Proxy(window.Element.prototype.attachShadow, {
    apply: function (attach, host, options) {
      var shadow = attach.apply(host, options);
      shadowRoots.set(host, shadow);
      return shadow;
    }
  });
} catch (error) {
  // An engine without shadow roots or proxies.
}

// Whether there is a window in which a user could see the page. Otherwise nothing can be said about it.
function hasWindow() {
  var root = document.documentElement;
  return isSeen() && !isPrinting && !isOver && window.innerWidth > 0 && window.innerHeight > 0 && root.getBoundingClientRect().width > 0;
}

// Returns whether the page shows something. With `isLast`, images that still load count.
function showsSomething(isLast) {
  var view = { left: 0, top: 0, right: window.innerWidth, bottom: window.innerHeight };
  var whole = WHOLE * Math.max(0, view.right - SCROLL_BAR) * Math.max(0, view.bottom - SCROLL_BAR);
  var nodes = 0;
  var hasDarkGround = /dark/.test(getStyle(document.documentElement).colorScheme);
  // The color of what covers the whole window so far. Only another color is something.
  var ground = hasDarkGround ? '' : 'rgb(255, 255, 255)';

  // Returns the visible part of a box, or null.
  function part(box, clip) {
    var seen = clip && {
      left: Math.max(box.left, clip.left), top: Math.max(box.top, clip.top),
      right: Math.min(box.right, clip.right), bottom: Math.min(box.bottom, clip.bottom)
    };
    return seen && seen.right > seen.left && seen.bottom > seen.top && area(seen) >= SMALLEST_AREA ? seen : null;
  }

  function area(box) {
    return (box.right - box.left) * (box.bottom - box.top);
  }

  function isColor(color) {
    return color !== 'transparent' && !/^rgba\(.*, 0\)$|\/ 0\)$/.test(color) && color !== ground;
  }

  // Returns whether a box has a background or a border that differs from what is below it. `isWhole`: it covers the window.
  function paints(style, isWhole) {
    if (style.backgroundImage !== 'none') {
      return true;
    }
    if (isColor(style.backgroundColor)) {
      if (!isWhole) {
        return true;
      }
      ground = style.backgroundColor;
    }
    return ['Top', 'Right', 'Bottom', 'Left'].some(function (side) {
      return parseFloat(style['border' + side + 'Width']) > 0 && !/none|hidden/.test(style['border' + side + 'Style']) &&
        isColor(style['border' + side + 'Color']);
    });
  }

  function isFaded(style, element) {
    return style.display === 'none' ||
      Number(style.opacity) < 0.02 && !(element && element.getAnimations && element.getAnimations().length > 0);
  }

  function hasWords(text) {
    return /[^\s\u200b-\u200d\u2060\ufeff]/.test(text);
  }

  // Generated content, such as an icon.
  function generates(element, which) {
    var style = getStyle(element, which);
    var content = style.content;
    if (!content || content === 'none' || content === 'normal' || isFaded(style) || style.visibility !== 'visible') {
      return false;
    }
    var size = (parseFloat(style.width) || 0) * (parseFloat(style.height) || 0);
    return content.charAt(0) !== '"' || hasWords(content.slice(1, -1)) || paints(style, size >= whole);
  }

  function showsImage(image) {
    if (!image.complete) {
      return isLast;
    }
    return image.naturalWidth > 0 || /svg/.test(image.currentSrc || image.src);
  }

  function isDrawn(element) {
    return element.nodeType === 1 && INVISIBLE.indexOf(element.localName) < 0;
  }

  function showsItself(element, style, box, isRoot) {
    switch (element.localName) {
    case 'img': return showsImage(element);
    case 'svg': return some(element.childNodes, isDrawn);
    }
    return OPAQUE.indexOf(element.localName) >= 0 || paints(style, isRoot || area(box) >= whole);
  }

  function showsText(node, clip) {
    if (!hasWords(node.data)) {
      return false;
    }
    var range = document.createRange();
    range.selectNodeContents(node);
    return some(range.getClientRects(), function (box) {
      return part(box, clip);
    });
  }

  function some(list, test) {
    return Array.prototype.some.call(list, test);
  }

  function shows(element, outer) {
    nodes += 1;
    if (nodes > MOST_NODES) {
      return true;
    }
    if (INVISIBLE.indexOf(element.localName) >= 0) {
      return false;
    }
    var style = getStyle(element);
    if (isFaded(style, element)) {
      return false;
    }
    // The canvas of the page has the background of its root, or of its body if the root has none.
    var isRoot = element === document.documentElement || element === document.body;
    // A positioned box is not clipped by every box around it.
    var clip = /fixed|absolute/.test(style.position) ? view : outer;
    var box = isRoot ? view : part(element.getBoundingClientRect(), clip);
    var isVisible = style.visibility === 'visible';
    if (isVisible && box && showsItself(element, style, box, isRoot)) {
      return true;
    }
    if (!isRoot && style.overflowX !== 'visible' && !/inline$|contents/.test(style.display)) {
      clip = box;
    }
    // Firefox generates the alternative text of a broken image, also if it is empty.
    var mayGenerate = isVisible && clip && element.localName !== 'img';
    if (mayGenerate && (generates(element, '::before') || generates(element, '::after'))) {
      return true;
    }
    function isShown(node) {
      return node.nodeType === 1 ? shows(node, clip) : node.nodeType === 3 && isVisible && showsText(node, clip);
    }
    var shadow = element.shadowRoot || shadowRoots.get(element);
    return Boolean(shadow) && some(shadow.childNodes, isShown) || some(element.childNodes, isShown);
  }

  return shows(document.documentElement, view);
}

// Returns whether the page shows nothing to a user.
function isEmpty(isLast) {
  try {
    return hasWindow() && !showsSomething(isLast);
  } catch (error) {
    return false;
  }
}

var isLooking = false;

// Looks at a page that shows nothing yet, and calls `end` once: with whether it stayed blank. A page without frames is not displayed.
function look(end) {
  var frames = 0;
  var count = 0;
  isLooking = true;
  function each() {
    frames += 1;
    if (isLooking && frames < LOOK_PAUSES.length) {
      requestFrame(each);
    }
  }
  try {
    requestFrame(each);
  } catch (error) {
    // Without frames, there is no result.
  }
  function next() {
    setTimeout(function () {
      count += 1;
      var isLast = count === LOOK_PAUSES.length;
      var isBlank = isEmpty(isLast);
      if (isBlank && !isLast) {
        next();
      } else {
        isLooking = false;
        end(isBlank && frames > 1);
      }
    }, LOOK_PAUSES[count]);
  }
  next();
}

function reportScreen(isBlank) {
  return send('startupDidComplete', isBlank ? { screen: 'blank' } : {}).then(askAll, ignore);
}

function askAll(answer) {
  (answer.endpoints || []).forEach(ask);
}

// Confirms the start of a page. An empty page has some time to show something. The shell receives what it shows in the end, and when a
// blank page shows something later. The promise does not wait for that, because an application may mount when it is resolved.
function confirmStart(options) {
  var isMeant = options && options.blank === true;
  return send('startupDidComplete', isMeant || !isEmpty(false) ? {} : { screen: 'empty' }).then(function (answer) {
    askAll(answer);
    if (answer.look && !isLooking) {
      look(function (isBlank) {
        reportScreen(isBlank);
        if (isBlank) {
          lookLater(FIRST_LATER_LOOK);
        }
      });
    }
    return {};
  });
}

function isFilled() {
  try {
    return hasWindow() && showsSomething(true);
  } catch (error) {
    return false;
  }
}

function lookLater(pause) {
  setTimeout(function () {
    if (isFilled()) {
      reportScreen(false);
    } else {
      lookLater(Math.min(1.5 * pause, LONGEST_LATER_LOOK));
    }
  }, pause);
}
