// One stream of events for all tabs of a browser: browsers have few connections for one server, and the seventh tab
// would wait for ever. This runs as a shared worker; app.js has a stream of its own where there are none.
//
// A tab sends { join: { after, kinds } } when it wants events from a number on, and { leave: true } when it does not.
// It is sent { event: { id, data } }, { live: true | false }, and { refused: true } when the server has ended the stream.
'use strict';

/** What was told lately: a tab that joins may have been made before some of it. */
const KEPT = 500;
const RETRY = 2000;

const ports = new Map();
const kinds = new Set();
let recent = [];
let source = null;
let isLive = false;
/** Everything after this number was told to those who were there; '' while nothing is known. */
let from = '';
let last = '';
let retry = 0;

const isAfter = (id, other) => other === '' || Number(id) > Number(other);
const all = (message) => { for (const port of ports.keys()) port.postMessage(message); };

const take = (event) => {
  if (event.lastEventId) last = event.lastEventId;
  const told = { id: event.lastEventId, data: event.data };
  recent.push(told);
  if (recent.length > KEPT) from = recent.shift().id;
  all({ event: told });
};

const disconnect = () => {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
  isLive = false;
};

const connect = () => {
  disconnect();
  source = new EventSource('/api/v1/events' + (last ? '?after=' + encodeURIComponent(last) : ''));
  for (const kind of kinds) source.addEventListener(kind, take);
  source.onopen = () => { isLive = true; all({ live: true }); };
  source.onerror = () => {
    isLive = false;
    all({ live: false });
    if (!source || source.readyState !== EventSource.CLOSED) return;
    disconnect();
    all({ refused: true });
    retry = setTimeout(connect, RETRY);
  };
};

const join = (port, { after, kinds: wanted }) => {
  ports.set(port, true);
  const isNew = wanted.some((kind) => !kinds.has(kind));
  for (const kind of wanted) kinds.add(kind);
  // Begin where this tab was made, if we have not, or if more has happened since than is kept here.
  const isMissed = after !== '' && from !== '' && isAfter(from, after);
  if (!source || isNew || isMissed) {
    if (!source || isMissed) {
      recent = [];
      from = last = after;
    }
    connect();
    return;
  }
  for (const told of recent) if (isAfter(told.id, after)) port.postMessage({ event: told });
  port.postMessage({ live: isLive });
};

const leave = (port) => {
  ports.delete(port);
  if (ports.size === 0) disconnect();
};

self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = ({ data }) => {
    if (data.join) join(port, data.join);
    else if (data.leave) leave(port);
  };
};
