// Tags: kernels, pure
import { type DeviceHandle, decodeFloat16, type MapArguments, type MapNode } from "@backplane/core";
import { expect } from "chai";
import { maxParameters } from "#src/kernels/kernel.js";
import { map } from "#src/kernels/map/index.js";
import { unary } from "#src/kernels/unary/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { guardedBytes, resolveProblem, uploadBits } from "./problems.js";

const handle = 1 as DeviceHandle;

type Bits = Float32Array | Uint16Array | Int32Array | Uint32Array;
type Given = Omit<MapArguments, "inputs" | "outputs" | "results"> & { readonly results: readonly number[] };

const bytesOf = { f32: 4, f16: 2, i32: 4, u32: 4, u8: 1 } as const;

describeEitherWay("map kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    // The scratch of kernels that are made late is that of the kernels that are there.
    bench = await Workbench.create([...unary.kernels, ...map.kernels].flat(), { ...options, pages: 1024 });
  });

  const problemOf = (args: Given, inputs: readonly Bits[], offset: number) => {
    const n = args.shape.reduce((product, extent) => product * extent, 1);
    const outputTypes = args.outputTypes ?? args.results.map(() => args.dtype ?? "f32");
    const outputs = outputTypes.map((dtype) =>
      guardedBytes(bench, n * bytesOf[dtype], offset * bytesOf[dtype]),
    );
    const regions = Object.fromEntries([
      ...inputs.map((bits, i) => [`inputs[${i}]`, uploadBits(bench, bits)] as const),
      ...outputs.map(({ region }, j) => [`outputs[${j}]`, region] as const),
    ]);
    const operands = { inputs: inputs.map(() => handle), outputs: outputs.map(() => handle) };
    return { outputs, problem: resolveProblem("map", { ...args, ...operands } as MapArguments, regions)! };
  };

  /** Returns the bytes of each output. */
  const run = (args: Given, inputs: readonly Bits[], workers = 1, offset = 1): readonly ArrayBuffer[] => {
    const { outputs, problem } = problemOf(args, inputs, offset);
    bench.run(map.plan(problem, { ...bench.context, workers }));
    return outputs.map((output) => output.read());
  };

  const floats = (n: number, step: number): Float32Array =>
    Float32Array.from({ length: n }, (_, i) => ((i * step) % 97) - 48);
  const nodes: readonly MapNode[] = [
    { input: 0 },
    { input: 1 },
    { parameter: 0 },
    { binary: "mul", a: 0, b: 2 },
    { binary: "add", a: 3, b: 1 },
    { binary: "less", a: 0, b: 1 },
    { select: 5, a: 0, b: 1 },
  ];

  it("computes several outputs of exactly n elements, on both sides of every threshold", () => {
    const counts = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const n of [...counts, 1023, 1024, 1025, 1031, 8191, 8192, 8193, 20_001])
      for (const workers of n > 1000 ? [1, 3] : [1]) {
        const [a, b] = [floats(n, 7), floats(n, 5)];
        const args = { shape: [n], nodes, results: [4, 6, 5], outputTypes: ["f32", "f32", "u8"] } as const;
        const [sums, least, isLess] = run({ ...args, parameters: [3] }, [a, b], workers, n % 5);
        expect(new Float32Array(sums!)).to.deep.equal(a.map((x, i) => 3 * x + b[i]!));
        expect(new Float32Array(least!)).to.deep.equal(a.map((x, i) => Math.min(x, b[i]!)));
        expect([...new Uint8Array(isLess!)]).to.deep.equal([...a].map((x, i) => Number(x < b[i]!)));
      }
  });

  it("converts elements of every type", () => {
    for (const n of [1, 3, 4, 5, 31, 1027]) {
      const whole = Int32Array.from({ length: n }, (_, i) => ((3 * i) % 101) - 40);
      const halves = types.f16.encode(Float32Array.from(whole, (x) => x / 4)) as Uint16Array;
      const [asFloat, asHalf, asByte, asUnsigned] = run(
        {
          ...{ shape: [n], inputTypes: ["i32", "f16"], outputTypes: ["f32", "f16", "u8", "u32"] },
          nodes: [
            { input: 0 },
            { input: 1 },
            { convert: "f32", x: 0 },
            { binary: "add", a: 2, b: 1 },
            { convert: "u8", x: 1 },
            { convert: "u32", x: 0 },
          ],
          results: [3, 3, 4, 5],
        },
        [whole, halves],
      );
      const sums = [...whole].map((x) => x * 1.25);
      expect([...new Float32Array(asFloat!)]).to.deep.equal(sums);
      const held = [...decodeFloat16(types.f16.encode(Float32Array.from(sums)) as Uint16Array)];
      expect([...decodeFloat16(new Uint16Array(asHalf!))]).to.deep.equal(held);
      const bytes = [...whole].map((x) => Math.min(Math.max(Math.trunc(x / 4), 0), 255));
      expect([...new Uint8Array(asByte!)]).to.deep.equal(bytes);
      expect([...new Uint32Array(asUnsigned!)]).to.deep.equal([...whole].map((x) => x >>> 0));
    }
  });

  it("repeats inputs along axes, and counts along them, in rows that are put together or split", () => {
    const rowNodes: readonly MapNode[] = [
      ...[{ input: 0 }, { input: 1 }, { input: 2 }, { index: 0 }, { index: 1 }],
      { convert: "f32", x: 3 },
      { convert: "f32", x: 4 },
      { binary: "add", a: 0, b: 1 },
      { binary: "add", a: 7, b: 2 },
      { binary: "mul", a: 5, b: 6 },
      { binary: "sub", a: 8, b: 9 },
    ];
    for (const [rows, columns] of [
      [1, 7],
      [7, 1],
      [5, 3],
      [33, 65],
      [3000, 5],
      [3, 20_003],
    ] as const)
      for (const workers of [1, 2]) {
        const n = rows * columns;
        const [whole, row, column] = [floats(n, 7), floats(columns, 5), floats(rows, 11)];
        const inputShapes = [undefined, [columns], [rows, 1]] as never;
        const args = { shape: [rows, columns], nodes: rowNodes, results: [10], inputShapes };
        const [got] = run(args, [whole, row, column], workers);
        const wanted = whole.map((x, i) => {
          const [r, c] = [Math.floor(i / columns), i % columns];
          return x + row[c]! + column[r]! - r * c;
        });
        expect(new Float32Array(got!)).to.deep.equal(wanted);
      }
  });

  it("takes more operands and axes than a block of parameters holds", () => {
    const shape = [2, 3, 2, 2, 2, 2, 3, 2];
    const inputs = Array.from({ length: 16 }, (_, i) =>
      floats(
        shape.filter((_, axis) => (axis + i) % 2 === 0).reduce((a, b) => a * b, 1),
        2 * i + 1,
      ),
    );
    const inputShapes = inputs.map((_, i) =>
      shape.map((extent, axis) => ((axis + i) % 2 === 0 ? extent : 1)),
    );
    const sums: MapNode[] = inputs.map((_, input) => ({ input }));
    for (let i = 1; i < 16; i++) sums.push({ binary: "add", a: i === 1 ? 0 : sums.length - 1, b: i });
    const args = { shape, inputShapes, nodes: sums, results: [-1] };
    const { problem } = problemOf(args, inputs, 0);
    const launches = map.plan(problem, bench.context);
    expect(launches.length).to.be.above(2);
    for (const { words } of launches) expect(words.length).to.be.at.most(maxParameters);
    const [got] = run(args, inputs);
    const wanted = new Float32Array(got!.byteLength / 4);
    for (let place = 0; place < wanted.length; place++) {
      let rest = place;
      const at = shape.map(() => 0);
      for (let axis = 7; axis >= 0; axis--) {
        at[axis] = rest % shape[axis]!;
        rest = Math.floor(rest / shape[axis]!);
      }
      for (const [i, input] of inputs.entries()) {
        let from = 0;
        for (const [axis, extent] of inputShapes[i]!.entries())
          from = from * extent + (extent === 1 ? 0 : at[axis]!);
        wanted[place] = wanted[place]! + input[from]!;
      }
    }
    expect(new Float32Array(got!)).to.deep.equal(wanted);
  });

  it("writes over its inputs exactly", () => {
    for (const n of [1, 3, 4, 37, 2051, 20_001]) {
      const [a, b] = [floats(n, 7), floats(n, 5)];
      const regions = { "inputs[0]": uploadBits(bench, a), "inputs[1]": uploadBits(bench, b) };
      const places = { "outputs[0]": regions["inputs[1]"], "outputs[1]": regions["inputs[0]"] };
      const operands = { inputs: [handle, handle], outputs: [handle, handle] };
      const args = { shape: [n], nodes, results: [4, 6], parameters: [2], ...operands };
      const problem = resolveProblem("map", args as MapArguments, { ...regions, ...places })!;
      bench.run(map.plan(problem, { ...bench.context, workers: 2 }));
      expect(bench.float32(places["outputs[0]"])).to.deep.equal(a.map((x, i) => 2 * x + b[i]!));
      expect(bench.float32(places["outputs[1]"])).to.deep.equal(a.map((x, i) => Math.min(x, b[i]!)));
    }
  });

  it("makes one kernel for a structure, whatever the sizes and numbers", () => {
    const names = new Set<string>();
    for (const [n, parameter] of [
      [3, 1],
      [70, -2],
      [9000, 0.5],
    ] as const) {
      const args = { shape: [n], nodes, results: [4], parameters: [parameter] };
      const { problem } = problemOf(args, [floats(n, 3), floats(n, 5)], 0);
      for (const { kernel } of map.plan(problem, bench.context)) names.add(kernel);
    }
    expect(names.size).to.equal(1);
  });
});
