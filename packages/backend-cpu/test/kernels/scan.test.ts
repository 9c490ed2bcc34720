// Tags: kernels, pure
import { dtypeBytes, type ScanKind, type ScanProblem, scanKinds } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { scan } from "#src/kernels/scan/index.js";
import { codecs } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, uploadBits } from "./problems.js";

type Extents = readonly [outer: number, length: number, inner: number];
type ScanType = ScanProblem<unknown>["dtype"];

/** Around vectors, blocks, panels and pieces. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 1023, 4100].map((length): Extents => [3, length, 1]),
  [2000, 9, 1],
  [1, 70_001, 1],
  [2, 40_000, 1],
  [2, 1, 5],
  [3, 17, 2],
  [2, 9, 4],
  [1, 31, 513],
  [2, 25, 1030],
  [1, 20_000, 3],
  [300, 20, 17],
];

/** Whole numbers that no sum leaves the range of f16 with; 1 and -1 for products, 0 and 1 where there is no sign. */
function drawn(kind: ScanKind, dtype: ScanType, count: number): Float32Array<ArrayBuffer> {
  const random = randomNumbers(count);
  const low = dtype === "u32" ? 0 : -1;
  if (kind === "prod") return Float32Array.from({ length: count }, () => (random() < 0.999 ? 1 : low));
  if (kind === "sum")
    return Float32Array.from({ length: count }, (_, i) => (random() < 0.5 ? 0 : low && i % 2 ? -1 : 1));
  return Float32Array.from({ length: count }, () => Math.floor(random() * 2000) + 1000 * low);
}

const combine: Readonly<Record<ScanKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  prod: (a, b) => a * b,
  max: Math.max,
  min: Math.min,
};

const nothing = (kind: ScanKind, dtype: ScanType): number => {
  if (kind === "sum" || kind === "prod") return kind === "sum" ? 0 : 1;
  const least = { f32: -Infinity, f16: -Infinity, i32: -(2 ** 31), u32: 0 }[dtype];
  const most = { f32: Infinity, f16: Infinity, i32: 2 ** 31 - 1, u32: 2 ** 32 - 1 }[dtype];
  return kind === "max" ? least : most;
};

describeEitherWay("scan kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(scan.kernels, { ...options, pages: 1024, workers: 3 });
  });

  function run(
    problem: Pick<ScanProblem<CpuMemory>, "kind" | "dtype" | "exclusive" | "reverse">,
    [outer, length, inner]: Extents,
    data: Float32Array<ArrayBuffer>,
  ): ArrayLike<number> {
    const { encode, decode } = codecs[problem.dtype];
    const bytes = dtypeBytes[problem.dtype];
    const output = guardedBytes(bench, data.length * bytes, bytes);
    const regions = { input: uploadBits(bench, encode(data)), output: output.region };
    bench.run(scan.plan({ ...problem, outer, length, inner, ...regions }, bench.context));
    return decode(output.read());
  }

  for (const kind of scanKinds)
    it(`give every ${kind} of whole numbers, forward and back, with and without the element itself`, () => {
      for (const dtype of ["f32", "f16", "i32", "u32"] as const)
        for (const [i, shape] of shapes.entries()) {
          const [exclusive, reverse] = [i % 2 === 0, i % 4 < 2];
          const [outer, length, inner] = shape;
          // Sums of f16 above 2048 are not exact.
          const sums = kind === "sum" && dtype === "f16" && length > 3000;
          const data = sums
            ? new Float32Array(outer * length * inner)
            : drawn(kind, dtype, outer * length * inner);
          if (sums) for (let j = 0; j < data.length; j += 97) data[j] = 1;
          const expected = new Array<number>(data.length);
          for (let row = 0; row < outer * inner; row++) {
            let all = nothing(kind, dtype);
            for (let step = 0; step < length; step++) {
              const j = reverse ? length - 1 - step : step;
              const at = (Math.floor(row / inner) * length + j) * inner + (row % inner);
              const next = combine[kind](all, data[at]!);
              expected[at] = exclusive ? all : next;
              all = next;
            }
          }
          const got = run({ kind, dtype, exclusive, reverse }, shape, data);
          const wrong = expected.findIndex((value, at) => got[at] !== value);
          const label = `${dtype} [${shape}] ${exclusive} ${reverse}: element ${wrong}`;
          expect(wrong < 0 ? undefined : got[wrong], label).to.equal(expected[wrong]);
        }
    });

  it("keep a NaN from its place on, in pieces too", () => {
    for (const shape of [
      [2, 40_000, 1],
      [1, 20_000, 3],
    ] as const)
      for (const kind of scanKinds) {
        const [outer, length, inner] = shape;
        const data = new Float32Array(outer * length * inner).fill(1);
        const place = Math.floor(length / 2);
        for (let i = 0; i < inner; i++) data[place * inner + i] = Number.NaN;
        const got = run({ kind, dtype: "f32", exclusive: false, reverse: false }, shape, data);
        for (const j of [0, place - 1, place, length - 1])
          expect(Number.isNaN(got[j * inner]!), `${kind} [${shape}] ${j}`).to.equal(j >= place);
      }
  });
});

describe("scan on threads", () => {
  it("gives the same bits with 0, 1 and 3 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 1, 3]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const parts: Buffer[] = [];
      for (const dtype of ["f32", "f16"] as const)
        for (const shape of [
          [300, 500, 1],
          [1, 150_000, 1],
          [1, 5000, 30],
        ] as const) {
          const random = randomNumbers(3);
          const data = codecs[dtype].encode(Float32Array.from({ length: 150_000 }, () => random() - 0.5));
          const [input, output] = [backend.alloc(data.byteLength), backend.alloc(data.byteLength)];
          backend.copyHtoD(input, data);
          backend.scan({ kind: "sum", shape, axis: 1, dtype, input, output });
          const bytes = Buffer.alloc(data.byteLength);
          await backend.copyDtoH(bytes, output);
          parts.push(bytes);
        }
      await backend.dispose();
      results.push(Buffer.concat(parts));
    }
    for (const other of results.slice(1)) expect(other.equals(results[0]!)).to.equal(true);
  });
});
