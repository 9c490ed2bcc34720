// Tags: kernels, pure
import {
  type CopyArguments,
  type CopyProblem,
  type DType,
  dtypeBytes,
  dtypes,
  elementTypes,
  newHandle,
  operations,
  type Region,
} from "@backplane/core";
import { expect } from "chai";
import { copy } from "#src/kernels/copy/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { memoryKernels } from "#src/kernels/memory/index.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes } from "./problems.js";

type Strides = Pick<CopyArguments, "shape" | "inputStrides" | "outputStrides">;

const readers: Readonly<Record<1 | 2 | 4, (view: DataView, byte: number) => number>> = {
  1: (view, byte) => view.getUint8(byte),
  2: (view, byte) => view.getUint16(byte, true),
  4: (view, byte) => view.getUint32(byte, true),
};

/** The bits of element `place` of some bytes. */
function bitsAt(bytes: Uint8Array<ArrayBuffer>, dtype: DType, place: number): number {
  const size = elementTypes[dtype].bytes;
  return readers[size](new DataView(bytes.buffer), bytes.byteOffset + place * size);
}

/** The bits that an element becomes; NaN for a NaN of any bits. */
function converted(bits: number, from: DType, to: DType): number {
  if (from === to) return bits;
  const { range, toBits } = elementTypes[to];
  const value = elementTypes[from].fromBits(bits);
  if (elementTypes[from].range !== undefined) return toBits(value);
  if (Number.isNaN(value)) return range === undefined ? Number.NaN : 0;
  if (range === undefined) return toBits(value);
  return toBits(Math.min(Math.max(Math.trunc(value), range[0]), range[1]));
}

/** Every way through the kernels: rows of any length and step, blocks of scattered rows, whole tiles and parts of them. */
const cases: readonly Strides[] = [
  { shape: [] },
  ...[1, 3, 7, 15, 16, 17, 63, 64, 79, 1023, 1024, 4097].map(
    (length): Strides => ({
      ...{ shape: [3, length], inputStrides: [length + 3, 1], outputStrides: [length + 1, 1] },
    }),
  ),
  { shape: [300_000] },
  ...[1, 4, 17, 70].map((length): Strides => ({ shape: [2, length], inputStrides: [length, -1] })),
  ...[1, 4, 17, 70].map((length): Strides => ({ shape: [3, length], inputStrides: [1, 0] })),
  { shape: [5, 19], inputStrides: [40, 2], outputStrides: [100, 5] },
  { shape: [1000, 3], inputStrides: [1, 1001], outputStrides: [3, 1] },
  { shape: [3, 1000], inputStrides: [1, 3], outputStrides: [1, 3] },
  { shape: [2, 2, 2, 2, 2, 2, 2, 3], inputStrides: [1, 4, 20, 100, 500, 2500, 12_500, 62_500] },
  { shape: [2, 2, 2, 2, 2, 2, 17, 18], inputStrides: [612, 1224, 2448, 4896, 9792, 19_584, 1, 17] },
  ...[
    [4, 4],
    [16, 16],
    [64, 64],
    [65, 63],
    [17, 130],
    [200, 3],
    [260, 300],
  ].map(([rows, columns]): Strides => ({ shape: [rows!, columns!], inputStrides: [1, rows! + 1] })),
  { shape: [2, 70, 3, 80], inputStrides: [70, 1, 70 * 2 * 80, 70 * 2], outputStrides: [20_000, 250, 83, 1] },
  { shape: [70, 80], inputStrides: [1, -70], outputStrides: [81, 1] },
  { shape: [50, 3, 20, 24], inputStrides: [1440, 480, 1, 20] },
];

describeEitherWay("copy kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create([...copy.kernels, ...memoryKernels], {
      ...options,
      pages: 256,
      workers: 3,
    });
  });

  function check(
    strides: Strides,
    [dtype, outputDtype]: readonly [DType, DType],
    bits?: Uint8Array<ArrayBuffer>,
  ): void {
    const before: Record<string, number> = {};
    const regions: Record<string, Region<CpuMemory>> = {};
    const read: Record<string, () => ArrayBuffer> = {};
    const args = { ...strides, dtype, outputDtype, input: newHandle(), output: newHandle() };
    const problem = operations.copy.resolve(args, {
      region(argument, _operand, elements, type, skipped = 0) {
        const bytes = dtypeBytes[type];
        const { region, read: bytesOf } = guardedBytes(bench, elements * bytes, 3 * bytes);
        before[argument] = skipped;
        regions[argument] = region;
        read[argument] = bytesOf;
        return region;
      },
    }) as CopyProblem<CpuMemory>;
    const { memory, byteOffset, byteLength } = regions.input!;
    const input = new Uint8Array(bench.memory.buffer, memory.byteOffset + byteOffset, byteLength);
    const random = randomNumbers(byteLength);
    if (bits === undefined) for (let i = 0; i < input.length; i++) input[i] = Math.floor(256 * random());
    else input.set(bits);
    const source = input.slice();
    bench.run(copy.plan(problem, bench.context));
    expect(Buffer.compare(new Uint8Array(read.input!()), source), "the input changed").to.equal(0);
    const got = new Uint8Array(read.output!());
    const { shape } = strides;
    const contiguous = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
    const [from, to] = [strides.inputStrides ?? contiguous, strides.outputStrides ?? contiguous];
    const written = new Set<number>();
    const visit = (axis: number, place: number, result: number): void => {
      if (axis < shape.length) {
        for (let i = 0; i < shape[axis]!; i++)
          visit(axis + 1, place + i * from[axis]!, result + i * to[axis]!);
        return;
      }
      written.add(result);
      const found = bitsAt(got, outputDtype, result);
      const given = bitsAt(source, dtype, place);
      const expected = converted(given, dtype, outputDtype);
      const isRight = Number.isNaN(expected)
        ? Number.isNaN(elementTypes[outputDtype].fromBits(found))
        : found === expected;
      if (!isRight)
        expect.fail(
          `${dtype} to ${outputDtype}: place ${result} has ${found}, not ${expected}, from ${given}`,
        );
    };
    visit(0, before.input!, before.output!);
    const size = dtypeBytes[outputDtype];
    for (let i = 0; i < got.length; i++)
      if (!written.has(Math.floor(i / size)) && got[i] !== 0xff)
        expect.fail(`byte ${i} in a gap was written`);
  }

  for (const dtype of ["f32", "bf16", "u8"] as const)
    it(`move elements of ${dtypeBytes[dtype]} bytes, whatever the strides`, () => {
      for (const strides of cases) check(strides, [dtype, dtype]);
    });

  it("convert f16, bf16 and u8 of any bits", () => {
    for (const dtype of ["f16", "bf16", "u8"] as const) {
      const count = 256 ** dtypeBytes[dtype];
      const bits = new Uint8Array(count * dtypeBytes[dtype]);
      for (let i = 0; i < count; i++)
        if (dtype === "u8") bits[i] = i;
        else bits.set([i & 0xff, i >> 8], 2 * i);
      for (const other of dtypes) if (other !== dtype) check({ shape: [count] }, [dtype, other], bits);
    }
  });

  it("convert four-byte elements of any sign and exponent, and integers of any length", () => {
    const random = randomNumbers(7);
    const words = Uint32Array.from({ length: 40_003 }, (_, i) => {
      const word = Math.floor(2 ** 32 * random());
      // Random bits; half of an exponent's unit and its neighbours; integers of few bits, and ones next to ties.
      if (i % 4 === 0) return word;
      if (i % 4 === 1) return (word & 0xff800000) | ((0x1000 << (i & 12)) + ((i >> 4) % 3) - 1);
      if (i % 4 === 2) return word >>> (i % 31);
      return (word & 0xffff0000) + ((i >> 2) % 3) - 1;
    });
    const bits = new Uint8Array(words.buffer);
    for (const dtype of ["f32", "i32", "u32"] as const)
      for (const other of dtypes) if (other !== dtype) check({ shape: [words.length] }, [dtype, other], bits);
  });

  it("convert on the way to other places", () => {
    for (const pair of [
      ["f32", "f16"],
      ["u8", "f32"],
      ["bf16", "i32"],
      ["i32", "u8"],
    ] as const)
      for (const strides of cases) if (strides.shape.length > 1) check(strides, pair);
  });
});
