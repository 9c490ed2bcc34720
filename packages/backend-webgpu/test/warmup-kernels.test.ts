// Tags: kernels, pure
import type { WebGpuBackend } from "@backplane/backend-webgpu";
import { assert } from "chai";
import { everything, openWatched } from "./watched.js";

describe("webgpu warmup", () => {
  let backend: WebGpuBackend;
  afterEach(() => backend.dispose());

  for (const [what, options] of [
    ["", {}],
    [" in segments", { limits: { maxStorageBufferBindingSize: 1 << 12 } }],
    [" by kernels that are forced", { variants: { gemm: "direct_8x16" } }],
  ] as const)
    it(`leaves nothing to compile to the calls of its plan${what}`, async () => {
      const watched = await openWatched(options);
      const { compiled } = watched;
      backend = watched.backend;
      const before = backend.memory();
      const progress: string[] = [];
      const report = await backend.warmup(everything, {
        onProgress: (ready, kernels) => progress.push(`${ready} of ${kernels}`),
      });
      assert.isEmpty(compiled.blocking);
      assert.isAbove(report.kernels, 10);
      assert.lengthOf(compiled.meanwhile, report.compiledPipelines);
      assert.deepEqual(
        progress,
        Array.from({ length: report.kernels }, (_, i) => `${i + 1} of ${report.kernels}`),
      );
      const { liveAllocations, reservedBytes } = backend.memory();
      assert.deepEqual([liveAllocations, reservedBytes], [0, before.reservedBytes]);
      await everything(backend);
      await everything(backend);
      await backend.synchronize();
      assert.deepEqual(compiled.blocking, []);
      assert.lengthOf(compiled.meanwhile, report.compiledPipelines);
      assert.deepEqual(await backend.warmup(everything), { kernels: report.kernels, compiledPipelines: 0 });
    });
});
