// The event stream. A browser reconnects only after some failures, and waits forever for a peer that has vanished. This
// stream therefore reconnects whenever it fails or is silent.
const beat = 6000; // zkr sends an event at least every two seconds
const first = 30000; // the first event has all queues, which may take long on a busy machine, so the limit doubles with each attempt
const longest = 10000; // between two attempts

// follow calls hear with each message. It returns the state of the connection: since when it is lost, whether an attempt has failed since, and when the next one is.
export function follow(url, hear, changed) {
  const link = { lost: Date.now(), next: 0, failed: false };
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
      link.failed = false;
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
    link.failed = true;
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
