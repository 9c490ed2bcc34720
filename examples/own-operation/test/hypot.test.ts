import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { describeBackend } from "@backplane/conformance";
import { BackendRegistry, download, SwitchableBackend, upload } from "@backplane/core";
import { hypot, hypotLaw, hypotOnCpu, hypotOnWebGpu } from "@backplane/example-own-operation";
import { assert } from "chai";

const providers = [
  webgpu({ kernels: [hypotOnWebGpu] }),
  cpu({ kernels: [hypotOnCpu], threads: 0 }),
  cpu({ kernels: [hypotOnCpu], threads: 2 }),
];

for (const [i, provider] of providers.entries())
  describeBackend(
    {
      name: `${provider.name} (${i}) with hypot`,
      create: () => provider.create(),
      options: { laws: [hypotLaw] },
    },
    { describe, it, before, after },
  );

describe("hypot", () => {
  it("runs on both backends, through a live swap, at every length", async () => {
    const registry = new BackendRegistry([
      webgpu({ kernels: [hypotOnWebGpu] }),
      cpu({ kernels: [hypotOnCpu] }),
    ]);
    const backend = new SwitchableBackend(registry);
    await backend.init();
    assert.equal(backend.current, "webgpu");
    for (const n of [1, 3, 4, 5, 16383, 16384, 16387, 70_000]) {
      const a = upload(backend, new Float32Array(n).fill(3));
      const b = upload(backend, new Float32Array(n).fill(-4));
      const output = backend.alloc(4 * n + 4);
      backend.fill(output, 7, n + 1);
      backend.run(hypot, { n, a, b, output });
      const other = backend.current === "webgpu" ? "cpu" : "webgpu";
      const swapped = backend.use(other);
      // 5 and 4 make the square root of 41, on whichever backend.
      backend.run(hypot, { n, a: b, b: output, output: a });
      const [first, second] = await Promise.all([
        download(backend, output, Float32Array, n + 1),
        download(backend, a, Float32Array, n),
        swapped,
      ]);
      assert.equal(backend.current, other);
      assert.isTrue(
        first.subarray(0, n).every((value) => Math.abs(value - 5) < 1e-5),
        `${n} elements`,
      );
      assert.equal(first[n], 7, "the element after the last");
      assert.isTrue(second.every((value) => Math.abs(value - Math.sqrt(41)) < 1e-5));
      for (const handle of [a, b, output]) backend.free(handle);
    }
    await backend.dispose();
  });

  it("is UNSUPPORTED where no kernel was given", async () => {
    const backend = cpu({ threads: 0 }).create();
    await backend.init();
    const [a, b, output] = [backend.alloc(4), backend.alloc(4), backend.alloc(4)];
    assert.isFalse(backend.supports(hypot));
    assert.throws(
      () => backend.run(hypot, { n: 1, a, b, output }),
      /hypot: dtype f32 is not available on cpu/,
    );
    await backend.dispose();
  });
});
