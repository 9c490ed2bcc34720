// Every operation on operands above 128 MiB, the most that many devices bind, seen through windows of
// that length. Takes minutes on a software adapter, and a GiB of memory, so it is no test of the suite:
//   node dist-test/programs/above-bindings.js
// Prints a line for each operation; exits with 1 where a result is wrong.
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { DeviceHandle } from "@backplane/core";

const MEBIBYTE = 2 ** 20;
const bytes = 160 * MEBIBYTE;
const n = bytes / 4;
const backend = createWebGpuBackend({ limits: { maxStorageBufferBindingSize: 128 * MEBIBYTE } });
await backend.init();

/** Threes, but for three numbers: the first, the last, and one in the second window. */
const marks = { first: 0, middle: 2 ** 25 + 1, last: n - 1 };
const x = backend.alloc(bytes);
backend.fill(x, 3, n);
for (const [place, value] of [
  [marks.first, 5],
  [marks.middle, 11],
  [marks.last, 7],
] as const)
  backend.copyHtoD({ handle: x, byteOffset: 4 * place }, Float32Array.of(value));

/** A number at some place of a result, and how far from it the right one may be. */
type Expected = readonly [place: number, value: number, tolerance?: number];

async function check(
  name: string,
  count: number,
  expected: readonly Expected[],
  run: (output: DeviceHandle) => void,
): Promise<void> {
  const output = backend.alloc(4 * count);
  const start = performance.now();
  run(output);
  await backend.synchronize();
  const time = performance.now() - start;
  let verdict = "right";
  for (const [place, value, tolerance = 0] of expected) {
    const got = new Float32Array(1);
    await backend.copyDtoH(got, { handle: output, byteOffset: 4 * place });
    if (Math.abs(got[0]! - value) <= tolerance) continue;
    verdict = `WRONG: element ${place} is ${got[0]}, not ${value}`;
    process.exitCode = 1;
  }
  backend.free(output);
  console.log(`${name}: ${verdict}, ${Math.round(time)} ms`);
}

function filled(value: number, count: number): DeviceHandle {
  const handle = backend.alloc(4 * count);
  backend.fill(handle, value, count);
  return handle;
}

await check(
  "unary",
  n,
  [
    [marks.first, -5],
    [marks.middle, -11],
    [marks.middle + 1, -3],
    [marks.last, -7],
  ],
  (output) => backend.unary({ kind: "neg", n, input: x, output }),
);
await check(
  "binary",
  n,
  [
    [marks.first, 10],
    [marks.middle, 22],
    [marks.middle - 1, 6],
    [marks.last, 14],
  ],
  (output) => backend.binary({ kind: "add", n, a: x, b: x, output }),
);
await check("reduce of all", 1, [[0, 3 * n + 14, 16]], (output) =>
  backend.reduce({ kind: "sum", shape: [n], input: x, output }),
);
const columns = n / 1024;
await check(
  "reduce of the first axis",
  columns,
  [
    [0, 3074],
    [2, 3072],
    [marks.middle % columns, 3080],
    [columns - 1, 3076],
  ],
  (output) => backend.reduce({ kind: "sum", shape: [1024, columns], axes: [0], input: x, output }),
);
const k = 2 ** 14;
const ones = filled(1, k);
await check(
  "gemm with a large A",
  n / k,
  [
    [0, 3 * k + 2],
    [Math.floor(marks.middle / k), 3 * k + 8],
    [n / k - 1, 3 * k + 4],
  ],
  (c) => backend.gemm({ m: n / k, n: 1, k, a: x, b: ones, c }),
);
const depth = n / 4;
await check(
  "gemm with a long sum",
  16,
  [
    [0, 9 * depth + 16, 64],
    [1, 9 * depth + 6, 64],
    [15, 9 * depth + 40 + 112, 64],
  ],
  (c) => backend.gemm({ m: 4, n: 4, k: depth, a: x, b: x, c, transB: true }),
);
// The number in the second window is the second one of the last channel.
const [height, channels] = [2048, 5];
const width = n / channels / height;
const filter = filled(1, 9 * channels);
await check(
  "conv2d",
  height * width,
  [
    [0, 3 * 4 * channels + 2 + 8],
    [width * 1000 + 10, 3 * 9 * channels],
    [height * width - 1, 3 * 4 * channels + 4],
  ],
  (output) =>
    backend.conv2d({
      ...{ inputShape: [1, channels, height, width], filterShape: [1, channels, 3, 3] },
      ...{ padding: [1, 1, 1, 1], input: x, filter, output },
    }),
);
const headSize = 64;
const keyLength = n / headSize;
const q = filled(0, 4 * headSize);
await check(
  "attention",
  4 * headSize,
  [
    [0, 3 + 2 / keyLength, 1e-6],
    [1, 3 + 8 / keyLength, 1e-6],
    [4 * headSize - 1, 3 + 4 / keyLength, 1e-6],
  ],
  (out) => backend.attention({ batch: 1, heads: 1, queryLength: 4, keyLength, headSize, q, k: x, v: x, out }),
);
await backend.dispose();
