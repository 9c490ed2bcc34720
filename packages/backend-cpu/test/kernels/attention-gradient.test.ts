// Tags: kernels, pure
import type { AttentionGradientArguments, DeviceHandle, FloatType } from "@backplane/core";
import { expect } from "chai";
import { attentionGradient } from "#src/kernels/attention-gradient/index.js";
import { asStored, types } from "../types.js";
import { describeEachTile, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadElements } from "./problems.js";

type Operand = "q" | "k" | "v" | "out" | "outGradient" | "logSumExp";
type Output = "qGradient" | "kGradient" | "vGradient";
type Shape = Omit<AttentionGradientArguments, Operand | Output | "dtype">;

const handle = 1 as DeviceHandle;
const operands = {
  ...{ q: handle, k: handle, v: handle, out: handle, outGradient: handle, logSumExp: handle },
  ...{ qGradient: handle, kGradient: handle, vGradient: handle },
} as const;
const outputs = ["qGradient", "kGradient", "vGradient"] as const;

describeEachTile("attentionGradient kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(attentionGradient.kernels, { ...options, workers: 3 });
  });

  const inputsFor = (shape: Shape, dtype: FloatType, seed: number): Record<Operand, Float32Array> => {
    const random = randomNumbers(seed);
    const { batch, heads, kvHeads = heads, queryLength, keyLength, headSize } = shape;
    const make = (count: number) =>
      asStored(
        dtype,
        Float32Array.from({ length: count }, () => random() * 2 - 1),
      );
    const queries = batch * heads * queryLength;
    const keys = batch * kvHeads * keyLength;
    return {
      ...{ q: make(queries * headSize), k: make(keys * headSize), v: make(keys * headSize) },
      ...{ out: make(queries * headSize), outGradient: make(queries * headSize) },
      // Every fifth query is said to see no key.
      logSumExp: Float32Array.from({ length: queries }, (_, i) => (i % 5 === 4 ? -Infinity : 1 + random())),
    };
  };

  const run = (shape: Shape, dtype: FloatType, inputs: Record<Operand, Float32Array>) => {
    const results = {
      qGradient: guardedOutput(bench, dtype, inputs.q.length),
      kGradient: guardedOutput(bench, dtype, inputs.k.length),
      vGradient: guardedOutput(bench, dtype, inputs.v.length),
    };
    const regions = Object.fromEntries([
      ...Object.entries(inputs).map(([name, values]) => [
        name,
        uploadElements(bench, name === "logSumExp" ? "f32" : dtype, values),
      ]),
      ...outputs.map((name) => [name, results[name].region]),
    ]);
    runOperation(
      ...([bench, attentionGradient] as const),
      resolveProblem("attentionGradient", { ...shape, ...operands, dtype }, regions),
    );
    return {
      ...{ qGradient: results.qGradient.read(), kGradient: results.kGradient.read() },
      vGradient: results.vGradient.read(),
    };
  };

  /** In f64; terms are below e in magnitude times those of a few products of numbers below 1. */
  const check = (shape: Shape, dtype: FloatType, seed: number): void => {
    const { batch, heads, kvHeads = heads, queryLength, keyLength, headSize, causal } = shape;
    const inputs = inputsFor(shape, dtype, seed);
    const scale = Math.fround(1 / Math.sqrt(headSize));
    const visible =
      causal === "lower-right" ? keyLength - queryLength : causal === "upper-left" ? 0 : keyLength;
    const expected: Record<Output, Float64Array> = {
      qGradient: new Float64Array(inputs.q.length),
      kGradient: new Float64Array(inputs.k.length),
      vGradient: new Float64Array(inputs.v.length),
    };
    for (let row = 0; row < batch * heads * queryLength; row++) {
      if (row % 5 === 4) continue;
      const head = Math.floor(row / queryLength);
      const group = Math.floor(head / heads) * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
      for (let j = 0; j < Math.min((row % queryLength) + visible + 1, keyLength); j++) {
        const [x, y] = [row * headSize, (group * keyLength + j) * headSize];
        let [score, change] = [0, 0];
        for (let d = 0; d < headSize; d++) {
          score += scale * inputs.q[x + d]! * inputs.k[y + d]!;
          change += inputs.outGradient[x + d]! * (inputs.v[y + d]! - inputs.out[x + d]!);
        }
        const p = Math.exp(score - inputs.logSumExp[row]!);
        for (let d = 0; d < headSize; d++) {
          expected.qGradient[x + d]! += scale * p * change * inputs.k[y + d]!;
          expected.kGradient[y + d]! += scale * p * change * inputs.q[x + d]!;
          expected.vGradient[y + d]! += p * inputs.outGradient[x + d]!;
        }
      }
    }
    const got = run(shape, dtype, inputs);
    for (const name of outputs)
      for (const [i, value] of expected[name].entries()) {
        const allowed = 2 ** -22 * (headSize + 40) * (keyLength + queryLength) + types[dtype].rounding(value);
        if (!(Math.abs(got[name][i]! - value) <= allowed))
          expect.fail(`${dtype} ${JSON.stringify(shape)} ${name}[${i}]: ${got[name][i]}, not ${value}`);
      }
  };

  const shapes: readonly Shape[] = [
    { batch: 1, heads: 1, queryLength: 1, keyLength: 1, headSize: 1 },
    { batch: 2, heads: 3, queryLength: 5, keyLength: 7, headSize: 3 },
    { batch: 1, heads: 4, kvHeads: 2, queryLength: 25, keyLength: 23, headSize: 17 },
    { batch: 1, heads: 1, queryLength: 140, keyLength: 134, headSize: 8 },
    { batch: 1, heads: 2, kvHeads: 1, queryLength: 33, keyLength: 265, headSize: 40 },
    { batch: 1, heads: 1, queryLength: 9, keyLength: 24, headSize: 130 },
    { batch: 1, heads: 1, queryLength: 48, keyLength: 3, headSize: 6 },
  ];
  for (const shape of shapes)
    for (const causal of [false, "upper-left", "lower-right"] as const)
      it(`${JSON.stringify(shape)} ${causal ? `causal ${causal}` : "unmasked"}`, () => {
        for (const dtype of ["f32", "f16"] as const) check({ ...shape, causal }, dtype, shape.headSize);
      });

  it("gives the same bits for any number of workers", async () => {
    const shape: Shape = { batch: 1, heads: 4, kvHeads: 2, queryLength: 60, keyLength: 50, headSize: 12 };
    const inputs = inputsFor(shape, "f32", 3);
    const first = run(shape, "f32", inputs);
    bench = await Workbench.create(attentionGradient.kernels, { ...options, workers: 1 });
    expect(run(shape, "f32", inputs)).to.deep.equal(first);
  });

  it("needs extra memory for tiles and a few numbers per query only", () => {
    const asked: number[][] = [];
    for (const length of [64, 6400]) {
      const own: number[] = [];
      const context = { ...bench.context, workspace: (bytes: number) => own.push(bytes) };
      const shape = { batch: 1, heads: 2, queryLength: length, keyLength: length, headSize: 8 };
      const regions = Object.fromEntries(
        Object.keys(operands).map((name) => [name, bench.alloc(4 * 2 * length * 8)]),
      );
      attentionGradient.plan(
        resolveProblem("attentionGradient", { ...shape, ...operands }, regions)!,
        context,
      );
      asked.push(own);
    }
    expect(asked.map(([logs]) => logs)).to.deep.equal([4 * 2 * 64 + 64, 4 * 2 * 6400 + 64]);
    expect(asked[0]!.at(-1)).to.equal(asked[1]!.at(-1));
  });
});
