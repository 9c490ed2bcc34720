/** Returns an element of the page. Throws if the page has none of that id. */
export function byId<Kind extends Element = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no element #${id}`);
  return found as Element as Kind;
}

/** Lets the page handle its events and draw. */
export function turn(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
