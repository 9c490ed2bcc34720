// Tags: kernels, pure
import { type FloatType, floatTypes, type RopeKind, ropeKinds } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import { rope } from "#src/kernels/rope/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadBits, uploadElements } from "./problems.js";

interface Case {
  readonly kind: RopeKind;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly half: number;
  /** Elements of a row that are copied. */
  readonly rest: number;
  readonly length: number;
  readonly start?: number;
  readonly listed?: boolean;
  readonly inverse?: boolean;
}

const whole = (count: number, seed: number): Float32Array<ArrayBuffer> => {
  const random = randomNumbers(seed);
  return Float32Array.from({ length: count }, () => Math.floor(random() * 11) - 5);
};

function positionsOf({ rows, batch, length }: Case): Int32Array<ArrayBuffer> {
  const random = randomNumbers(rows);
  const outside = [-1, length, -(2 ** 31), 2 ** 31 - 1];
  return Int32Array.from({ length: batch * rows }, () =>
    random() < 0.25 ? outside[Math.floor(4 * random())]! : Math.floor(random() * length),
  );
}

/** Written without the code under test; whole numbers, so that every result is exact. */
function reference(c: Case, input: Float32Array, cos: Float32Array, sin: Float32Array): Float32Array {
  const size = 2 * c.half + c.rest;
  const positions = c.listed ? positionsOf(c) : undefined;
  const output = input.slice();
  for (let line = 0; line < c.batch * c.heads * c.rows; line++) {
    const [b, r] = [Math.floor(line / c.rows / c.heads), line % c.rows];
    const position = positions?.[b * c.rows + r] ?? (c.start ?? 0) + r;
    const isFound = position >= 0 && position < c.length;
    for (let i = 0; i < c.half; i++) {
      const near = line * size + (c.kind === "halves" ? i : 2 * i);
      const far = near + (c.kind === "halves" ? c.half : 1);
      const [x, y] = [input[near]!, input[far]!];
      const cosine = isFound ? cos[position * c.half + i]! : 0;
      const sine = (isFound ? sin[position * c.half + i]! : 0) * (c.inverse ? -1 : 1);
      output[near] = x * cosine - y * sine;
      output[far] = x * sine + y * cosine;
    }
  }
  return output;
}

/** Pairs around vectors; rows that chunks share, of which one has about 16,384 elements; long rows. */
const shapes: readonly Omit<Case, "kind">[] = [
  ...[1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17].map((half) => ({
    ...{ batch: 2, heads: 3, rows: 5, half, rest: half % 4, length: 7 },
  })),
  { batch: 2, heads: 2, rows: 130, half: 64, rest: 0, length: 200, listed: true },
  { batch: 1, heads: 1, rows: 2, half: 9000, rest: 3, length: 2 },
  { batch: 1, heads: 3, rows: 40, half: 32, rest: 8, length: 50, start: 25, inverse: true },
  { batch: 3, heads: 1, rows: 6, half: 4, rest: 1, length: 6, start: 6 },
];

describeEitherWay("rope kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(rope.kernels, { ...options, pages: 1024, workers: 3 });
  });

  function check(dtype: FloatType, c: Case, isOver: boolean): void {
    const { kind, batch, heads, rows, half, rest, length, start = 0, listed = false, inverse = false } = c;
    const size = 2 * half + rest;
    const [data, cos, sin] = [
      whole(batch * heads * rows * size, half),
      whole(length * half, 2),
      whole(length * half, 3),
    ];
    const output = guardedOutput(bench, dtype, data.length);
    const input = uploadElements(bench, dtype, data);
    if (isOver) {
      const bytes = new Uint8Array(bench.memory.buffer);
      const at = input.memory.byteOffset + input.byteOffset;
      bytes.copyWithin(output.region.memory.byteOffset + output.region.byteOffset, at, at + input.byteLength);
    }
    const regions = {
      ...{ input: isOver ? output.region : input, output: output.region },
      ...{ cos: uploadBits(bench, cos), sin: uploadBits(bench, sin) },
      positions: uploadBits(bench, positionsOf(c)),
    };
    const here = { input: 1 as never, output: 1 as never, cos: 1 as never, sin: 1 as never };
    const shape = { kind, batch, heads, rows, size, rotated: 2 * half, length, inverse };
    const places = listed ? { positions: 1 as never, positionStride: rows } : { start };
    runOperation(bench, rope, resolveProblem("rope", { ...shape, ...places, ...here, dtype }, regions));
    expect([...output.read()], `${JSON.stringify(c)} ${dtype} ${isOver}`).to.deep.equal([
      ...reference(c, data, cos, sin),
    ]);
  }

  for (const kind of ropeKinds)
    for (const dtype of floatTypes)
      it(`turn ${kind} of ${dtype}, in place too`, () => {
        for (const shape of shapes)
          for (const isOver of [false, true]) check(dtype, { ...shape, kind }, isOver);
      });
});

describe("rope on threads", () => {
  it("gives the same bits with 0 and 3 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 3]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const parts: Buffer[] = [];
      for (const dtype of floatTypes)
        for (const kind of ropeKinds) {
          const [heads, rows, size] = [5, 700, 36];
          const random = randomNumbers(5);
          const numbers = (count: number) => Float32Array.from({ length: count }, () => random() - 0.5);
          const operands = [
            types[dtype].encode(numbers(heads * rows * size)),
            numbers(rows * 16),
            numbers(rows * 16),
          ];
          const [input, cos, sin] = operands.map((array) => {
            const handle = backend.alloc(array.byteLength);
            backend.copyHtoD(handle, array);
            return handle;
          }) as [never, never, never];
          const bytes = Buffer.alloc(operands[0]!.byteLength);
          const shape = { kind, heads, rows, size, rotated: 32, length: rows };
          backend.rope({ ...shape, dtype, input, cos, sin, output: input });
          await backend.copyDtoH(bytes, input);
          parts.push(bytes);
        }
      await backend.dispose();
      results.push(Buffer.concat(parts));
    }
    expect(results[0]!.equals(results[1]!)).to.equal(true);
  });
});
