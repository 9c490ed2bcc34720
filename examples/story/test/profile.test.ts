import { SwitchableBackend } from "@backplane/core";
import { expect } from "chai";
import { profilerFor } from "#src/profile.js";
import { registry } from "./subjects.js";

describe("the profiler of backends without timestamps", () => {
  it("tells of each work alone, and of nothing between two", async () => {
    await using inner = new SwitchableBackend(registry, "cpu");
    await inner.init();
    const profiler = profilerFor(inner);
    const { backend } = profiler;
    const handle = backend.alloc(4);
    for (const calls of [2, 1]) {
      const { text, trace } = await profiler.measure(async (watch) => {
        for (let i = 0; i < calls; i++) backend.fill(handle, 1, 1);
        watch.waited(performance.now(), performance.now());
      });
      backend.fill(handle, 2, 1);
      expect(text).to.match(new RegExp(`^fill +${calls} `, "m"));
      const stretches = trace.traceEvents.filter(({ ph }) => ph === "X").map(({ name }) => name);
      expect(stretches.sort()).to.deep.equal([...Array(2 * calls).fill("fill"), "token"]);
    }
  });
});
