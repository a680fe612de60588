// Keeps pages live. Everything can be read without it.
//
// What a page asks of it stands in attributes:
//   data-live="session ID | workflow ID | sessions | workflows | types TYPE TYPE"  with  data-fragment="/path"
//       the content is fetched again when such a thing changes; data-sessions="ID ID" in it names sessions whose
//       messages it shows as well
//   data-every="MS"      content that is fetched again at most so often
//   data-following       in live content: it changes without an event, and is fetched again every second
//   data-copy="ID"       a button that copies the text of an element
//   data-confirm="Text"  a form that asks before it is sent
//   data-say             a text in live content that is told when it changes
//   data-over            in live content: what was told at the top of the page is not true any more
//   data-dialog="ID"     a button that opens a dialog; data-close is one in it that closes it
'use strict';
(() => {
  const body = document.body;
  const $ = (id) => document.getElementById(id);
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // ---- fragments ----------------------------------------------------------

  /** Fetches a piece of HTML that this server made; goes to the login page where the cookie has ended. */
  const fetchText = async (path, signal) => {
    const answer = await fetch(path, { signal, credentials: 'same-origin', cache: 'no-store' });
    if (answer.status === 401 || (answer.redirected && new URL(answer.url).pathname === '/login')) {
      location.assign('/login');
      throw new Error('logged out');
    }
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  };

  /** What was last put in: the same again changes nothing, and leaves what the user selected. */
  const shown = new WeakMap();

  /** Puts new content in, and leaves open what was open and the focus where it was. */
  const replace = (element, html) => {
    shown.set(element, html);
    const open = new Set(all('details[open][id]', element).map((one) => one.id));
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && (focused.id ? '#' + CSS.escape(focused.id)
      : focused.getAttribute('href') ? 'a[href="' + CSS.escape(focused.getAttribute('href')) + '"]' : null);
    const said = () => (element.querySelector('[data-say]') || {}).textContent;
    const before = said();
    element.innerHTML = html;
    if (said() !== before) say(said());
    if (element.querySelector('[data-over]')) for (const one of all('main > .notice.good[role=status]')) one.remove();
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
    const state = refreshing.get(element) || { runs: false, again: false, last: -Infinity };
    refreshing.set(element, state);
    if (state.runs) { state.again = true; return; }
    state.runs = true;
    do {
      const wait = state.last + (Number(element.dataset.every) || 200) - performance.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      state.again = false;
      state.last = performance.now();
      try {
        const html = await fetchText(element.dataset.fragment);
        if (isBusy(element)) element.dataset.stale = '1';
        else if (shown.get(element) !== html) replace(element, html);
      } catch (_) { /* the next event tries again */ }
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

  /** The server has ended the stream: the cookie may have ended, which this finds out. */
  const refused = () => { fetchText('/api/v1/sessions?limit=1').catch(() => {}); };

  /** A stream of this tab alone, where tabs cannot share one. */
  const connectAlone = () => {
    source = new EventSource('/api/v1/events' + (last ? '?after=' + encodeURIComponent(last) : ''));
    for (const kind of body.dataset.kinds.split(' ')) source.addEventListener(kind, take);
    source.onopen = () => tell(true);
    source.onerror = () => {
      tell(false);
      if (!source || source.readyState !== EventSource.CLOSED) return;
      disconnect();
      refused();
      retry = setTimeout(connect, 2000);
    };
  };

  /** The stream of all tabs, in events.js. Those of different logins do not share one. */
  const connectShared = () => {
    let worker;
    try { worker = new SharedWorker(body.dataset.worker, { name: body.dataset.login }); } catch (_) { return false; }
    const port = worker.port;
    source = { close: () => { port.postMessage({ leave: true }); port.close(); } };
    worker.onerror = () => {
      disconnect();
      isAlone = true;
      connect();
    };
    port.onmessage = ({ data }) => {
      if (data.event) {
        // Told again for the sake of another tab.
        if (last && Number(data.event.id) <= Number(last)) return;
        take({ lastEventId: data.event.id, data: data.event.data });
      } else if (data.refused) refused();
      else tell(data.live);
    };
    port.postMessage({ join: { after: last, kinds: body.dataset.kinds.split(' ') } });
    return true;
  };

  let isAlone = typeof SharedWorker === 'undefined' || !body.dataset.worker;
  const connect = () => {
    clearTimeout(retry);
    if (source || !body.dataset.kinds) return;
    if (isAlone || !connectShared()) connectAlone();
  };

  const disconnect = () => {
    if (source) source.close();
    source = null;
  };

  // Tabs that nobody sees do not follow for ever.
  let hiding = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.visibilityState === 'visible') connect();
    else hiding = setTimeout(disconnect, 60000);
  });
  addEventListener('pagehide', disconnect);
  addEventListener('pageshow', (event) => { if (event.persisted) connect(); });

  /** Whether a part of the page shows what is said in a session. */
  const shows = (element, session) => {
    const named = session && element.querySelector('[data-sessions]');
    return Boolean(named) && named.dataset.sessions.split(' ').includes(session);
  };

  const concerns = (element, told) => {
    // Nobody knows what changed there.
    if (told.type === 'DAMAGED') return true;
    const [kind, id, ...more] = element.dataset.live.split(' ');
    if (kind === 'types') return id === told.type || more.includes(told.type);
    if (kind === 'sessions') return Boolean(told.session_id);
    if (kind === 'workflows') return Boolean(told.workflow_id);
    if (kind === 'session') return told.session_id === id;
    if (kind === 'workflow') return told.workflow_id === id || shows(element, told.session_id);
    return false;
  };
  onEvent((told) => {
    for (const element of all('[data-live][data-fragment]')) {
      if (concerns(element, told)) refresh(element);
    }
  });

  setInterval(() => {
    if (document.visibilityState !== 'visible') return;
    for (const one of all('[data-fragment] [data-following]')) refresh(one.closest('[data-fragment]'));
  }, 1000);

  // ---- small things -------------------------------------------------------

  const say = (text) => {
    const place = $('said') || body.appendChild(Object.assign(document.createElement('p'), { id: 'said', className: 'sr' }));
    place.setAttribute('role', 'status');
    place.textContent = text;
  };

  /** Without a clipboard of the page's own, which it has only over https or on this computer. */
  const copyByHand = (text) => {
    const at = document.activeElement;
    const area = Object.assign(document.createElement('textarea'), { value: text, readOnly: true, className: 'sr' });
    body.append(area);
    area.focus({ preventScroll: true });
    area.select();
    let isCopied = false;
    try { isCopied = document.execCommand('copy'); } catch (_) { /* then it is told */ }
    area.remove();
    if (at) at.focus({ preventScroll: true });
    return isCopied;
  };

  const copying = new WeakMap();
  const copy = async (button) => {
    const place = $(button.dataset.copy);
    const text = place.textContent.trim();
    let isCopied = true;
    try { await navigator.clipboard.writeText(text); } catch (_) { isCopied = copyByHand(text); }
    // Then it is one key away.
    if (!isCopied) getSelection().selectAllChildren(place);
    const state = copying.get(button) || { name: button.textContent, timer: 0 };
    copying.set(button, state);
    clearTimeout(state.timer);
    button.textContent = isCopied ? 'Copied' : 'Not copied: press Ctrl+C';
    say(button.textContent);
    state.timer = setTimeout(() => { button.textContent = state.name; copying.delete(button); }, isCopied ? 1500 : 6000);
  };

  const wire = (root) => {
    for (const button of all('button[data-copy], button[data-dialog]', root)) button.hidden = false;
    for (const time of all('time[datetime]', root)) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) time.title = at.toLocaleString();
    }
  };

  /** The same words as the server has for it. */
  const ago = (at) => {
    const seconds = Math.floor((Date.now() - at) / 1000);
    const some = (count, unit) => count + ' ' + unit + (count === 1 ? '' : 's') + ' ago';
    if (seconds < 60) return 'just now';
    if (seconds < 3600) return some(Math.floor(seconds / 60), 'minute');
    if (seconds < 86400) return some(Math.floor(seconds / 3600), 'hour');
    return some(Math.floor(seconds / 86400), 'day');
  };
  setInterval(() => {
    for (const element of all('[data-stale]')) {
      if (isBusy(element)) continue;
      delete element.dataset.stale;
      refresh(element);
    }
    for (const time of all('time[datetime]')) {
      if (/^just now$| ago$/.test(time.textContent)) time.textContent = ago(new Date(time.dateTime));
    }
  }, 20000);

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

  // What was left alone while somebody typed in it is brought up to date when they leave.
  document.addEventListener('focusout', (event) => {
    const element = event.target.closest('[data-stale]');
    if (!element) return;
    setTimeout(() => {
      if (isBusy(element)) return;
      delete element.dataset.stale;
      refresh(element);
    }, 100);
  });

  // ---- search as you type -------------------------------------------------

  const searchAsYouType = () => {
    const form = $('find');
    const results = $('results');
    let waiting = 0;
    let running = null;
    const search = async () => {
      const fields = Array.from(new FormData(form)).filter(([, value]) => value !== '');
      const query = new URLSearchParams(fields).toString();
      if (running) running.abort();
      running = new AbortController();
      results.dataset.fragment = '/search/results?' + query;
      history.replaceState(null, '', query ? '/?' + query : '/');
      results.setAttribute('aria-busy', 'true');
      try {
        replace(results, await fetchText(results.dataset.fragment, running.signal));
        results.removeAttribute('aria-busy');
        const count = results.querySelector('[role=status]');
        if (count) say(count.textContent);
      } catch (_) { /* another search has begun, or the next event tries again */ }
    };
    const soon = (delay) => { clearTimeout(waiting); waiting = setTimeout(search, delay); };
    $('q').addEventListener('input', () => soon(120));
    form.addEventListener('change', (event) => { if (event.target.id !== 'q') soon(0); });
    form.addEventListener('submit', (event) => { event.preventDefault(); soon(0); });
    $('q').addEventListener('keydown', (event) => {
      const first = results.querySelector('.row-top > a');
      if (event.key === 'ArrowDown' && first) { event.preventDefault(); first.focus(); }
    });
  };

  // ---- a session ----------------------------------------------------------

  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;

  /** Adds what was said since, in order and once. */
  let adding = null;
  const addNew = () => {
    adding = (adding || Promise.resolve()).then(addNow).catch(() => {});
    return adding;
  };
  const addNow = async () => {
    if (!body.dataset.upto) return;
    const messages = $('messages');
    for (let more = true; more;) {
      const upto = body.dataset.upto;
      const part = document.createElement('template');
      part.innerHTML = await fetchText('/sessions/' + body.dataset.session + '/talk?after=' + upto);
      const stays = isAtEnd();
      let list = messages.querySelector('ol.talk');
      more = false;
      for (const item of all('ol.talk > li', part.content)) {
        if (item.dataset.seq && Number(item.dataset.seq) > Number(body.dataset.upto)) {
          body.dataset.upto = item.dataset.seq;
          more = true;
        }
        if ($(item.id)) continue;
        item.classList.add('new');
        list.append(item);
      }
      if ($('newest')) $('newest').href = '#m' + body.dataset.upto;
      const nothing = messages.querySelector('.nothing');
      if (nothing && list.children.length) nothing.remove();
      wire(list);
      if (stays) $('end').scrollIntoView({ block: 'end' });
    }
  };

  const line = (parent, name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    parent.append(element);
    return element;
  };

  const complain = (parent, text) => {
    const notice = Object.assign(line(parent, 'p', text), { className: 'notice bad' });
    notice.setAttribute('role', 'alert');
    return notice;
  };

  /** What went wrong with a request: a browser's own words for a server that is gone help nobody. */
  const why = (error) => (error instanceof TypeError ? 'the server does not answer' : error.message);

  /** Leaves a turn that came to nothing to be read, until the next one begins. */
  const leave = (box, agent, how) => {
    box.className = 'card over ' + how;
    box.replaceChildren();
    const by = line(box, 'p', '');
    by.className = 'by';
    line(by, 'strong', agent);
    by.append(' ');
    line(by, 'span', how).className = 'badge ' + (how === 'failed' ? 'failed' : 'plain');
  };

  /** What was sent from this page, by turn. */
  const sentHere = new Map();

  /** Gives a text back that the session does not have; beside what was written meanwhile. */
  const giveBack = (box, text) => {
    const prompt = $('prompt');
    if (prompt && (!prompt.value || prompt.value === text)) { prompt.value = text; return 'Your text is back in the box.'; }
    Object.assign(line(box, 'pre', text), { tabIndex: 0 });
    return 'Your text is here.';
  };

  /** Shows what an agent says and does while it does so. All of it is put in as text. */
  const followTurn = (box, id) => {
    const out = document.createElement('div');
    out.className = 'stream';
    box.insertBefore(out, box.querySelector('form'));
    const tools = new Map();
    let last = null;
    const write = (kind, text) => {
      if (!last || last.dataset.is !== kind) {
        last = line(out, 'div', '');
        last.dataset.is = kind;
        last.className = kind;
      }
      last.append(text);
    };
    const tool = (told) => {
      const known = tools.get(told.id) || {};
      const now = Object.assign(known, Object.fromEntries(Object.entries(told).filter(([, value]) => value != null)));
      if (!now.row) { now.row = line(out, 'div', ''); now.row.className = 'tool'; last = null; }
      tools.set(told.id, now);
      now.row.textContent = (now.title || now.kind || 'A tool') + (now.status ? ' · ' + now.status.replaceAll('_', ' ') : '');
    };
    const turn = new EventSource('/api/v1/turns/' + encodeURIComponent(id) + '/events');
    let seen = 0;
    turn.addEventListener('update', (event) => {
      // After a break the server begins anew.
      if (Number(event.lastEventId) <= seen) return;
      seen = Number(event.lastEventId);
      const stays = isAtEnd();
      const told = JSON.parse(event.data);
      if (told.is === 'text') write('text', told.text);
      else if (told.is === 'thought') write('thought', told.text);
      else if (told.is === 'tool') tool(told);
      else if (told.is === 'elsewhere') write('note', 'Another process has this conversation open; it was asked to send the message.');
      else if (told.is === 'question' || told.is === 'settled') showQuestions();
      else if (told.is === 'permission') write('note', 'Permission question: ' + told.title + ' (' + (told.answer.startsWith('allow') ? 'allowed' : 'refused') + ')');
      if (stays) $('end').scrollIntoView({ block: 'end' });
    });
    turn.addEventListener('over', async (event) => {
      turn.close();
      const told = JSON.parse(event.data);
      const isNear = isAtEnd();
      showQuestions();
      await addNew();
      const isCancelled = told.status === 'cancelled' || told.stop_reason === 'cancelled';
      if (told.status === 'failed' || isCancelled) {
        leave(box, told.agent, isCancelled ? 'cancelled' : 'failed');
        const sent = sentHere.get(id);
        const back = sent && told.is_recorded === false ? ' ' + giveBack(box, sent) : '';
        if (isCancelled) {
          line(box, 'p', (told.is_recorded === false ? 'Nothing of it was recorded.' : 'What was said until then is kept.') + back).className = 'soft small';
          say(told.agent + ' was cancelled.' + back);
        } else {
          complain(box, (told.error || 'The agent failed.') + back);
        }
      } else {
        box.remove();
        say(told.status === 'ended' ? 'The answer has arrived' : 'The server is stopping; what was said is kept');
      }
      if (isNear) $('end').scrollIntoView({ block: 'end' });
    });
    turn.onerror = async () => {
      if (turn.readyState !== EventSource.CLOSED) return;
      // The server has begun anew, or somebody is logged out: what became of it is in the session.
      const [agent, sent] = [box.dataset.agent || 'The agent', sentHere.get(id)];
      await addNew();
      showQuestions();
      leave(box, agent, 'failed');
      complain(box, 'The server was restarted meanwhile. What it has of this is above.' + (sent ? ' ' + giveBack(box, sent) : ''));
    };
  };

  const boxOf = (turn) => document.querySelector('[data-turn="' + CSS.escape(turn) + '"]');

  /** Shows what agents ask now, and follows turns that were begun elsewhere. */
  const showQuestions = async () => {
    const stays = isAtEnd();
    await refresh($('questions'));
    for (const one of all('[data-running]', $('questions'))) {
      const turn = one.dataset.running;
      if (!boxOf(turn)) followTurn(newBox({ turn_id: turn, agent: one.dataset.agent }), turn);
    }
    if (stays) $('end').scrollIntoView({ block: 'end' });
  };

  /** Sends JSON; gives what came of it. */
  const post = async (path, content, headers) => {
    const all = { 'Content-Type': 'application/json', ...headers };
    const answer = await fetch(path, { method: 'POST', headers: all, body: JSON.stringify(content) });
    if (answer.status === 401) location.assign('/login');
    return { ok: answer.ok, status: answer.status, told: await answer.json() };
  };

  /** Says so beside the questions, where it stays to be read: the question itself goes, and other news comes. */
  const tellTooLate = () => {
    const notice = document.createElement('p');
    Object.assign(notice, { id: 'too-late', className: 'notice' });
    notice.setAttribute('role', 'status');
    $('questions').after(notice);
    notice.textContent = 'Too late: it was answered, or the turn is over.';
  };

  /** Sends the answer of the button that was pressed; the question goes away when the server says so. */
  const answerLive = async (form, chosen) => {
    const { turn, question } = form.elements;
    const enable = (isOn) => { for (const button of all('button', form)) button.disabled = !isOn; };
    for (const old of [...all('[role=alert]', form), ...all('#too-late')]) old.remove();
    enable(false);
    try {
      const { ok, status, told } = await post('/api/v1/turns/' + encodeURIComponent(turn.value) + '/answers',
        { question_id: Number(question.value), option_id: Number(chosen.value) });
      if (!ok && status !== 404 && status !== 409) throw new Error(told.detail || told.title);
      if (!ok) tellTooLate();
      await showQuestions();
      if (ok) say('Answered');
      ($('questions').querySelector('button:enabled') || $('questions')).focus({ preventScroll: true });
      enable(true);
    } catch (error) {
      enable(true);
      complain(form, 'Not answered: ' + why(error));
      chosen.focus({ preventScroll: true });
    }
  };

  const newKey = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  };

  const newBox = (turn) => {
    for (const old of all('.over', $('turns'))) old.remove();
    const box = document.createElement('section');
    box.className = 'card turn';
    box.dataset.turn = turn.turn_id;
    box.dataset.agent = turn.agent;
    const by = line(box, 'p', '');
    by.className = 'by';
    line(by, 'strong', turn.agent + ' is answering…');
    if ('writes' in $('questions').dataset) line(line(box, 'form', ''), 'button', 'Cancel');
    $('turns').append(box);
    return box;
  };

  const sendLive = (form) => {
    let key = newKey();
    form.querySelector('.hint').hidden = false;
    $('prompt').addEventListener('input', () => { key = newKey(); });
    $('prompt').addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const button = form.querySelector('button[type=submit]');
      for (const old of all('#send-error')) old.remove();
      const text = $('prompt').value;
      button.disabled = true;
      try {
        const { ok, told } = await post('/api/v1/sessions/' + body.dataset.session + '/prompts',
          { prompt: text, agent: $('to').value || null }, { 'Idempotency-Key': key });
        if (!ok) throw new Error((told.detail || told.title) + (told.hint ? ' – ' + told.hint : ''));
        sentHere.set(told.turn_id, text);
        if ($('prompt').value === text) $('prompt').value = '';
        key = newKey();
        if (!boxOf(told.turn_id)) followTurn(newBox(told), told.turn_id);
      } catch (error) {
        const isGone = error instanceof TypeError;
        const words = isGone ? 'The server does not answer; your text is still here.' : 'Not sent: ' + error.message;
        complain(form, words).id = 'send-error';
      } finally {
        button.disabled = false;
      }
    });
  };

  const liveSession = () => {
    const id = body.dataset.session;
    onEvent((told) => {
      const isDamaged = told.type === 'DAMAGED';
      if (told.session_id !== id && !isDamaged) return;
      if (isDamaged || told.type === 'MESSAGES_APPENDED' || told.type === 'CONVERSATION_OPENED') addNew();
      // A turn may have begun elsewhere.
      if (told.type === 'CONVERSATION_OPENED') showQuestions();
      // A text may have been purged.
      if (isDamaged || told.type === 'SESSION_CHANGED') {
        fetchText($('messages').dataset.talk).then((html) => replace($('messages'), html)).catch(() => {});
      }
    });
    for (const box of all('[data-turn]')) followTurn(box, box.dataset.turn);
    $('turns').addEventListener('submit', (event) => {
      event.preventDefault();
      const turn = event.target.closest('[data-turn]').dataset.turn;
      const button = event.target.querySelector('button');
      button.disabled = true;
      fetch('/api/v1/turns/' + encodeURIComponent(turn) + '/cancel', { method: 'POST' }).catch((error) => {
        button.disabled = false;
        say('Not cancelled: ' + why(error));
      });
    });
    $('questions').addEventListener('submit', (event) => {
      event.preventDefault();
      answerLive(event.target, event.submitter);
    });
    if ($('send')) sendLive($('send'));
  };

  // ---- the login page -----------------------------------------------------

  if (body.dataset.page === 'login') {
    // Some paste the whole link.
    $('login').addEventListener('submit', () => { $('code').value = $('code').value.trim().replace(/^.*#/, ''); });
    const follow = () => {
      if (location.hash.length < 2) return;
      const code = decodeURIComponent(location.hash.slice(1)).replace(/^code=/, '');
      history.replaceState(null, '', location.pathname);
      $('code').value = code;
      $('login').requestSubmit();
    };
    // Whoever opens the link where this page is already shown does not load it again.
    addEventListener('hashchange', follow);
    follow();
  }

  if (body.dataset.page === 'sessions') searchAsYouType();
  if (body.dataset.page === 'session') liveSession();
  wire(document);
  connect();
})();
