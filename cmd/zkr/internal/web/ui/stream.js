// The stream of events. A browser opens one again after some failures only, and waits for ever on a peer that has vanished. So
// this one is opened anew if it fails, or is silent.
const beat = 6000; // zkr sends an event every two seconds at least
const first = 30000; // the first event has all queues: on a busy machine it takes as long as it takes, so each try has twice as much
const longest = 10000; // between two tries

// follow calls hear with each message. It returns what is known of the connection: lost since when, and when it is tried again.
export function follow(url, hear, changed) {
  const link = { lost: Date.now(), next: 0 };
  let source, timer, tries = 0;
  const failAfter = (patience) => {
    clearTimeout(timer);
    timer = setTimeout(fail, patience);
  };
  const open = () => {
    source = new EventSource(url);
    source.onopen = () => failAfter(first * 2 ** tries);
    source.onerror = fail;
    source.onmessage = (e) => {
      tries = 0;
      link.lost = 0;
      failAfter(beat);
      hear(JSON.parse(e.data));
    };
    link.next = 0;
    failAfter(beat);
  };
  const fail = () => {
    source.close();
    clearTimeout(timer);
    const pause = Math.min(longest, 1000 * 2 ** tries++);
    link.lost ||= Date.now();
    link.next = Date.now() + pause;
    timer = setTimeout(open, pause);
    changed();
  };
  addEventListener('online', () => {
    if (!link.next) return;
    clearTimeout(timer);
    open();
  });
  open();
  return link;
}
