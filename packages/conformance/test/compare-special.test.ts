// Tags: proof, pure
import {
  type ComputeBackend,
  type DeviceHandle,
  ForwardingBackend,
  type Numerics,
  type Operand,
  type Operation,
  type OperationName,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { describe, it } from "mocha";
import { CompareBackend, createReferenceBackend } from "#src/index.js";
import { noPromises, withPromises } from "./support/backends.js";

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Puts a number in place of one element of each operation's result. */
class Spoils extends ForwardingBackend {
  readonly #element: number;
  readonly #value: number;

  constructor(inner: ComputeBackend, element: number, value: number) {
    super(inner);
    this.#element = element;
    this.#value = value;
  }

  override run(operation: OperationName | Operation, args: object): void {
    super.run(operation, args);
    const { output, c } = args as { readonly output?: Operand; readonly c?: Operand };
    const handle = (output ?? c) as DeviceHandle;
    this.inner.fill({ handle, byteOffset: 4 * this.#element }, this.#value, 1);
  }
}

type Make = (backend: ComputeBackend, floats: (...values: readonly number[]) => Operand) => void;

/** Returns the elements that are reported if one of the results is another number than the right one. */
async function reported(
  make: Make,
  value: number,
  promises: Partial<Numerics> = {},
  element = 0,
): Promise<readonly number[]> {
  const inner = withPromises(createReferenceBackend, promises)();
  const backend = new CompareBackend(new Spoils(inner, element, value), createReferenceBackend(), {
    warn: () => {},
  });
  const elements: number[] = [];
  backend.onDivergence((divergence) => elements.push(divergence.element));
  await backend.init();
  make(backend, (...values) => upload(backend, Float32Array.from(values)));
  await backend.synchronize();
  assert.deepEqual(backend.report().skipped, []);
  await backend.dispose();
  return elements;
}

const unary =
  (kind: "neg" | "abs" | "relu" | "exp", ...values: readonly number[]): Make =>
  (backend, floats) =>
    backend.unary({ kind, n: values.length, input: floats(...values), output: backend.alloc(64) });

const binary =
  (kind: "add" | "sub" | "max" | "min" | "mul", a: number, b: number): Make =>
  (backend, floats) =>
    backend.binary({ kind, n: 1, a: floats(a), b: floats(b), output: backend.alloc(64) });

const reduceMax =
  (...values: readonly number[]): Make =>
  (backend, floats) =>
    backend.reduce({
      kind: "max",
      shape: [values.length],
      input: floats(...values),
      output: backend.alloc(64),
    });

const select =
  (a: number, b: number): Make =>
  (backend, floats) => {
    const condition = upload(backend, Uint8Array.of(0));
    backend.select({ n: 1, condition, a: floats(a), b: floats(b), output: backend.alloc(64) });
  };

/** A is 2 x 2, with a gap of one element after its first row; B is 2 x 1. */
const product =
  (a: readonly number[], b: readonly number[]): Make =>
  (backend, floats) =>
    backend.gemm({ m: 2, n: 1, k: 2, lda: 3, a: floats(...a), b: floats(...b), c: backend.alloc(64) });

const large = 2 ** 61;

describe("What CompareBackend demands of special values", () => {
  it("demands the known results of one step, whatever the numbers", async () => {
    const cases: readonly (readonly [name: string, make: Make, wrong: number])[] = [
      ...(["neg", "abs", "relu"] as const).map((kind) => [`${kind}(NaN)`, unary(kind, nan), 5] as const),
      ["neg(Infinity)", unary("neg", infinity), 5],
      ["neg(1), next to NaN", unary("neg", 1, nan), nan],
      ["Infinity + 1", binary("add", infinity, 1), nan],
      ["Infinity + 1, finite", binary("add", infinity, 1), 5],
      ["Infinity - Infinity", binary("sub", infinity, infinity), 0],
      ["max(1, -Infinity)", binary("max", 1, -infinity), nan],
      ["max(Infinity, 1)", binary("max", infinity, 1), nan],
      ["min(1, NaN)", binary("min", 1, nan), 1],
      ["2^61 + 1, no number", binary("add", large, 1), nan],
      ["2^61 + 1, infinite", binary("add", large, 1), -infinity],
      ["2^61 2^-10", binary("mul", large, 2 ** -10), infinity],
      ["the maximum of 1 and -Infinity", reduceMax(1, -infinity), nan],
      ["what is selected next to NaN", select(nan, 1), nan],
      ["what is selected, NaN", select(1, nan), 1],
    ];
    for (const [name, make, wrong] of cases) assert.deepEqual(await reported(make, wrong), [0], name);
  });

  it("demands NaN of several steps from NaN, and numbers where no input matters", async () => {
    const ones = [1, 1];
    // NaN in the first row.
    assert.deepEqual(await reported(product([nan, 1, 0, 1, 1], ones), 5), [0]);
    assert.deepEqual(await reported(product([nan, 1, 0, 1, 1], ones), nan, {}, 1), [1]);
    // A gap between the rows may hold anything.
    for (const gap of [nan, infinity, 2 ** 100])
      assert.deepEqual(await reported(product([1, 1, gap, 1, 1], ones), nan), [0]);
    assert.deepEqual(await reported(unary("exp", 1, infinity), nan), [0]);
    assert.deepEqual(await reported(unary("exp", nan), 5), [0]);
  });

  it("leaves open what may overflow on the way", async () => {
    const opposite = [2 ** 100, -(2 ** 100)];
    const rows = [2 ** 100, 2 ** 100, 0, 1, 1];
    for (const value of [nan, infinity, -infinity])
      assert.deepEqual(await reported(product(rows, opposite), value), []);
    // The other row has no large number.
    assert.deepEqual(await reported(product(rows, [1, 1]), nan), []);
    assert.deepEqual(await reported(product(rows, [1, 1]), nan, {}, 1), [1]);
    // A sum beyond the largest number is infinite.
    assert.deepEqual(await reported(binary("add", 3e38, 3e38), infinity), []);
  });

  it("leaves open what depends on values that are not declared to be kept, and no more", async () => {
    const open: readonly Make[] = [
      ...(["neg", "abs", "relu", "exp"] as const).map((kind) => unary(kind, nan)),
      unary("relu", -infinity),
      unary("neg", infinity),
      binary("add", infinity, 1),
      binary("sub", infinity, infinity),
      binary("min", 1, nan),
      reduceMax(1, -infinity),
      select(1, nan),
      product([nan, 1, 0, 1, 1], [1, 1]),
    ];
    for (const make of open)
      for (const value of [nan, infinity]) assert.deepEqual(await reported(make, value, noPromises), []);
    for (const kind of ["neg", "abs"] as const)
      assert.deepEqual(await reported(unary(kind, nan), 5, { nan: "unspecified" }), []);
    assert.deepEqual(await reported(binary("add", infinity, 1), nan, { infinity: "unspecified" }), []);
    // Other elements are not affected.
    assert.deepEqual(await reported(unary("neg", 1, nan), nan, noPromises), [0]);
    assert.deepEqual(await reported(product([nan, 1, 0, 1, 1], [1, 1]), nan, noPromises, 1), [1]);
    assert.deepEqual(await reported(binary("add", large, 1), nan, noPromises), [0]);
  });
});
