// Tags: kernels, pure
import {
  type ComputeBackend,
  type DeviceHandle,
  dtypeBytes,
  encodeFloat16,
  floatTypes,
  floatUnaryKinds,
  integerTypes,
} from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";

/** Problems of several chunks each, of every sort that uses scratch or a workspace. */
async function results(threads: number): Promise<Buffer> {
  const backend: ComputeBackend = createCpuBackend({ threads, transformedConvolutions: "4x4" });
  await backend.init();
  try {
    const n = 3 * 70 * 250;
    const numbers = Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898) * 3);
    const upload = (array: Float32Array | Uint16Array | Uint32Array): DeviceHandle => {
      const handle = backend.alloc(array.byteLength);
      backend.copyHtoD(handle, array);
      return handle;
    };
    const inputs = { f32: upload(numbers), f16: upload(encodeFloat16(numbers)) } as const;
    const outputs: { handle: DeviceHandle; bytes: number }[] = [];
    const push = (bytes: number): DeviceHandle => {
      const handle = backend.alloc(bytes);
      outputs.push({ handle, bytes });
      return handle;
    };
    for (const dtype of floatTypes) {
      const input = inputs[dtype];
      const output = (count: number): DeviceHandle => push(count * dtypeBytes[dtype]);
      for (const kind of floatUnaryKinds) backend.unary({ kind, dtype, n, input, output: output(n) });
      for (const kind of ["mod", "rem", "floorDiv", "atan2"] as const)
        backend.binary({ kind, dtype, n, a: input, b: input, output: output(n) });
      backend.map({
        ...{ shape: [3, 70, 250], inputs: [input, input], inputShapes: [undefined, [70, 1]], dtype },
        nodes: [{ input: 0 }, { input: 1 }, { unary: "sin", x: 0 }, { binary: "mul", a: 1, b: 2 }],
        ...{ results: [2, 3], outputs: [output(n), output(n)] },
      });
      const pow = { kind: "pow", dtype, shapeA: [3, 70, 250], shapeB: [70, 1] } as const;
      backend.binary({ ...pow, a: input, b: input, output: output(n) });
      for (const kind of ["sum", "max"] as const) {
        backend.reduce({ kind, dtype, shape: [n], input, output: output(1) });
        backend.reduce({ kind, dtype, shape: [n / 50, 50], axes: [0], input, output: output(50) });
        backend.reduce({ kind, dtype, shape: [3, 70, 250], axes: [1], input, output: output(750) });
      }
      for (const queryLength of [2, 70]) {
        const shape = { batch: 2, heads: 3, queryLength, keyLength: 110, headSize: 20 } as const;
        const out = output(2 * 3 * queryLength * 20);
        backend.attention({ ...shape, dtype, causal: "lower-right", q: input, k: input, v: input, out });
      }
      const shapes = { inputShape: [2, 6, 40, 50], filterShape: [70, 3, 3, 3] } as const;
      const image = { ...shapes, dtype, groups: 2, bias: input, input, filter: input } as const;
      backend.conv2d({ ...image, output: output(2 * 70 * 38 * 48) });
      const depthwise = { inputShape: [1, 6, 70, 70], filterShape: [6, 1, 3, 3], groups: 6 } as const;
      backend.conv2d({ ...depthwise, dtype, input, filter: input, output: output(6 * 68 * 68) });
      // Fewer output channels a chunk where there are more workers.
      const wide = { inputShape: [1, 8, 20, 20], filterShape: [200, 8, 1, 1] } as const;
      backend.conv2d({ ...wide, dtype, input, filter: input, output: output(200 * 400) });
    }
    // By transforms, whose filters are made once, or by each chunk for a few tiles.
    for (const [inputShape, filterShape] of [
      [
        [1, 6, 70, 70],
        [20, 6, 3, 3],
      ],
      [
        [1, 64, 14, 14],
        [64, 64, 3, 3],
      ],
    ] as const) {
      const convolution = { inputShape, filterShape, padding: [1, 1, 1, 1] } as const;
      const output = push(4 * filterShape[0] * inputShape[2] * inputShape[3]);
      backend.conv2d({ ...convolution, input: inputs.f32, filter: inputs.f32, output });
    }
    const bits = Uint32Array.from({ length: n }, (_, i) => Math.imul(i, 2654435761));
    const integers = upload(bits);
    for (const dtype of integerTypes) {
      const operands = { dtype, shapeA: [3, 70, 250], shapeB: [70, 1], a: integers, b: integers } as const;
      for (const kind of ["add", "div", "max"] as const)
        backend.binary({ kind, ...operands, output: push(4 * n) });
      backend.binary({ kind: "less", ...operands, output: push(n) });
      for (const kind of ["sum", "max"] as const) {
        backend.reduce({ kind, dtype, shape: [n], input: integers, output: push(4) });
        backend.reduce({ kind, dtype, shape: [n / 50, 50], axes: [0], input: integers, output: push(200) });
      }
    }
    for (const dtype of floatTypes)
      backend.binary({ kind: "greater", dtype, n, a: inputs[dtype], b: { scalar: 1 }, output: push(n) });
    const read = outputs.map(async ({ handle, bytes }) => {
      const target = new Uint8Array(bytes);
      await backend.copyDtoH(target, handle);
      return target;
    });
    return Buffer.concat(await Promise.all(read));
  } finally {
    await backend.dispose();
  }
}

describe("kernels on threads", () => {
  it("give the same bits with 0, 1 and 3 threads", async () => {
    const inline = await results(0);
    expect(inline.equals(await results(1))).to.equal(true);
    expect(inline.equals(await results(3))).to.equal(true);
  });
});
