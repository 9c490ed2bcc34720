// Tags: kernels, pure
// unary on integers and truth values, and tests of floats.
import {
  type IntegerUnaryKind,
  integerUnaryFunctions,
  tests as testFunctions,
} from "@backplane/conformance/functions";
import { type IntegerType, integerTypes, isTest, unaryKinds } from "@backplane/core";
import { expect } from "chai";
import { unaryKindsOf } from "#src/kernels/unary/functions.js";
import { unary } from "#src/kernels/unary/unary.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers, specialNumbers } from "./numbers.js";
import { guardedBytes, uploadBits } from "./problems.js";

const arrays = { i32: Int32Array, u32: Uint32Array } as const;
const testKinds = unaryKinds.filter(isTest);
const counts = [1, 2, 3, 4, 5, 7, 8, 31, 33, 64, 1023, 4099, 30_001];

describeEitherWay("unary kernels of integers and truth values", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(unary.kernels, options);
  });

  it("has these kinds of integers and no others", () => {
    for (const dtype of integerTypes)
      expect(unaryKindsOf(dtype)).to.have.members(Object.keys(integerUnaryFunctions[dtype]));
    expect(unaryKindsOf("u8")).to.deep.equal(["logicalNot"]);
  });

  for (const dtype of integerTypes)
    for (const kind of Object.keys(integerUnaryFunctions[dtype]) as IntegerUnaryKind[])
      it(`${kind} of ${dtype} wraps around, for any count and place`, () => {
        const random = randomNumbers(kind.length);
        for (const n of counts) {
          const values = arrays[dtype].from(
            Array.from({ length: n }, () => random() * 2 ** 32 - (dtype === "i32" ? 2 ** 31 : 0)),
          );
          values.set([0, -1, 2 ** 31, 2 ** 31 - 1, 1, 65_537].slice(0, n));
          const output = guardedBytes(bench, 4 * n, 4 * (n % 5));
          const input = uploadBits(bench, values);
          bench.run(unary.plan({ kind, dtype, n, input, output: output.region }, bench.context));
          const got = new arrays[dtype](output.read());
          const wanted = arrays[dtype].from(
            [...values].map(integerUnaryFunctions[dtype as IntegerType][kind]),
          );
          expect(got).to.deep.equal(wanted);
        }
      });

  for (const kind of testKinds)
    it(`${kind} tests the bits of f32 and of every f16`, () => {
      const random = randomNumbers(kind.length);
      for (const n of counts) {
        const values = Float32Array.from(
          { length: n },
          (_, i) => specialNumbers[i % (specialNumbers.length + 3)] ?? random(),
        );
        const output = guardedBytes(bench, n, n % 7);
        const input = uploadBits(bench, new Uint32Array(values.buffer));
        bench.run(unary.plan({ kind, dtype: "f32", n, input, output: output.region }, bench.context));
        expect([...new Uint8Array(output.read())]).to.deep.equal([...values].map(testFunctions[kind]));
      }
      const halves = Uint16Array.from({ length: 65_536 }, (_, i) => i);
      const output = guardedBytes(bench, 65_536, 1);
      const input = uploadBits(bench, halves);
      bench.run(unary.plan({ kind, dtype: "f16", n: 65_536, input, output: output.region }, bench.context));
      const size = (bits: number): number => bits & 0x7fff;
      const wanted = {
        isNaN: (bits: number) => size(bits) > 0x7c00,
        isInfinite: (bits: number) => size(bits) === 0x7c00,
        isFinite: (bits: number) => size(bits) < 0x7c00,
      }[kind];
      expect([...new Uint8Array(output.read())]).to.deep.equal(
        [...halves].map((bits) => Number(wanted(bits))),
      );
    });

  it("logicalNot takes all but 0 for true, in place or not", () => {
    for (const n of counts) {
      const values = Uint8Array.from({ length: n }, (_, i) => (i % 3 === 0 ? 0 : i));
      const output = guardedBytes(bench, n, n % 7);
      const bytes = new Uint8Array(Math.ceil(n / 4) * 4);
      bytes.set(values);
      const input = { ...uploadBits(bench, new Uint32Array(bytes.buffer)), byteLength: n };
      const problem = { kind: "logicalNot", dtype: "u8", n, input } as const;
      bench.run(unary.plan({ ...problem, output: output.region }, bench.context));
      expect([...new Uint8Array(output.read())]).to.deep.equal([...values].map((x) => Number(x === 0)));
      bench.run(unary.plan({ ...problem, output: input }, bench.context));
      expect([...bench.bytes(input).slice(0, n)]).to.deep.equal([...values].map((x) => Number(x === 0)));
    }
  });
});
