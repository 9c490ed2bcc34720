// Tags: kernels, pure
import { dtypeBytes, type GatherProblem, type GatherType, gatherTypes } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import { chunkElements } from "#src/kernels/gather/gather.wasm.js";
import { chunkBytes, gather } from "#src/kernels/gather/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";

type Extents = Pick<GatherProblem<unknown>, "outer" | "length" | "count" | "inner">;

/** Rows around vectors and what the engine copies itself, pieces of a row, lines that chunks cut. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 255, 256, 257, 1024, 1027].map((inner) => ({
    ...{ outer: 2, length: 7, count: 9, inner },
  })),
  { outer: 1, length: 3, count: 2, inner: chunkBytes + 3 },
  { outer: 1, length: 2, count: 2, inner: 2 * chunkBytes + 20 },
  { outer: 3, length: 40, count: chunkElements - 1, inner: 1 },
  { outer: 2, length: 5, count: 3, inner: chunkElements - 7 },
  { outer: 1, length: 70_000, count: 40_000, inner: 3 },
];

function bytesOf(count: number, seed: number): Uint8Array<ArrayBuffer> {
  const random = randomNumbers(seed);
  return Uint8Array.from({ length: count }, () => 256 * random());
}

function indicesFor(count: number, length: number): Int32Array<ArrayBuffer> {
  const random = randomNumbers(length);
  const outside = [-1, length, -(2 ** 31), 2 ** 31 - 1];
  return Int32Array.from({ length: count }, () =>
    random() < 0.2 ? outside[Math.floor(4 * random())]! : Math.floor(random() * length),
  );
}

describeEitherWay("gather kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(gather.kernels, { ...options, pages: 1024, workers: 3 });
  });

  const upload = (bytes: Uint8Array) => {
    const region = bench.alloc(bytes.length);
    new Uint8Array(bench.memory.buffer).set(bytes, region.memory.byteOffset + region.byteOffset);
    return region;
  };

  const run = (dtype: GatherType, extents: Extents, perOuter: boolean, innerStride: 0 | 1): void => {
    const { outer, length, count, inner } = extents;
    const size = dtypeBytes[dtype];
    const axisStride = innerStride === 1 ? inner : 1;
    const outerStride = perOuter ? count * axisStride : 0;
    const source = bytesOf(outer * length * inner * size, length);
    const indices = indicesFor((perOuter ? outer : 1) * count * axisStride, length);
    const expected = new Uint8Array(outer * count * inner * size);
    for (let at = 0; at < outer * count * inner; at++) {
      const [row, i] = [Math.floor(at / inner), at % inner];
      const [o, j] = [Math.floor(row / count), row % count];
      const index = indices[o * outerStride + j * axisStride + i * innerStride]!;
      if (index < 0 || index >= length) continue;
      const from = ((o * length + index) * inner + i) * size;
      for (let byte = 0; byte < size; byte++) expected[at * size + byte] = source[from + byte]!;
    }
    const guards = 48;
    const whole = upload(new Uint8Array(expected.length + 2 * guards).fill(0xa5));
    const output = { ...whole, byteOffset: whole.byteOffset + guards, byteLength: expected.length };
    const problem: GatherProblem<CpuMemory> = {
      ...{ dtype, ...extents, outerStride, axisStride, innerStride },
      ...{ input: upload(source), indices: upload(new Uint8Array(indices.buffer)), output },
    };
    bench.run(gather.plan(problem, bench.context));
    const got = bench.bytes(whole);
    const image = new Uint8Array(got.length).fill(0xa5);
    image.set(expected, guards);
    const label = `${dtype} of ${JSON.stringify(extents)}, ${perOuter}, ${innerStride}`;
    expect(Buffer.compare(got, image), label).to.equal(0);
  };

  for (const extents of shapes)
    it(`of ${Object.values(extents).join(", ")}`, () => {
      for (const dtype of ["f32", "f16", "u8"] as const) {
        run(dtype, extents, true, 0);
        run(dtype, extents, false, 0);
        if (extents.inner > 1) run(dtype, extents, extents.outer > 1, 1);
      }
    });
});

describe("gather on threads", () => {
  it("gives the same bytes with 0 and 2 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 2]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const parts: Buffer[] = [];
      for (const dtype of gatherTypes)
        for (const [inner, perInner] of [
          [200, false],
          [200, true],
          [1, false],
        ] as const) {
          const [length, count] = [300, 400];
          const data = bytesOf(length * inner * dtypeBytes[dtype], inner);
          const places = indicesFor(count * (perInner ? inner : 1), length);
          const bytes = Buffer.alloc(count * inner * dtypeBytes[dtype]);
          const input = backend.alloc(data.byteLength);
          const indices = backend.alloc(places.byteLength);
          const output = backend.alloc(bytes.byteLength);
          backend.copyHtoD(input, data);
          backend.copyHtoD(indices, places);
          const indexShape = [count, perInner ? inner : 1];
          backend.gather({ shape: [length, inner], indexShape, dtype, input, indices, output });
          await backend.copyDtoH(bytes, output);
          parts.push(bytes);
        }
      await backend.dispose();
      results.push(Buffer.concat(parts));
    }
    expect(results[0]!.equals(results[1]!)).to.equal(true);
  });
});
