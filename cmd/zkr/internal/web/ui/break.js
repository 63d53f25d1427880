// The dialog first asks zkr for the current state of a contender on the servers. Only then does its button delete.
import { $, age, element, name, names } from './text.js';

let asked = null; // the contender in the request
let holders = []; // of the queue
let looked = false; // the dialog shows the current state
let key = '';
let resting = 0; // the timer that re-enables the button

async function post(body) {
  const answer = await fetch('break', {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'Zkr-Key': key }, body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (answer.status === 401) key = '';
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function facts(c, alive) {
  const role = c.library === 'foreign' ? ' is not of a known recipe, at ' : c.place ? ' waits at place ' + c.place + ' at ' : ' holds at ';
  $('doomed').replaceChildren(...names([name(c)]), role, ...names([c.path]));
  $('facts').replaceChildren();
  for (const [term, text] of [['path', c.path], ['holder', holders.map(name).join(', ') || 'none'], ['node', c.node], ['token', c.token + ' (czxid)'],
    ['here for', age(c.since)], ['session', (c.session || 'none') + (alive ? ', ' + alive : '')]]) {
    $('facts').append(element('dt', '', term), element('dd', '', ...names([text])));
  }
}

function step(error) {
  $('key').parentElement.hidden = key !== '';
  $('refused').replaceChildren(...names(error ? [error.message] : []));
  $('really').textContent = looked ? 'Delete czxid ' + asked.token : 'Ask the servers';
}

export function ask(queue, c) {
  asked = { path: queue.path, token: c.token };
  holders = queue.holders;
  looked = false;
  clearTimeout(resting);
  $('really').disabled = false;
  facts({ ...c, path: queue.path });
  for (const id of ['alive', 'foreign']) { $(id).checked = false; $(id).closest('p').hidden = true; }
  for (const id of ['key', 'reason']) $(id).value = '';
  step();
  $('break').showModal();
  $(key ? 'reason' : 'key').focus();
  $('break').scrollTop = 0; // focusing has scrolled to the end
}

$('cancel').onclick = () => $('break').close();

// The button that had the focus may have been redrawn in the meantime.
$('break').onclose = () => {
  if (document.activeElement === document.body) document.querySelector(`.card [data-token="${asked.token}"]`)?.focus();
};

// Enter asks the servers; it neither cancels nor deletes.
$('break').onkeydown = (e) => {
  if (e.key !== 'Enter' || !e.target.matches('input')) return;
  e.preventDefault();
  if (!looked) $('really').click();
};

$('really').onclick = async () => {
  const what = asked;
  key = key || $('key').value.trim();
  try {
    if (looked) {
      const done = await post({ ...what, alive: $('alive').checked, foreign: $('foreign').checked, reason: $('reason').value, confirm: true });
      if (done.error) throw new Error(done.error);
      $('break').close();
      return;
    }
    const now = await post(what);
    if (what !== asked) return; // the dialog was closed, and reopened for another contender
    looked = true;
    $('really').disabled = true; // the second half of a double click must not delete
    clearTimeout(resting);
    resting = setTimeout(() => { $('really').disabled = false; }, 1000);
    facts(now, now.alive);
    $('alive').closest('p').hidden = now.alive !== 'alive';
    $('foreign').closest('p').hidden = now.library !== 'foreign';
    step();
  } catch (error) {
    step(error);
  }
};
