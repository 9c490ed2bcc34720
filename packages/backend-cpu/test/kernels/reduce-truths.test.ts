// Tags: kernels, pure
import { type DeviceHandle, type TruthReduceKind, truthReduceKinds } from "@backplane/core";
import { reduce } from "#src/kernels/reduce/reduce.js";
import { expectSameElements } from "../same-elements.js";
import { Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, runOperation, uploadBits } from "./problems.js";
import { keptPlaces, reductions } from "./shapes.js";

const handle = 1 as DeviceHandle;

describe("reduce kernels of truth values", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(reduce.kernels, { pages: 512 });
  });

  const check = (
    kind: TruthReduceKind,
    shape: readonly number[],
    axes: readonly number[],
    data: Uint8Array,
  ): void => {
    const count = shape.reduce((n, extent, axis) => (axes.includes(axis) ? n : n * extent), 1);
    const output = guardedBytes(bench, count, 1);
    const args = { kind, shape, axes, dtype: "u8" as const, input: handle, output: handle };
    const regions = { input: uploadBits(bench, data), output: output.region };
    runOperation(bench, reduce, resolveProblem("reduce", args, regions));
    const expected = new Uint8Array(count).fill(kind === "all" ? 1 : 0);
    const places = keptPlaces(shape, axes);
    data.forEach((x, i) => {
      if ((x !== 0) === (kind === "any")) expected[places[i]!] = kind === "any" ? 1 : 0;
    });
    expectSameElements(new Uint8Array(output.read()), expected, `${kind} of [${shape}] over [${axes}]`);
  };

  for (const { shape, axes } of reductions)
    it(`over [${axes}] of [${shape}]`, () => {
      const n = shape.reduce((x, y) => x * y, 1);
      const results = shape.reduce((x, extent, axis) => (axes.includes(axis) ? x : x * extent), 1);
      for (const kind of truthReduceKinds) {
        const next = randomNumbers(n);
        const share = Math.min((0.7 * results) / n, 0.5);
        const data = Uint8Array.from({ length: n }, (_, i) =>
          next() < share === (kind === "any") ? 2 ** (i % 8) : 0,
        );
        check(kind, shape, axes, data);
      }
    });

  it("does every length from 1 to 67, along rows and columns, with one decisive byte anywhere", () => {
    for (const kind of truthReduceKinds)
      for (let n = 1; n <= 67; n++) {
        const [usual, decisive] = kind === "any" ? [0, 128] : [1, 0];
        const values = new Uint8Array(n).fill(usual);
        check(kind, [n], [0], values);
        values[(5 * n) >> 3] = decisive;
        check(kind, [n], [0], values);
        const columns = Uint8Array.from({ length: 3 * n }, (_, i) =>
          i % 3 === 1 ? values[(i - 1) / 3]! : usual,
        );
        check(kind, [n, 3], [0], columns);
        const rows = new Uint8Array(3 * n).fill(usual);
        rows.set(values, n);
        check(kind, [3, n], [1], rows);
      }
  });
});
