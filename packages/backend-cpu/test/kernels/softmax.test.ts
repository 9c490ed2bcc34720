// Tags: kernels, pure
import {
  type DeviceHandle,
  type FloatType,
  floatTypes,
  type SoftmaxKind,
  type SoftmaxProblem,
  softmaxKinds,
} from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { planSoftmax, softmax } from "#src/kernels/softmax/index.js";
import { asStored, types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { float32FromBits, randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

type Extents = readonly [outer: number, length: number, inner: number];

interface Expected {
  readonly value: number;
  readonly bound: number;
}

/** The formula in f64, and the error that weights.wasm.ts derives. */
function reference(kind: SoftmaxKind, x: Float32Array, [outer, length, inner]: Extents): Expected[] {
  const results = new Array<Expected>(x.length);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (j: number) => (o * length + j) * inner + i;
      let most = Number.NEGATIVE_INFINITY;
      let isSpoilt = false;
      for (let j = 0; j < length; j++) {
        isSpoilt ||= Number.isNaN(x[at(j)]);
        most = Math.max(most, x[at(j)]!);
      }
      let [sum, mean] = [0, 0];
      for (let j = 0; j < length; j++) {
        const difference = x[at(j)]! - most;
        const weight = Math.exp(difference);
        sum += weight;
        if (weight > 0) mean -= weight * difference;
      }
      const ofSum = mean / sum + 2 + Math.min(length, 34);
      for (let j = 0; j < length; j++) {
        const difference = x[at(j)]! - most;
        const value = kind === "softmax" ? Math.exp(difference) / sum : difference - Math.log(sum);
        const own = Number.isFinite(difference) ? -difference : 0;
        const units = {
          softmax: Math.abs(value) * (own + 5 + ofSum),
          logSoftmax: own + ofSum + 1 + 3 * Math.min(Math.abs(value), 1e30),
        }[kind];
        results[at(j)] = { value: isSpoilt ? Number.NaN : value, bound: units * 2 ** -24 + 2 ** -148 };
      }
    }
  return results;
}

function check(got: Float32Array, expected: readonly Expected[], dtype: FloatType, label: string): void {
  expect(got.length).to.equal(expected.length);
  for (const [i, { value, bound }] of expected.entries()) {
    if (Object.is(got[i], value) || got[i] === value) continue;
    if (!(Math.abs(got[i]! - value) <= bound + types[dtype].rounding(value)))
      expect.fail(`${label}: element ${i} of ${expected.length} is ${got[i]}, not ${value}`);
  }
}

/** Rows of different spreads and heights, some with -Infinity among them. */
function samples([outer, length, inner]: Extents): Float32Array<ArrayBuffer> {
  const random = randomNumbers(length * 7 + inner);
  return Float32Array.from({ length: outer * length * inner }, (_, at) => {
    const row = Math.floor(at / inner / length) * inner + (at % inner);
    const isFirst = Math.floor(at / inner) % length === 0;
    if (random() < 0.05 && row % 3 === 1 && !isFirst) return Number.NEGATIVE_INFINITY;
    return (random() - 0.5) * [4, 30, 1, 200][row % 4]! + [0, 500, -900][row % 3]!;
  });
}

const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65].map((length): Extents => [7, length, 1]),
  ...[127, 128, 129, 255, 256, 257, 1023, 1025, 4097].map((length): Extents => [3, length, 1]),
  ...([
    [2, 32_768, 1],
    [2, 32_769, 1],
    [1, 70_001, 1],
    [22, 60_000, 1],
    [3000, 5, 1],
    [200, 150, 1],
  ] as const),
  ...([
    [1, 1, 9],
    [4, 1, 64],
    [3, 5, 2],
    [7, 3, 3],
    [2, 31, 15],
    [2, 33, 16],
    [1, 64, 41],
    [3, 9, 17],
  ] as const),
  ...([
    [1, 31, 513],
    [1, 33, 1030],
    [5000, 3, 3],
    [9, 2, 1000],
    [1, 2048, 18],
    [1, 2049, 18],
  ] as const),
  ...([
    [1, 2100, 270],
    [1, 20_000, 3],
    [2, 10_000, 2],
    [4, 2500, 17],
    [1, 64, 4100],
  ] as const),
];

describeEitherWay("softmax kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(softmax.kernels, { ...options, pages: 2048, workers: 3 });
  });

  const run = (
    kind: SoftmaxKind,
    dtype: FloatType,
    [outer, length, inner]: Extents,
    data: Float32Array,
    inPlace = false,
  ): Float32Array => {
    const output = guardedOutput(bench, dtype, data.length);
    const region = { ...output.region };
    let input = uploadElements(bench, dtype, data);
    if (inPlace) {
      const bytes = new Uint8Array(bench.memory.buffer);
      const from = input.memory.byteOffset + input.byteOffset;
      bytes.copyWithin(region.memory.byteOffset + region.byteOffset, from, from + input.byteLength);
      input = region;
    }
    const problem: SoftmaxProblem<CpuMemory> = { kind, dtype, outer, length, inner, input, output: region };
    const before = bench.bytes(input);
    bench.run(softmax.plan(problem, bench.context));
    if (!inPlace) expect(Buffer.compare(bench.bytes(input), before), "the input changed").to.equal(0);
    return output.read();
  };

  for (const shape of shapes)
    it(`of [${shape}], beside the input and in place`, () => {
      for (const dtype of floatTypes) {
        const data = asStored(dtype, samples(shape));
        for (const kind of softmaxKinds) {
          const expected = reference(kind, data, shape);
          const beside = run(kind, dtype, shape, data);
          check(beside, expected, dtype, `${kind} ${dtype}`);
          const inPlace = run(kind, dtype, shape, data, true);
          expect(Buffer.compare(Buffer.from(inPlace.buffer), Buffer.from(beside.buffer))).to.equal(0);
        }
      }
    });

  /** One of each kind of kernel. */
  const kernels: readonly Extents[] = [
    ...([
      [9, 41, 1],
      [9, 32_771, 1],
      [1, 70_000, 1],
    ] as const),
    ...([
      [2, 41, 19],
      [1, 3001, 19],
      [1, 20_000, 5],
    ] as const),
  ];

  it("makes rows NaN for a NaN of either sign, +Infinity, or nothing but -Infinity, and leaves others alone", () => {
    const above = Number.POSITIVE_INFINITY;
    for (const shape of kernels)
      for (const dtype of floatTypes)
        for (const kind of softmaxKinds) {
          const [outer, length, inner] = shape;
          const data = samples(shape);
          const rows = outer * inner;
          const put = (row: number, j: number, value: number) => {
            data[(Math.floor(row / inner) * length + j) * inner + (row % inner)] = value;
          };
          put(0, length - 1, Number.NaN);
          for (let j = 0; j < length; j++) put(rows - 1, j, -above);
          if (rows > 4) {
            put(1, 0, float32FromBits(0xffc00000));
            put(2, length >> 1, above);
            // A first block of nothing but -Infinity.
            for (let j = 0; j < length - 1; j++) put(3, j, -above);
          }
          const stored = asStored(dtype, data);
          const label = `${kind} ${dtype} of [${shape}]`;
          check(run(kind, dtype, shape, stored), reference(kind, stored, shape), dtype, label);
        }
  });

  it("keeps subnormal results and takes the extremes of f32", () => {
    const largest = (2 - 2 ** -23) * 2 ** 127;
    const one = (kind: SoftmaxKind, values: readonly number[]) => [
      ...run(kind, "f32", [1, values.length, 1], Float32Array.from(values)),
    ];
    const [, tiny] = one("softmax", [0, -100]);
    expect(Math.abs(tiny! - Math.exp(-100))).to.be.at.most(2 ** -149);
    expect(one("softmax", [largest, -largest, largest])).to.deep.equal([0.5, 0, 0.5]);
    expect(one("softmax", [-largest, Number.NEGATIVE_INFINITY])).to.deep.equal([1, 0]);
    expect(one("logSoftmax", [-largest, Number.NEGATIVE_INFINITY])).to.deep.equal([
      0,
      Number.NEGATIVE_INFINITY,
    ]);
    expect(one("logSoftmax", [largest, -largest])).to.deep.equal([0, Number.NEGATIVE_INFINITY]);
    expect(one("softmax", [2 ** -149, -(2 ** -149)])).to.deep.equal([0.5, 0.5]);
  });

  it("takes rows whose weights are all normal numbers next to others, in any order", () => {
    const length = 139;
    const spreads = [0, 86.9, 87, 87.01, 200, 87, 0];
    for (const dtype of floatTypes)
      for (const kind of softmaxKinds)
        for (const height of [0, 300, -300]) {
          // The smallest and the largest element of a row are in its last vector, which is not whole.
          const x = Float32Array.from({ length: spreads.length * length }, (_, at) => {
            const below = spreads[Math.floor(at / length)]!;
            const fromEnd = length - 1 - (at % length);
            return height - (fromEnd === 0 ? below : fromEnd === 1 ? 0 : below / 2);
          });
          const data = asStored(dtype, x);
          const shape = [spreads.length, length, 1] as const;
          check(run(kind, dtype, shape, data), reference(kind, data, shape), dtype, `${kind} ${dtype}`);
        }
  });

  it("keeps the weights of each worker apart, where the output would round them", () => {
    for (const shape of [
      [3000, 100, 1],
      [3, 200, 2000],
    ] as const) {
      const [outer, length, inner] = shape;
      const data = asStored("f16", samples(shape));
      const input = uploadElements(bench, "f16", data);
      const output = bench.alloc(input.byteLength);
      const spaces: { address: number; bytes: number }[] = [];
      const workspace = (bytes: number) => {
        const address = bench.context.workspace(bytes);
        spaces.push({ address, bytes });
        return address;
      };
      const problem = { kind: "softmax", dtype: "f16", outer, length, inner, input, output } as const;
      const launches = softmax.plan(problem, { ...bench.context, workspace });
      expect(launches.length).to.equal(1);
      expect(launches[0]!.chunks).to.be.at.least(3);
      bench.run(launches);
      const [{ address, bytes }] = spaces as [(typeof spaces)[number]];
      for (let worker = 0; worker < 3; worker++) {
        // All ones before, which is a NaN.
        const [first] = new Float32Array(bench.memory.buffer, address + (worker * bytes) / 3, 1);
        expect(first, `worker ${worker}`).to.be.within(0, 1);
      }
    }
  });

  it("sums a million equal weights as accurately as f32 holds the result", () => {
    const n = 1_000_000;
    for (const shape of [
      [1, n, 1],
      [1, n, 2],
    ] as const) {
      const data = new Float32Array(n * shape[2]).fill(-3);
      for (const [kind, exact] of [
        ["softmax", 1 / n],
        ["logSoftmax", -Math.log(n)],
      ] as const)
        for (const got of run(kind, "f32", shape, data))
          if (Math.abs(got - exact) > 2 ** -23 * Math.abs(exact))
            expect.fail(`${kind}: ${got}, not ${exact}`);
    }
  });
});

describe("softmax on threads", () => {
  async function results(threads: number): Promise<Buffer> {
    const backend = createCpuBackend({ threads });
    await backend.init();
    const parts: Buffer[] = [];
    for (const dtype of floatTypes)
      for (const kind of softmaxKinds)
        for (const shape of [
          [300, 90, 1],
          [2, 60_001, 1],
          [3, 70, 130],
          [1, 5000, 19],
        ] as const) {
          const data = types[dtype].encode(samples(shape));
          const handles: DeviceHandle[] = [backend.alloc(data.byteLength), backend.alloc(data.byteLength)];
          for (const handle of handles) backend.copyHtoD(handle, data);
          const [input, output] = handles as [DeviceHandle, DeviceHandle];
          backend.softmax({ kind, shape, axis: 1, dtype, input, output });
          backend.softmax({ kind, shape, axis: 1, dtype, input, output: input });
          for (const handle of handles) {
            const bytes = Buffer.alloc(data.byteLength);
            await backend.copyDtoH(bytes, handle);
            parts.push(bytes);
            backend.free(handle);
          }
          expect(Buffer.compare(parts.at(-1)!, parts.at(-2)!), "in place").to.equal(0);
        }
    await backend.dispose();
    return Buffer.concat(parts);
  }

  it("gives the same bits with 0, 1 and 2 threads", async () => {
    const inline = await results(0);
    expect(inline.equals(await results(1))).to.equal(true);
    expect(inline.equals(await results(2))).to.equal(true);
  });
});

describe("softmax plans", () => {
  const plan = (outer: number, length: number, inner: number) => planSoftmax({ outer, length, inner });

  it("keep what the cache holds whole, and give chunks enough to do", () => {
    expect(plan(16_384, 4096, 1)).to.include({ form: "whole", perChunk: 32 });
    expect(plan(2 ** 20, 64, 1)).to.include({ form: "whole", perChunk: 2048 });
    expect(plan(100, 10, 1)).to.include({ form: "whole", perChunk: 819 });
    expect(plan(32, 64, 4096)).to.include({ form: "whole", panelWidth: 512, panels: 8, perChunk: 4 });
    expect(plan(1, 2048, 4096)).to.include({ form: "whole", panelWidth: 16, panels: 256 });
  });

  it("read anything else in pieces, as many as there are workers to gain", () => {
    expect(plan(64, 2 ** 20, 1)).to.include({ form: "pieces", pieces: 1, pieceLength: 2 ** 20 });
    expect(plan(1, 2 ** 24, 1)).to.include({ form: "pieces", pieces: 64, pieceLength: 2 ** 18 });
    expect(plan(1, 40_000, 1)).to.include({ form: "pieces", pieces: 3, pieceLength: 16_384 });
    expect(plan(1, 4096, 16_384)).to.include({ form: "pieces", panelWidth: 256, panels: 64, pieces: 1 });
    expect(plan(1, 100_000, 2)).to.include({ form: "pieces", panelWidth: 2, panels: 1, pieces: 13 });
  });

  it("cover every row, column and line", () => {
    for (const [outer, length, inner] of shapes) {
      const { panels, panelWidth, pieces, pieceLength, perChunk } = plan(outer, length, inner);
      expect(panels * panelWidth).to.be.at.least(inner);
      expect((panels - 1) * panelWidth).to.be.below(inner);
      expect(pieces * pieceLength).to.be.at.least(length);
      expect((pieces - 1) * pieceLength).to.be.below(length);
      expect(perChunk).to.be.at.least(1);
      if (panels > 1) expect(panelWidth % 4).to.equal(0);
    }
  });
});
