// Keeps pages live. Everything can be read without it.
//
// What a page asks of it stands in attributes:
//   data-live="session ID | workflow ID | sessions | workflows"  with  data-fragment="/path"
//       the content is fetched again when such a thing changes
//   data-copy="ID"       a button that copies the text of an element
//   data-confirm="Text"  a form that asks before it is sent
//   data-say             a text in live content that is told when it changes
//   data-dialog="ID"     a button that opens a dialog; data-close is one in it that closes it
'use strict';
(() => {
  const body = document.body;
  const $ = (id) => document.getElementById(id);
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // ---- fragments ----------------------------------------------------------

  /** Fetches a piece of HTML that this server made; goes to the login page where the cookie has ended. */
  const fetchText = async (path, signal) => {
    const headers = { 'X-Fragment': '1' };
    const answer = await fetch(path, { headers, signal, credentials: 'same-origin', cache: 'no-store' });
    if (answer.status === 401 || (answer.redirected && new URL(answer.url).pathname === '/login')) {
      location.assign('/login');
      throw new Error('logged out');
    }
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  };

  /** Puts new content in, and leaves open what was open and the focus where it was. */
  const replace = (element, html) => {
    const open = new Set(all('details[open][id]', element).map((one) => one.id));
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && (focused.id ? '#' + CSS.escape(focused.id)
      : focused.getAttribute('href') ? 'a[href="' + CSS.escape(focused.getAttribute('href')) + '"]' : null);
    const said = () => (element.querySelector('[data-say]') || {}).textContent;
    const before = said();
    element.innerHTML = html;
    if (said() !== before) say(said());
    for (const one of all('details[id]', element)) if (open.has(one.id)) one.open = true;
    if (place) {
      const again = element.querySelector(place);
      if (again) again.focus({ preventScroll: true });
    }
    wire(element);
  };

  /** Whether the user is typing or choosing in there: then it is left alone for now. */
  const isBusy = (element) => {
    const at = document.activeElement;
    return element.contains(at) && at.matches('input:not([type=checkbox]), textarea, select');
  };

  const refreshing = new WeakMap();
  const refresh = async (element) => {
    const state = refreshing.get(element) || { runs: false, again: false };
    refreshing.set(element, state);
    if (state.runs) { state.again = true; return; }
    state.runs = true;
    do {
      state.again = false;
      try {
        const html = await fetchText(element.dataset.fragment);
        if (!isBusy(element)) replace(element, html);
      } catch (_) { /* the next event tries again */ }
      if (state.again) await new Promise((done) => setTimeout(done, 200));
    } while (state.again);
    state.runs = false;
  };

  // ---- events -------------------------------------------------------------

  const listeners = [];
  const onEvent = (listener) => listeners.push(listener);
  let source = null;
  let last = body.dataset.after || '';
  let retry = 0;

  const tell = (isLive) => {
    const light = $('live');
    if (!light) return;
    light.hidden = false;
    light.classList.toggle('off', !isLive);
    light.textContent = isLive ? 'Live' : 'Reconnecting…';
  };

  const take = (event) => {
    if (event.lastEventId) last = event.lastEventId;
    let told;
    try { told = JSON.parse(event.data); } catch (_) { return; }
    for (const listener of listeners) listener(told);
  };

  const connect = () => {
    clearTimeout(retry);
    if (source || !body.dataset.kinds) return;
    source = new EventSource('/api/v1/events' + (last ? '?after=' + encodeURIComponent(last) : ''));
    for (const kind of body.dataset.kinds.split(' ')) source.addEventListener(kind, take);
    source.onopen = () => tell(true);
    source.onerror = () => {
      tell(false);
      if (!source || source.readyState !== EventSource.CLOSED) return;
      disconnect();
      // Refused: the cookie may have ended, which this finds out.
      fetchText('/agents').catch(() => {});
      retry = setTimeout(connect, 2000);
    };
  };

  const disconnect = () => {
    if (source) source.close();
    source = null;
  };

  // Browsers have few connections for one server: tabs that nobody sees give theirs back after a while.
  let hiding = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.visibilityState === 'visible') connect();
    else hiding = setTimeout(disconnect, 60000);
  });
  addEventListener('pagehide', disconnect);
  addEventListener('pageshow', (event) => { if (event.persisted) connect(); });

  const concerns = (what, told) => {
    const [kind, id] = what.split(' ');
    if (kind === 'sessions') return Boolean(told.session_id);
    if (kind === 'workflows') return Boolean(told.workflow_id);
    if (kind === 'session') return told.session_id === id;
    if (kind === 'workflow') return told.workflow_id === id;
    return false;
  };
  onEvent((told) => {
    for (const element of all('[data-live][data-fragment]')) {
      if (concerns(element.dataset.live, told)) refresh(element);
    }
  });

  // ---- small things -------------------------------------------------------

  const say = (text) => {
    const place = $('said') || body.appendChild(Object.assign(document.createElement('p'), { id: 'said', className: 'sr' }));
    place.setAttribute('role', 'status');
    place.textContent = text;
  };

  const copy = async (button) => {
    const text = $(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch (_) {
      getSelection().selectAllChildren($(button.dataset.copy));
      document.execCommand('copy');
    }
    const before = button.textContent;
    button.textContent = 'Copied';
    say('Copied');
    setTimeout(() => { button.textContent = before; }, 1500);
  };

  const wire = (root) => {
    for (const button of all('button[data-copy], button[data-dialog]', root)) button.hidden = false;
    for (const time of all('time[datetime]', root)) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) time.title = at.toLocaleString();
    }
  };

  document.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-copy]');
    if (button) copy(button);
    const opener = event.target.closest('button[data-dialog]');
    if (opener) $(opener.dataset.dialog).showModal();
    const closer = event.target.closest('button[data-close]');
    if (closer) closer.closest('dialog').close();
  });
  document.addEventListener('submit', (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    const at = document.activeElement;
    const isTyping = at && at.matches('input, textarea, select, [contenteditable]');
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && $('q')) {
      event.preventDefault();
      $('q').focus();
    } else if (event.key === 'j' || event.key === 'k') {
      const rows = all('.rows > li .row-top > a');
      const next = rows.indexOf(at) + (event.key === 'j' ? 1 : -1);
      if (rows[next]) rows[next].focus();
    }
  });

  // ---- the login page -----------------------------------------------------

  if (body.dataset.page === 'login' && location.hash.length > 1) {
    const code = decodeURIComponent(location.hash.slice(1)).replace(/^code=/, '');
    history.replaceState(null, '', location.pathname);
    $('code').value = code;
    $('login').requestSubmit();
  }

  wire(document);
  connect();
})();
