// Tags: kernels, pure
import { evaluateCall } from "@backplane/conformance";
import { type FloatType, floatTypes, type NormalizeKind, normalizeKinds } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import { normalizeGradient, planNormalizeGradient } from "#src/kernels/normalize-gradient/index.js";
import { asStored } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

interface Call {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  readonly rows: number;
  readonly size: number;
  readonly given: boolean;
  readonly weight: boolean;
  readonly accumulate: boolean;
  readonly wanted: readonly ("inputGradient" | "weightGradient" | "biasGradient")[];
}

/** Around vectors, folds of rows and elements, chunks and pieces. */
const shapes: Readonly<Record<string, readonly (readonly [rows: number, size: number])[]>> = {
  "short rows": [
    [1, 1],
    [5, 3],
    [33, 31],
    [70, 129],
    [3, 257],
    [3000, 4],
    [7, 4099],
  ],
  "rows in pieces": [
    [3, 16_385],
    [18, 17_001],
  ],
};

const all = ["inputGradient", "weightGradient", "biasGradient"] as const;

/** What is asked for, by turns. */
const forms: readonly Pick<Call, "given" | "weight" | "accumulate" | "wanted">[] = [
  { given: true, weight: true, accumulate: false, wanted: all },
  { given: false, weight: true, accumulate: true, wanted: all },
  { given: false, weight: false, accumulate: false, wanted: ["inputGradient"] },
  { given: true, weight: true, accumulate: true, wanted: ["weightGradient"] },
  { given: false, weight: false, accumulate: false, wanted: ["biasGradient"] },
];

function samples({ kind, dtype, rows, size, given, weight }: Call): Readonly<Record<string, Float32Array>> {
  const random = randomNumbers(rows * 7 + size);
  const draw = (count: number, scale: number, type: FloatType = dtype) =>
    asStored(
      type,
      Float32Array.from({ length: count }, () => scale * (random() - 0.5)),
    );
  return {
    ...{ input: draw(rows * size, 4), outputGradient: draw(rows * size, 1) },
    ...(weight ? { weight: draw(size, 2) } : {}),
    ...(given ? { inverseDeviation: draw(rows, 3, "f32") } : {}),
    ...(given && kind === "layer" ? { mean: draw(rows, 1, "f32") } : {}),
  };
}

describeEitherWay("normalizeGradient kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(normalizeGradient.kernels, { ...options, pages: 4096, workers: 3 });
  });

  /** `over`: the input's gradient goes over this operand. */
  const run = (
    call: Call,
    inputs: Readonly<Record<string, Float32Array>>,
    old: Float32Array,
    over?: "input" | "outputGradient",
  ): Readonly<Record<string, Float32Array>> => {
    const { kind, dtype, rows, size, accumulate, wanted } = call;
    const isStatistic = (name: string) => name === "mean" || name === "inverseDeviation";
    const regions = Object.fromEntries(
      Object.entries(inputs).map(([name, values]) => [
        name,
        uploadElements(bench, isStatistic(name) ? "f32" : dtype, values),
      ]),
    );
    const outputs = wanted.map((name) => {
      const output = guardedOutput(bench, dtype, name === "inputGradient" ? rows * size : size);
      const bytes = new Uint8Array(bench.memory.buffer);
      const to = output.region.memory.byteOffset + output.region.byteOffset;
      const source = name === "inputGradient" ? over && regions[over] : uploadElements(bench, dtype, old);
      if (source !== undefined) {
        const from = source.memory.byteOffset + source.byteOffset;
        bytes.copyWithin(to, from, from + source.byteLength);
      }
      if (name === "inputGradient" && over !== undefined) regions[over] = output.region;
      return [name, output] as const;
    });
    const names = Object.fromEntries(outputs.map(([name, { region }]) => [name, region]));
    const none = Object.fromEntries(
      [...all, "weight", "mean", "inverseDeviation"].map((name) => [name, undefined]),
    );
    const problem = { kind, dtype, rows, size, epsilon: Math.fround(1e-3), accumulate };
    bench.run(normalizeGradient.plan({ ...problem, ...none, ...regions, ...names } as never, bench.context));
    return Object.fromEntries(outputs.map(([name, output]) => [name, output.read()]));
  };

  for (const [what, list] of Object.entries(shapes))
    it(`of ${what}, beside the inputs and over either`, () => {
      // Of many elements, all gradients: with statistics, and without.
      for (const [[rows, size], dtype] of list.flatMap((shape) =>
        floatTypes.map((type) => [shape, type] as const),
      ))
        for (const kind of normalizeKinds)
          for (const form of rows * size > 2 ** 18 ? forms.slice(0, 2) : forms) {
            const call: Call = { kind, dtype, rows, size, ...form };
            const inputs = samples(call);
            const random = randomNumbers(size);
            const old = asStored(
              dtype,
              Float32Array.from({ length: size }, () => random()),
            );
            const { accumulate, wanted } = form;
            const got = run(call, inputs, old);
            const given = { ...inputs, ...(accumulate ? { weightGradient: old, biasGradient: old } : {}) };
            const expected = evaluateCall(
              "normalizeGradient",
              { kind, rows, size, epsilon: 1e-3, accumulate, dtype },
              Object.fromEntries(
                Object.entries(given).map(([name, values]) => [name, Float64Array.from(values)]),
              ),
              wanted,
            );
            for (const name of wanted) {
              const { values, tolerances } = expected[name]!;
              for (const [i, value] of values.entries())
                if (!(Math.abs(got[name]![i]! - value) <= tolerances[i]!))
                  expect.fail(
                    `${kind} ${dtype} ${rows}x${size}: element ${i} of ${name} is ${got[name]![i]}, not ${value}`,
                  );
            }
            if (form !== forms[0]) continue;
            for (const over of ["input", "outputGradient"] as const) {
              const inPlace = run(call, inputs, old, over);
              for (const name of wanted) {
                const [a, b] = [inPlace[name]!, got[name]!].map((list) => Buffer.from(list.buffer));
                expect(Buffer.compare(a!, b!), `${name} over ${over}`).to.equal(0);
              }
            }
          }
    });
});

describe("normalizeGradient on threads", () => {
  it("gives the same bits with 0, 1 and 2 threads", async () => {
    const [rows, size] = [3000, 67];
    const seen: Buffer[] = [];
    for (const threads of [0, 1, 2]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const random = randomNumbers(5);
      const upload = (count: number) => {
        const handle = backend.alloc(4 * count);
        backend.copyHtoD(
          handle,
          Float32Array.from({ length: count }, () => random() - 0.5),
        );
        return handle;
      };
      const weightGradient = backend.alloc(4 * size);
      backend.normalizeGradient({
        ...{ kind: "layer", rows, size, input: upload(rows * size), outputGradient: upload(rows * size) },
        ...{ weightGradient, inputGradient: backend.alloc(4 * rows * size) },
      });
      const bytes = new Uint8Array(4 * size);
      await backend.copyDtoH(bytes, weightGradient);
      seen.push(Buffer.from(bytes));
      await backend.dispose();
    }
    for (const bytes of seen) expect(Buffer.compare(bytes, seen[0]!)).to.equal(0);
  });
});

describe("normalizeGradient plans", () => {
  const plan = (rows: number, size: number, withSums = true) => {
    const { form, rowsPerChunk, rowBlocks, pieces, pieceLength } = planNormalizeGradient(
      rows,
      size,
      withSums,
    );
    return `${form}: ${rowBlocks} of ${rowsPerChunk}, ${pieces} of ${pieceLength}`;
  };

  it("keep rows whole that the cache holds, and have few chunks if each has sums", () => {
    expect(plan(16_384, 4096)).to.equal("rows: 64 of 256, 1 of 4096");
    expect(plan(2 ** 20, 64)).to.equal("rows: 64 of 16384, 1 of 64");
    expect(plan(5, 64)).to.equal("rows: 1 of 128, 1 of 64");
    expect(plan(100, 16_384)).to.equal("rows: 7 of 16, 1 of 16384");
    expect(plan(16_384, 4096, false)).to.equal("rows: 512 of 32, 1 of 4096");
  });

  it("cut columns of longer rows", () => {
    expect(plan(64, 2 ** 20)).to.equal("pieces: 1 of 64, 64 of 16384");
    expect(plan(64, 40_000)).to.equal("pieces: 4 of 16, 16 of 2500");
    expect(plan(5, 16_385)).to.equal("pieces: 1 of 5, 9 of 2048");
    expect(plan(2 ** 14, 40_000)).to.equal("pieces: 22 of 745, 3 of 13336");
  });
});
