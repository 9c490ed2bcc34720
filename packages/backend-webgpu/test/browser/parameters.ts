import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { assert } from "chai";

const IMMEDIATES = "immediate_address_space";

describe("webgpu parameters in a browser", () => {
  for (const disableFeatures of [[], [IMMEDIATES]])
    it(`reach kernels${disableFeatures.length > 0 ? " without immediates" : ""}`, async () => {
      const backend = createWebGpuBackend({ disableFeatures });
      await backend.init();
      const [x, y] = [backend.alloc(64), backend.alloc(64)];
      backend.fill(x, 1, 16);
      for (let i = 1; i <= 100; i++) {
        // A number and a place of its own for each dispatch, and a table in between.
        const place = { handle: x, byteOffset: 4 * (i % 16) };
        backend.binary({ kind: "add", n: 1, a: place, b: { scalar: i }, output: place });
        if (i % 10 === 0)
          backend.binary({ kind: "mul", shapeA: [4, 4], shapeB: [4, 1], a: x, b: x, output: y });
      }
      const [left, products] = [new Float32Array(16), new Float32Array(16)];
      await Promise.all([backend.copyDtoH(left, x), backend.copyDtoH(products, y)]);
      const expected = Float32Array.from({ length: 16 }, () => 1);
      for (let i = 1; i <= 100; i++) expected[i % 16]! += i;
      assert.deepEqual(left, expected);
      assert.deepEqual(
        products,
        expected.map((value, i) => value * expected[Math.floor(i / 4)]!),
      );
      await backend.dispose();
    });
});
