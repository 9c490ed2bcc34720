import { type DType, type Numerics, operations } from "@backplane/core";
import { assert } from "chai";
import { decoded, encoded, type Place } from "#src/elements.js";
import { mutants } from "#src/index.js";
import { argumentsOf, outputsOf } from "#src/kit/arguments.js";
import { malformed } from "#src/laws/malformed.js";
import { everyOperation } from "#src/ops/index.js";
import { type Evaluate, referenceMemory } from "#src/ops/operation.js";
import { judged } from "#src/soak/oracle.js";

describe("The list of operations", () => {
  it("has calls whose operands are arguments, outputs among them", () => {
    for (const { operation, small, medium, inPlace } of everyOperation)
      for (const call of [small, medium, ...(inPlace === undefined ? [] : [inPlace(8)])]) {
        // Those of a list have their places behind the name.
        const names = Object.keys(call.operands).map((name) => name.split("[", 1)[0]!);
        assert.includeMembers([...operation.operands], names, operation.name);
        assert.isNotEmpty(outputsOf(operation, call.operands), operation.name);
        for (const name of Object.keys(call.rest)) assert.include(operation.names, name);
      }
  });

  it("has mutants of each operation with its own name", () => {
    for (const { operation } of everyOperation)
      assert.isNotEmpty(
        mutants.filter((mutant) => mutant.operation === operation.name),
        operation.name,
      );
  });
});

describe("Malformed arguments", () => {
  const changes = (name: keyof typeof operations) =>
    malformed(operations[name], everyOperation.find(({ operation }) => operation.name === name)!.small);

  it("follow from the table of arguments", () => {
    assert.deepInclude(changes("gemm"), { m: -1 });
    assert.deepInclude(changes("gemm"), { m: undefined });
    assert.deepInclude(changes("gemm"), { lda: 1.5 });
    assert.deepInclude(changes("gemm"), { transA: "no" });
    assert.deepInclude(changes("conv2d"), { groups: 0 });
    assert.deepInclude(changes("conv2d"), { dilation: [1, 0] });
    assert.deepInclude(changes("conv2d"), { inputShape: [2, 4, 5] });
    assert.deepInclude(changes("reduce"), { axes: [-1n] });
    assert.deepInclude(changes("binary"), { b: { scalar: Number.NaN } });
    assert.deepInclude(changes("attention"), { causal: "noSuchChoice" });
  });
});

describe("Arguments by name", () => {
  it("have lists gathered from their entries", () => {
    const named = { kind: "sum", "inputs[1]": 7, "inputs[0]": 5, output: 9 };
    assert.deepEqual(argumentsOf(named), { kind: "sum", inputs: [5, 7], output: 9 });
  });
});

/** Sums and differences of two lists of numbers: an operation with a list of inputs and several outputs. */
interface Both {
  readonly inputs: readonly Place[];
  readonly sums: Place;
  readonly differences: readonly Place[];
}

const dtype: DType = "f32";

const both: Evaluate<Both> = ({ inputs, sums, differences }, memory, numerics) => {
  const [a, b] = inputs.map((region) => memory.read(region, dtype)) as [Float64Array, Float64Array];
  const [writeSum, writeDifference] = [sums, differences[0]!].map((region) => memory.write(region, dtype));
  const tolerance = numerics === undefined ? 0 : 0.25;
  for (const [i, x] of a.entries()) {
    writeSum!(i, x + b[i]!, tolerance);
    if (i !== 1) writeDifference!(i, x - b[i]!, tolerance);
  }
};

describe("A formula with a list of inputs and several outputs", () => {
  const place = (...values: number[]): Place => {
    const memory = encoded(values, dtype);
    return { memory, byteOffset: 0, byteLength: memory.length };
  };
  const numerics: Numerics = {
    ...{ nan: "kept", infinity: "kept", subnormals: "kept", signedZero: "kept" },
    ...{ rounding: "nearest-even", deterministic: true },
  };
  const problem = (): Both => ({
    inputs: [place(1, 2, 3), place(10, 20, 30)],
    sums: place(0, 0, 0),
    differences: [place(7, 7, 7)],
  });
  const valuesAt = ({ memory }: Place) => [...decoded(memory.buffer, 0, 3, dtype)];

  it("is stored by the reference", () => {
    const given = problem();
    both(given, referenceMemory);
    assert.deepEqual(valuesAt(given.sums), [11, 22, 33]);
    assert.deepEqual(valuesAt(given.differences[0]!), [-9, 7, -27]);
  });

  const judge = (sums: number[], differences: number[], given: Both = problem(), kept = numerics) =>
    judged(both, given, { sums: encoded(sums, dtype), "differences[0]": encoded(differences, dtype) }, kept);

  it("is judged by each of its outputs, which the oracle keeps", () => {
    const given = problem();
    const right = judge([11, 22, 33.25], [-9, 7, -27], given);
    assert.deepEqual(right, { checked: 5, complaint: undefined, skipped: false });
    assert.deepEqual(valuesAt(given.sums), [11, 22, 33.25]);
    assert.match(
      judge([11, 22, 33.5], [-9, 7, -27]).complaint!,
      /^element 2 of 3 of sums is 33.5, expected 33/,
    );
    assert.match(judge([11, 22, 33], [-9, 7, -28]).complaint!, /^element 2 of 3 of differences\[0\]/);
    assert.match(judge([11, 22, 33], [-9, 8, -27]).complaint!, /^byte 6 of 12 of differences\[0\] changed/);
  });

  it("is passed over where inputs may have been flushed", () => {
    const given = { ...problem(), inputs: [place(1, 2, 3), place(1, 2 ** -140, 3)] };
    const flushed: Numerics = { ...numerics, subnormals: "flushed" };
    assert.deepEqual(judge([0, 0, 0], [0, 0, 0], given, flushed), {
      ...{ checked: 0, complaint: undefined, skipped: true },
    });
    assert.isFalse(judge([0, 0, 0], [0, 0, 0], given).skipped);
  });

  it("must have an answer for each output", () => {
    assert.throws(() => judged(both, problem(), { sums: encoded([0, 0, 0], dtype) }, numerics), /no answer/);
  });
});
