// A worker that adds one to the shared number it is sent.
addEventListener("message", (event: MessageEvent<Int32Array>) => {
  Atomics.add(event.data, 0, 1);
  postMessage("done");
});
