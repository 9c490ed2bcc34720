// Tags: kernels, pure
import {
  dtypeBytes,
  type ScatterKind,
  type ScatterProblem,
  type ScatterType,
  scatterKinds,
  scatterTypes,
} from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { planScatter, scatter } from "#src/kernels/scatter/index.js";
import { codecs } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, uploadBits } from "./problems.js";

type Extents = Pick<ScatterProblem<unknown>, "outer" | "length" | "count" | "inner">;

/** Rows around vectors, rows that workers share, some and many updates of them, columns that they share; more rows than one of them takes. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 19, 33, 127, 128, 130].map((inner) => ({
    ...{ outer: 2, length: 9, count: 14, inner },
  })),
  { outer: 1, length: 5, count: 9, inner: 4096 },
  { outer: 1, length: 5, count: 9, inner: 4097 },
  { outer: 1, length: 2, count: 3, inner: 20_000 },
  { outer: 7, length: 31, count: 40, inner: 200 },
  { outer: 1, length: 3000, count: 2000, inner: 131 },
  { outer: 1, length: 50, count: 1024, inner: 66 },
  { outer: 1, length: 70_000, count: 40_000, inner: 1 },
];

const combine: Readonly<Record<ScatterKind, (x: number, update: number) => number>> = {
  set: (_, update) => update,
  add: (x, update) => x + update,
  mul: (x, update) => x * update,
  max: Math.max,
  min: Math.min,
};

function indicesFor(count: number, length: number): Int32Array<ArrayBuffer> {
  const random = randomNumbers(length);
  const outside = [-1, length, -length, -(2 ** 31), 2 ** 31 - 1];
  return Int32Array.from({ length: count }, () =>
    random() < 0.2 ? outside[Math.floor(5 * random())]! : Math.floor(random() * length),
  );
}

/** Numbers whose f32 sums depend on their order; small whole ones for the other types. */
function drawn(
  dtype: ScatterType,
  kind: ScatterKind,
  count: number,
  seed: number,
): Float32Array<ArrayBuffer> {
  const random = randomNumbers(seed);
  return Float32Array.from({ length: count }, () => {
    if (dtype === "f32") return random() * 2 ** Math.floor(random() * 20 - 10);
    return Math.floor(random() * 3) + (kind === "mul" ? 0 : 1);
  });
}

describeEitherWay("scatter kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(scatter.kernels, { ...options, pages: 1024, workers: 3 });
  });

  const run = (
    dtype: ScatterType,
    kind: ScatterKind,
    extents: Extents,
    perOuter: boolean,
    innerStride: 0 | 1,
  ): void => {
    const { outer, length, count, inner } = extents;
    const axisStride = innerStride === 1 ? inner : 1;
    const outerStride = perOuter ? count * axisStride : 0;
    const indices = indicesFor((perOuter ? outer : 1) * count * axisStride, length);
    const updates = drawn(dtype, kind, outer * count * inner, inner);
    const before = drawn(dtype, kind, outer * length * inner, inner + 1);
    const expected = Array.from(before);
    const round = dtype === "f32" ? Math.fround : Number;
    for (const [at, update] of updates.entries()) {
      const [row, i] = [Math.floor(at / inner), at % inner];
      const [o, j] = [Math.floor(row / count), row % count];
      const index = indices[o * outerStride + j * axisStride + i * innerStride]!;
      if (index < 0 || index >= length) continue;
      const to = (o * length + index) * inner + i;
      expected[to] = round(combine[kind](expected[to]!, update));
    }
    const bytes = dtypeBytes[dtype];
    const output = guardedBytes(bench, before.length * bytes, bytes);
    const { memory, byteOffset, byteLength } = output.region;
    const bits = codecs[dtype].encode(before);
    new Uint8Array(bench.memory.buffer, memory.byteOffset + byteOffset, byteLength).set(
      new Uint8Array(bits.buffer),
    );
    const problem: ScatterProblem<CpuMemory> = {
      ...{ dtype, kind, ...extents, outerStride, axisStride, innerStride, output: output.region },
      ...{ indices: uploadBits(bench, indices), updates: uploadBits(bench, codecs[dtype].encode(updates)) },
    };
    bench.run(scatter.plan(problem, bench.context));
    const got = codecs[dtype].decode(output.read());
    const wrong = expected.findIndex((value, i) => got[i] !== value);
    const label = `${kind} ${dtype} of ${JSON.stringify(extents)}, ${perOuter}, ${innerStride}: element ${wrong}`;
    expect(wrong < 0 ? undefined : got[wrong], label).to.equal(expected[wrong]);
  };

  for (const extents of shapes)
    it(`of ${Object.values(extents).join(", ")}`, () => {
      const kinds = extents.count < 100 ? scatterKinds : (["set", "add"] as const);
      for (const dtype of scatterTypes)
        for (const kind of kinds) {
          run(dtype, kind, extents, true, 0);
          if (extents.inner > 1 && extents.count < 100) run(dtype, kind, extents, extents.inner % 2 === 0, 1);
        }
    });

  it("keeps the bits of what is set, those of NaN too", () => {
    const bits = Uint16Array.from([0x7c01, 0xfe01, 0xffff, 0x0001, 0x8000]);
    for (const innerStride of [0, 1] as const) {
      const output = guardedBytes(bench, 10, 2);
      const problem: ScatterProblem<CpuMemory> = {
        ...{
          dtype: "f16",
          kind: "set",
          outer: 1,
          length: 1,
          count: 1,
          inner: 5,
          outerStride: 0,
          axisStride: 1,
        },
        ...{ innerStride, updates: uploadBits(bench, bits), output: output.region },
        indices: uploadBits(bench, new Int32Array(5)),
      };
      bench.run(scatter.plan(problem, bench.context));
      expect(new Uint16Array(output.read())).to.deep.equal(bits);
    }
  });
});

describe("scatter on threads", () => {
  it("gives the same bits with 0, 1 and 3 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 1, 3]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const parts: Buffer[] = [];
      for (const dtype of scatterTypes)
        for (const [inner, perInner] of [
          [300, false],
          [300, true],
          [1, false],
        ] as const) {
          const [length, count] = [50, 900];
          const places = indicesFor(count * (perInner ? inner : 1), length);
          const data = codecs[dtype].encode(drawn(dtype, "add", count * inner, inner));
          const bytes = Buffer.alloc(length * inner * dtypeBytes[dtype]);
          const [indices, updates, output] = [places, data, bytes].map((array) => {
            const handle = backend.alloc(array.byteLength);
            backend.copyHtoD(handle, array);
            return handle;
          }) as [never, never, never];
          const indexShape = [count, perInner ? inner : 1];
          backend.scatter({
            kind: "add",
            shape: [length, inner],
            indexShape,
            dtype,
            indices,
            updates,
            output,
          });
          await backend.copyDtoH(bytes, output);
          parts.push(bytes);
        }
      await backend.dispose();
      results.push(Buffer.concat(parts));
    }
    for (const other of results.slice(1)) expect(other.equals(results[0]!)).to.equal(true);
  });
});

describe("scatter plans", () => {
  const plan = (outer: number, length: number, inner: number, workers: number, innerStride: 0 | 1 = 0) =>
    planScatter({ outer, length, inner, innerStride }, workers);

  it("share long rows between workers, and single elements by their columns", () => {
    expect(plan(1, 50_000, 1024, 1)).to.include({ ranges: 1, pieces: 1 });
    expect(plan(1, 50_000, 1024, 4)).to.include({ ranges: 4, rangeLength: 12_500, pieces: 1 });
    expect(plan(1, 50_000, 63, 4)).to.include({ ranges: 1, pieces: 1 });
    expect(plan(3, 50_000, 64, 2)).to.include({ ranges: 2, pieces: 1 });
    expect(plan(6, 50_000, 128, 4)).to.include({ ranges: 2, pieces: 1 });
    expect(plan(17, 50_000, 1024, 4)).to.include({ ranges: 1, pieces: 1 });
    expect(plan(1, 2, 100_000, 2)).to.include({ ranges: 1, pieces: 2, pieceLength: 50_000 });
    expect(plan(1, 50_000, 1024, 1, 1)).to.include({ ranges: 1, pieces: 16, pieceLength: 64 });
    expect(plan(4, 50_000, 1024, 1, 1)).to.include({ ranges: 1, pieces: 4, pieceLength: 256 });
  });

  it("cover every row and column", () => {
    for (const { outer, length, inner } of shapes)
      for (const workers of [1, 3, 8])
        for (const innerStride of [0, 1] as const) {
          const { ranges, rangeLength, pieces, pieceLength } = plan(
            outer,
            length,
            inner,
            workers,
            innerStride,
          );
          expect(ranges * rangeLength).to.be.at.least(length);
          expect((ranges - 1) * rangeLength).to.be.below(length);
          expect(pieces * pieceLength).to.be.at.least(inner);
          expect((pieces - 1) * pieceLength).to.be.below(inner);
        }
  });
});
