// What the page displays: names written by others, counts and times.
export const $ = (id) => document.getElementById(id);
export const clock = { skew: 0 }; // clock of zkr minus ours, in milliseconds

// shown escapes characters that reverse the text that follows or that are invisible. Emoji and Persian need the two joiners.
export const shown = (text) => String(text).replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));

// element never accepts HTML, because any client of ZooKeeper can write names.
export function element(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children.map((c) => c instanceof Node ? c : shown(c)));
  return e;
}

// names are isolated, so that right-to-left letters do not reorder their neighbours.
export const names = (list, between = ', ') => list.flatMap((text, i) => [i ? between : '', element('bdi', '', text)]);

export const last = (path) => path.slice(path.lastIndexOf('/') + 1);
export const name = (c) => c.id || last(c.node);
export const counted = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');

export function span(milliseconds) {
  const s = Math.max(0, milliseconds / 1000);
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' days';
}

export const age = (since) => span(Date.now() + clock.skew - Date.parse(since));

// aged returns an age that keeps counting.
export function aged(since) {
  const e = element('time', '', age(since));
  e.dateTime = since;
  e.title = new Date(since).toLocaleString();
  e.dataset.since = since;
  return e;
}

// own is the contender of this zkr while it leads. zkr knows the deadline of no other contender.
export const own = { node: '', until: 0 };
export const left = () => span(own.until - Date.now() - clock.skew);

export function at(time) {
  const e = element('time', '', new Date(time).toLocaleString());
  e.dateTime = time;
  return e;
}
