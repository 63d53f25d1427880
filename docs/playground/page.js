// The page: it loads the program, moves its clock, passes on the reader's actions, and keeps all of them in the link.

import { World, load } from './clock.js';
import { Picture, drawQueue, drawStory, verdict } from './draw.js';

const $ = (id) => document.getElementById(id);

// What a reader can do to a process. which reports whether the action applies to a lane of the view now.
const ACTIONS = [
  { key: 't', verb: 'take', name: (v) => ({ rwlock: 'Take to write', semaphore: 'Take a lease', election: 'Take part' })[v.Recipe] ?? 'Take', which: (l) => l.State === 'idle' && !l.Frozen },
  { key: 'y', verb: 'read', name: () => 'Read', only: (v) => v.Recipe === 'rwlock', which: (l) => l.State === 'idle' && !l.Frozen },
  { key: 'g', verb: 'release', name: (v, l) => l.State === 'waits' ? 'Give up' : 'Give back', which: (l) => ['waits', 'holds', 'reads'].includes(l.State) && !l.Frozen },
  { key: 'c', verb: (l) => l.Cut ? 'heal' : 'cut', name: (v, l) => l.Cut ? 'Connect again' : 'Cut off', which: (l) => l.State !== 'stopped' },
  { key: 'l', verb: 'lose', name: () => 'Lose next reply', which: (l) => l.State !== 'stopped' && !l.Losing },
  { key: 'f', verb: (l) => l.Frozen ? 'wake' : 'freeze', name: (v, l) => l.Frozen ? 'Wake from freeze' : 'Freeze', which: (l) => l.State !== 'stopped' },
  { key: 'e', verb: 'expire', name: () => 'Expire session', which: (l) => l.Expires > 0 && l.State !== 'stopped' },
  { key: 'd', verb: 'delete', name: () => 'Delete its node', which: (l, v) => (v.Queue ?? []).some((c) => c.Name === l.Name) },
  { key: 's', verb: (l) => l.State === 'stopped' ? 'start' : 'stop', name: (v, l) => l.State === 'stopped' ? 'Start' : 'Stop cleanly', which: () => true },
  { key: 'k', verb: 'kill', name: () => 'Kill', which: (l) => l.State !== 'stopped' },
];

const page = {
  module: null, world: null, view: null, playing: false, dirty: true, last: 0, end: Infinity, turn: 0,
  link: new URLSearchParams(), chosen: 'anna', picture: new Picture($('lanes')),
};

// begin starts the world of the link.
async function begin() {
  page.link = new URLSearchParams(location.hash.slice(1) || $('scenes').firstElementChild.hash.slice(1));
  page.end = Number(page.link.get('end')) || Infinity;
  const scene = [...$('scenes').children].find((a) => a.hash.slice(1) === page.link.toString() || a.hash === location.hash || !location.hash && a === $('scenes').firstElementChild);
  for (const a of $('scenes').children) a.toggleAttribute('aria-current', a === scene);
  $('sentence').textContent = scene ? scene.querySelector('span').textContent : 'Your own scenario. Choose a process, and do something to it.';
  $('recipe').value = page.link.get('recipe') || 'mutex';
  $('n').value = page.link.get('n') || 4;
  $('limit').value = page.link.get('limit') || 2;
  $('rule').checked = page.link.get('rule') === '1';
  $('leases').hidden = $('recipe').value !== 'semaphore';
  if (!page.module) return;
  page.world = null;
  const turn = ++page.turn; // a reader may begin the next world before this one is ready
  try {
    const world = await World.begin(page.module, page.link.toString());
    if (turn !== page.turn) return;
    page.world = world;
  } catch (e) {
    fail(e);
    return;
  }
  $('said').textContent = '';
  $('loading').hidden = true;
  page.picture.measure();
  page.chosen = 'anna';
  play(!matchMedia('(prefers-reduced-motion: reduce)').matches);
  show();
}

function fail(e) {
  page.world = null;
  play(false);
  $('loading').hidden = false;
  $('loading').textContent = e.message.includes('DecompressionStream') ? 'This browser is too old for this page.' : e.message;
}

const errors = [];
const failed = (e) => {
  errors.push(String(e?.stack ?? e));
  fail(e instanceof Error ? e : new Error(String(e)));
};
addEventListener('error', (event) => failed(event.error ?? event.message));
addEventListener('unhandledrejection', (event) => failed(event.reason));

function play(on) {
  page.playing = on && page.world !== null;
  $('play').textContent = page.playing ? 'Pause' : 'Play';
  page.last = 0;
}

// show draws the present moment.
function show() {
  if (!page.world) return;
  const seconds = page.picture.seconds;
  page.view = page.world.view(page.world.now - (seconds.all - seconds.ahead) * 1000 - 1000);
  page.picture.draw(page.view, { chosen: page.chosen, rule: $('rule').checked, choose });
  drawQueue($('queue'), page.view);
  drawStory($('story'), page.view);
  drawHands();
  drawVerdict();
  $('clock').value = (page.world.now / 1000).toFixed(1) + ' s';
  if (page.view.Fault) $('said').textContent = 'The server has found a violation: ' + page.view.Fault;
  page.dirty = false;
}

// drawVerdict shows the outcome at the end of a scene.
function drawVerdict() {
  const over = page.world.now >= (Number(page.link.get('end')) || Infinity);
  $('verdict').hidden = !over;
  if (!over) return;
  const found = verdict(page.world.view(0), $('rule').checked);
  const text = found.map(([, words]) => words).join(' ');
  if ($('verdict').textContent === text) return; // a screen reader speaks each change
  $('verdict').replaceChildren(...found.flatMap(([kind, words]) => {
    const e = document.createElement('span');
    e.className = kind;
    e.textContent = words;
    return [e, ' '];
  }).slice(0, -1));
}

// drawHands draws the processes to choose from, and what can be done to the one that is chosen.
function drawHands() {
  const view = page.view, who = $('who');
  if (who.children.length !== view.Lanes.length) {
    who.replaceChildren(...view.Lanes.map((lane) => {
      const label = document.createElement('label');
      label.innerHTML = `<input type="radio" name="who" value="${lane.Name}"><i></i>${lane.Name}`;
      label.firstChild.onchange = () => choose(lane.Name);
      return label;
    }));
  }
  view.Lanes.forEach((lane, i) => {
    const label = who.children[i];
    label.firstChild.checked = lane.Name === page.chosen;
    label.children[1].className = lane.State;
  });
  const lane = view.Lanes.find((l) => l.Name === page.chosen) ?? view.Lanes[0];
  const wanted = ACTIONS.filter((a) => !a.only || a.only(view));
  if ($('actions').children.length !== wanted.length) {
    $('actions').replaceChildren(...wanted.map((action) => {
      const button = document.createElement('button');
      button.onclick = () => act(action);
      return button;
    }));
  }
  wanted.forEach((action, i) => {
    const button = $('actions').children[i], name = action.name(view, lane), text = `${name} ${action.key}`;
    button.disabled = !action.which(lane, view);
    if (button.dataset.text === text) return;
    button.dataset.text = text;
    button.setAttribute('aria-keyshortcuts', action.key);
    button.innerHTML = `${name} <kbd>${action.key.toUpperCase()}</kbd>`;
  });
}

function choose(name) {
  page.chosen = name;
  show();
}

// act does something to the chosen process and records it in the link, so that whoever opens the link sees the same.
function act(action) {
  const lane = page.view?.Lanes.find((l) => l.Name === page.chosen);
  if (!lane || action.only && !action.only(page.view) || !action.which(lane, page.view)) return;
  const verb = typeof action.verb === 'function' ? action.verb(lane) : action.verb;
  const refused = page.world.act(verb, page.chosen);
  if (refused) {
    $('said').textContent = `${page.chosen} ${refused}`;
    return;
  }
  $('said').textContent = '';
  const step = `${Math.round(page.world.now)}.${verb}.${page.chosen}`;
  const past = (page.link.get('do') ?? '').split(',').filter((s) => s && Number(s.split('.')[0]) <= page.world.now);
  const ahead = (page.link.get('do') ?? '').split(',').filter((s) => Number(s.split('.')[0]) > page.world.now);
  page.link.set('do', [...past, step, ...ahead].join(','));
  page.link.delete('end');
  page.end = Infinity;
  write();
  show();
}

// write puts the link into the address. Some places reject longer links, so beyond a length only its beginning is kept.
function write() {
  const text = page.link.toString().replaceAll('%2C', ',');
  if (text.length < 6000) history.replaceState(null, '', '#' + text);
}

function frame(at) {
  requestAnimationFrame(frame);
  if (!page.world) return;
  if (page.playing) {
    const passed = page.last ? Math.min(at - page.last, 100) * Number($('speed').value) : 0;
    page.last = at;
    const to = Math.min(page.world.now + passed, page.end);
    page.world.moveTo(to);
    if (to >= page.end) {
      page.end = Infinity;
      play(false);
      $('said').textContent = 'Playback continues from here. Now it is up to you.';
    }
    show();
  } else if (page.dirty) {
    show();
  }
}

function step() {
  if (!page.world) return;
  play(false);
  page.world.step();
  show();
}

// another opens the link with the settings of the form, such as another recipe or number.
function another() {
  const link = new URLSearchParams({ recipe: $('recipe').value, n: $('n').value });
  if ($('recipe').value === 'semaphore') link.set('limit', $('limit').value);
  if ($('rule').checked) link.set('rule', '1');
  location.hash = link;
}

$('play').onclick = () => play(!page.playing);
$('step').onclick = step;
$('restart').onclick = begin;
$('copy').onclick = async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    $('said').textContent = 'Link copied. It replays what you have done.';
  } catch {
    $('said').textContent = 'The address of this page is the link.';
  }
};
$('rule').onchange = () => {
  if ($('rule').checked) page.link.set('rule', '1'); else page.link.delete('rule');
  write();
  page.dirty = true;
};
$('recipe').onchange = () => { $('leases').hidden = $('recipe').value !== 'semaphore'; };
document.querySelector('form').onsubmit = (event) => {
  event.preventDefault();
  another();
};
addEventListener('hashchange', begin);
addEventListener('resize', () => {
  page.picture.measure();
  page.dirty = true;
});
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input:not([type="radio"]):not([type="checkbox"]), select')) return;
  const key = event.key.toLowerCase(), action = ACTIONS.find((a) => a.key === key);
  if (key === ' ' && !event.target.matches('button, a, input')) play(!page.playing);
  else if (key === '.') step();
  else if (key === 'r') begin();
  else if (action) act(action);
  else if (/^[1-8]$/.test(key) && page.view?.Lanes[key - 1]) choose(page.view.Lanes[key - 1].Name);
  else return;
  event.preventDefault();
});

// Tests move the clock themselves.
globalThis.playground = {
  get ready() { return page.world !== null; },
  get view() { return page.view; },
  get now() { return page.world.now; },
  begin, play, errors,
  show() { page.picture.measure(); show(); },
  moveTo(until) { page.world.moveTo(until); show(); },
  act(verb, who) { return page.world.act(verb, who); },
};

await begin();
requestAnimationFrame(frame);
try {
  page.module = await load('playground.wasm.gz', (part) => { const bar = document.querySelector('progress'); if (bar) bar.value = part * 100; });
} catch (e) {
  fail(e);
}
if (page.module) await begin();
