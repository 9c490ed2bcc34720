// Tags: kernels, pure
import type { AttentionArguments, DeviceHandle, FloatType } from "@backplane/core";
import { expect } from "chai";
import { attention } from "#src/kernels/attention/attention.js";
import { asStored, types } from "../types.js";
import { describeEachTile, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadBits, uploadElements } from "./problems.js";

const handle = 1 as DeviceHandle;
const operands = { q: handle, k: handle, v: handle, out: handle } as const;

type Shape = Omit<AttentionArguments, "q" | "k" | "v" | "out" | "dtype">;

const epsilon = 2 ** -23;
const gamma = (n: number): number => (n * epsilon) / (1 - n * epsilon);

interface Inputs {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

describeEachTile("attention kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(attention.kernels, { ...options, workers: 3 });
  });

  const visibleTo = (shape: Shape, i: number): number => {
    const { causal = false, keyLength, queryLength } = shape;
    if (causal === false) return keyLength;
    const visible = causal === "lower-right" ? keyLength - queryLength : 0;
    return Math.min(Math.max(i + visible + 1, 0), keyLength);
  };

  const inputsFor = (shape: Shape, dtype: FloatType, seed: number, spread = 1): Inputs => {
    const random = randomNumbers(seed);
    const { batch, heads, kvHeads = heads, queryLength, keyLength, headSize } = shape;
    const make = (count: number, scale: number): Float32Array =>
      asStored(
        dtype,
        Float32Array.from({ length: count }, () => scale * (random() * 2 - 1)),
      );
    return {
      q: make(batch * heads * queryLength * headSize, spread),
      k: make(batch * kvHeads * keyLength * headSize, spread),
      v: make(batch * kvHeads * keyLength * headSize, 1),
    };
  };

  const run = (shape: Shape, dtype: FloatType, inputs: Inputs): Float32Array =>
    runBoth(shape, dtype, inputs, false).out;

  /** With the logarithms of the sums, if these are stored. */
  const runBoth = (shape: Shape, dtype: FloatType, inputs: Inputs, stores: boolean) => {
    const out = guardedOutput(bench, dtype, inputs.q.length);
    const logs = guardedOutput(bench, "f32", shape.batch * shape.heads * shape.queryLength);
    const regions = {
      q: uploadElements(bench, dtype, inputs.q),
      k: uploadElements(bench, dtype, inputs.k),
      v: uploadElements(bench, dtype, inputs.v),
      ...{ out: out.region, logSumExp: logs.region },
    };
    const given = { ...shape, ...operands, ...(stores ? { logSumExp: handle } : {}), dtype };
    runOperation(bench, attention, resolveProblem("attention", given, regions));
    return { out: out.read(), logs: logs.read() };
  };

  /** In f64, with the bound that the arithmetic admits: see the error analysis of the conformance suite. */
  const check = (shape: Shape, dtype: FloatType, inputs: Inputs, got = run(shape, dtype, inputs)): void => {
    const { batch, heads, kvHeads = heads, queryLength, keyLength, headSize } = shape;
    const scale = shape.scale ?? 1 / Math.sqrt(headSize);
    for (let b = 0; b < batch; b++)
      for (let h = 0; h < heads; h++) {
        const group = b * kvHeads + Math.floor(h / (heads / kvHeads));
        for (let i = 0; i < queryLength; i++) {
          const row = ((b * heads + h) * queryLength + i) * headSize;
          const count = visibleTo(shape, i);
          const scores: number[] = [];
          let worst = 0;
          for (let j = 0; j < count; j++) {
            let [sum, magnitude] = [0, 0];
            for (let d = 0; d < headSize; d++) {
              const product = scale * inputs.q[row + d]! * inputs.k[(group * keyLength + j) * headSize + d]!;
              sum += product;
              magnitude += Math.abs(product);
            }
            scores.push(sum);
            worst = Math.max(worst, gamma(headSize + 2) * magnitude);
          }
          const largest = scores.reduce((x, y) => Math.max(x, y), Number.NEGATIVE_INFINITY);
          const weights = scores.map((score) => Math.exp(score - largest));
          const total = weights.reduce((x, y) => x + y, 0);
          const farthest = scores.reduce((x, y) => Math.max(x, largest - y), 0);
          for (let d = 0; d < headSize; d++) {
            let [expected, magnitude, spread] = [0, 0, 0];
            weights.forEach((weight, j) => {
              const product = (weight / total) * inputs.v[(group * keyLength + j) * headSize + d]!;
              const x = largest - scores[j]!;
              expected += product;
              magnitude += Math.abs(product);
              spread += (weight / total) * (3 + 2 * x) * epsilon + Math.abs(product) * (3 + 2 * x) * epsilon;
            });
            const error = Math.expm1(2 * (worst + epsilon * farthest)) + 4 * epsilon + 2 * gamma(count);
            const tolerance = magnitude * error + spread + 2 ** -120 + types[dtype].rounding(expected);
            const value = got[row + d]!;
            if (!(Math.abs(value - expected) <= tolerance))
              expect.fail(
                `${dtype} ${JSON.stringify(shape)} [${b}, ${h}, ${i}, ${d}]: ${value}, not ${expected} +- ${tolerance}`,
              );
          }
        }
      }
  };

  const shapes: readonly Shape[] = [
    { batch: 1, heads: 1, queryLength: 1, keyLength: 1, headSize: 1 },
    { batch: 1, heads: 2, queryLength: 1, keyLength: 200, headSize: 64 },
    { batch: 2, heads: 3, queryLength: 5, keyLength: 7, headSize: 3 },
    { batch: 1, heads: 1, queryLength: 33, keyLength: 65, headSize: 8 },
    { batch: 1, heads: 4, kvHeads: 2, queryLength: 32, keyLength: 64, headSize: 64 },
    { batch: 2, heads: 6, kvHeads: 2, queryLength: 31, keyLength: 133, headSize: 17 },
    { batch: 1, heads: 2, kvHeads: 1, queryLength: 70, keyLength: 134, headSize: 80 },
    { batch: 1, heads: 1, queryLength: 9, keyLength: 63, headSize: 300 },
    { batch: 1, heads: 1, queryLength: 140, keyLength: 150, headSize: 8 },
    { batch: 1, heads: 1, queryLength: 40, keyLength: 3, headSize: 5, scale: 2 },
    { batch: 1, heads: 1, queryLength: 3, keyLength: 67, headSize: 12, scale: -0.7 },
    { batch: 2, heads: 4, kvHeads: 2, queryLength: 4, keyLength: 134, headSize: 35 },
    { batch: 1, heads: 2, queryLength: 5, keyLength: 66, headSize: 6 },
  ];
  for (const shape of shapes)
    for (const causal of [false, "upper-left", "lower-right"] as const)
      it(`${JSON.stringify(shape)} ${causal ? `causal ${causal}` : "unmasked"}`, () => {
        for (const dtype of ["f32", "f16"] as const) {
          const masked = { ...shape, causal };
          check(masked, dtype, inputsFor(masked, dtype, shape.headSize + shape.keyLength));
        }
      });

  it("stores the logarithms of the sums beside the same results", () => {
    for (const [queryLength, keyLength] of [
      [2, 200],
      [40, 140],
      [70, 37],
      [4, 2],
    ] as const)
      for (const dtype of ["f32", "f16"] as const) {
        const shape: Shape = {
          ...{ batch: 2, heads: 4, kvHeads: 2, queryLength, keyLength, headSize: 12, causal: "lower-right" },
        };
        const inputs = inputsFor(shape, dtype, 17, 3);
        const { out, logs } = runBoth(shape, dtype, inputs, true);
        expect(out).to.deep.equal(run(shape, dtype, inputs));
        for (const [row, got] of logs.entries()) {
          const group = Math.floor(row / queryLength / 2);
          let sum = 0;
          let magnitude = 0;
          for (let j = 0; j < visibleTo(shape, row % queryLength); j++) {
            let score = 0;
            for (let d = 0; d < 12; d++) {
              const product = inputs.q[row * 12 + d]! * inputs.k[(group * keyLength + j) * 12 + d]!;
              score += product / Math.sqrt(12);
              magnitude = Math.max(magnitude, 12 * Math.abs(product));
            }
            sum += Math.exp(score);
          }
          if (sum === 0) expect(got).to.equal(Number.NEGATIVE_INFINITY);
          else expect(got).to.be.closeTo(Math.log(sum), (40 + 20 * magnitude + keyLength) * epsilon);
        }
      }
  });

  it("keeps up with scores that rise and fall by hundreds", () => {
    for (const queryLength of [2, 20]) {
      const shape = { batch: 1, heads: 1, queryLength, keyLength: 300, headSize: 16 };
      check(shape, "f32", inputsFor(shape, "f32", 7, 12));
    }
  });

  it("never lets a hidden key or value in, not even a NaN", () => {
    for (const causal of ["upper-left", "lower-right"] as const)
      for (const [queryLength, keyLength] of [
        [37, 70],
        [70, 37],
        [8, 64],
        [134, 134],
      ] as const) {
        const shape = { batch: 1, heads: 1, queryLength, keyLength, headSize: 12, causal };
        const clean = inputsFor(shape, "f32", 11);
        const expected = run(shape, "f32", clean);
        // Poison all keys from some place on: the queries that do not see them must not change.
        for (const from of [1, 5, 36, 63]) {
          if (from >= keyLength) continue;
          const poisoned = { ...clean, k: clean.k.slice(), v: clean.v.slice() };
          poisoned.k.fill(Number.NaN, from * 12);
          poisoned.v.fill(Number.NaN, from * 12);
          const got = run(shape, "f32", poisoned);
          for (let i = 0; i < queryLength; i++)
            for (let d = 0; d < 12; d++) {
              const value = got[i * 12 + d];
              if (visibleTo(shape, i) <= from) expect(value, `query ${i}`).to.equal(expected[i * 12 + d]);
              else expect(value, `query ${i}`).to.be.NaN;
            }
        }
      }
  });

  it("gives zeros to a query that sees no key", () => {
    for (const [queryLength, keyLength] of [
      [40, 3],
      [4, 2],
    ] as const) {
      const shape = {
        batch: 1,
        heads: 1,
        queryLength,
        keyLength,
        headSize: 4,
        causal: "lower-right",
      } as const;
      const got = run(shape, "f32", inputsFor(shape, "f32", 13));
      const blind = 4 * (queryLength - keyLength);
      expect([...got.subarray(0, blind)].every((value) => Object.is(value, 0))).to.equal(true);
      expect(got[blind]).not.to.equal(0);
    }
  });

  it("takes no work for short because its heads are: each score takes its time", () => {
    for (const queryLength of [2, 8]) {
      const shape = { batch: 1, heads: 8, queryLength, keyLength: 2048 / queryLength, headSize: 1 };
      const region = bench.alloc(4 * 8 * 2048);
      const regions = { q: region, k: region, v: region, out: bench.alloc(4 * 8 * 2048) };
      const problem = resolveProblem("attention", { ...shape, ...operands }, regions)!;
      const [launch] = attention.plan(problem, bench.context);
      expect(launch!.nanoseconds).to.be.within(20_000, 200_000);
      expect(launch!.helpers).to.be.at.least(1);
    }
  });

  it("gives what it would without the last keys, if a mask hides them from few queries", () => {
    const keyLength = 70;
    for (const headSize of [8, 5])
      for (const seen of [0, 1, 15, 16, 17, 38, 53, 54, 55, 69, 70]) {
        const shape = { batch: 1, heads: 2, kvHeads: 1, queryLength: 2, keyLength, headSize };
        const { q, k, v } = inputsFor(shape, "f32", 17);
        // The first query of each head sees the first keys, the second one as many as the first one does not see.
        const lengths = [seen, keyLength - seen];
        const mask = lengths.flatMap((length) =>
          Array.from({ length: keyLength }, (_, j) => Number(j < length)),
        );
        const out = guardedOutput(bench, "f32", q.length);
        const regions = {
          ...{ q: uploadElements(bench, "f32", q), k: uploadElements(bench, "f32", k) },
          ...{ v: uploadElements(bench, "f32", v), mask: uploadBits(bench, Uint8Array.from(mask)) },
          out: out.region,
        };
        const masked = { mask: handle, maskDtype: "u8", maskStrides: [0, 0, keyLength, 1] } as const;
        const problem = resolveProblem("attention", { ...shape, ...operands, ...masked }, regions);
        runOperation(bench, attention, problem);
        const got = out.read();
        for (const [row, length] of [...lengths, ...lengths].entries()) {
          const part = got.subarray(row * headSize, (row + 1) * headSize);
          const query = q.subarray(row * headSize, (row + 1) * headSize);
          const inputs = {
            q: query,
            k: k.subarray(0, length * headSize),
            v: v.subarray(0, length * headSize),
          };
          const alone = { batch: 1, heads: 1, queryLength: 1, keyLength: length, headSize };
          if (length === 0) expect([...part]).to.deep.equal([...part].map(() => 0));
          else check(alone, "f32", inputs, part);
        }
      }
  });

  it("follows IEEE 754 where scores are infinite", () => {
    for (const queryLength of [1, 9]) checkInfinities(queryLength);
  });

  const checkInfinities = (queryLength: number): void => {
    const shape = { batch: 1, heads: 1, queryLength, keyLength: 134, headSize: 1, scale: 1 };
    const keys = (value: number, where: number): Float32Array => {
      const k = new Float32Array(134).fill(-Infinity);
      k[where] = value;
      return k;
    };
    const v = Float32Array.from({ length: 134 }, (_, i) => i);
    const q = new Float32Array(queryLength).fill(1);
    // All weight on the one finite score, in whichever tile it is.
    for (const where of [0, 1, 63, 64, 131, 132, 133])
      expect([...run(shape, "f32", { q, k: keys(3, where), v })]).to.deep.equal([...q].map(() => where));
    expect(run(shape, "f32", { q, k: keys(-Infinity, 0), v })[0]).to.be.NaN;
    expect(run(shape, "f32", { q, k: keys(Infinity, 100), v })[0]).to.be.NaN;
    expect(run(shape, "f32", { q, k: keys(Number.NaN, 5), v })[0]).to.be.NaN;
  };

  it("needs extra memory for tiles only", () => {
    const asked: number[] = [];
    const context = { ...bench.context, workspace: (bytes: number) => asked.push(bytes) };
    for (const length of [64, 6400]) {
      const shape = { batch: 1, heads: 2, queryLength: length, keyLength: length, headSize: 8 };
      const region = bench.alloc(4 * 2 * length * 8);
      const regions = { q: region, k: region, v: region, out: bench.alloc(region.byteLength) };
      attention.plan(resolveProblem("attention", { ...shape, ...operands }, regions)!, context);
    }
    expect(asked[0]).to.equal(asked[1]);
  });
});
