import { assert } from "chai";

addEventListener("message", ({ data }: MessageEvent<Int32Array>) => {
  try {
    assert.equal(data[0], 1);
    postMessage("it does");
  } catch (error) {
    postMessage((error as Error).message);
  }
});
