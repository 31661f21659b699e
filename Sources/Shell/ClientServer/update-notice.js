(function (texts, css, waitsForInput) {
  'use strict';
  function chosen() {
    var languages = navigator.languages || [navigator.language || ''];
    for (var index = 0; index < languages.length; index += 1) {
      var tag = String(languages[index]).toLowerCase();
      while (tag && !texts[tag]) { tag = tag.slice(0, Math.max(tag.lastIndexOf('-'), 0)); }
      if (tag) { return texts[tag]; }
    }
    return texts.en;
  }
  function add(root) {
    try {
      var sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      root.adoptedStyleSheets = [sheet];
    } catch (error) {
      var style = document.createElement('style');
      style.textContent = css;
      root.appendChild(style);
    }
  }
  function show() {
    var bar = document.createElement('div');
    bar.id = 'clientctl-update-required';
    bar.setAttribute('role', 'status');
    bar.style.cssText = 'position:fixed;top:0;left:0;right:0;z-index:2147483647';
    var root = bar.attachShadow({ mode: 'open' });
    add(root);
    var notice = document.createElement('div');
    notice.className = 'notice';
    var text = document.createElement('span');
    text.textContent = chosen()[0];
    var button = document.createElement('button');
    button.type = 'button';
    button.textContent = chosen()[1];
    button.addEventListener('click', function () { bar.remove(); });
    notice.append(text, button);
    root.appendChild(notice);
    document.documentElement.appendChild(bar);
  }
  var inputs = ['pointerdown', 'touchstart', 'keydown'];
  function showAfterInput(event) {
    if (!event.isTrusted) { return; }
    inputs.forEach(function (name) { window.removeEventListener(name, showAfterInput, true); });
    show();
  }
  if (waitsForInput) {
    inputs.forEach(function (name) { window.addEventListener(name, showAfterInput, true); });
  } else if (document.readyState === 'loading') {
    document.addEventListener('DOMContentLoaded', show);
  } else {
    show();
  }
})
