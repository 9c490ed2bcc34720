import { binaryFunctions, unaryFunctions } from "@backplane/conformance";
import {
  type ArithmeticKind,
  arithmeticKinds,
  type ComputeBackend,
  type FloatType,
  type FloatUnaryKind,
  floatUnaryKinds,
} from "@backplane/core";
import { rounded, runBinary, runUnary } from "./device.js";

/** One group of special arguments, and the calls whose result differs from that of IEEE 754. */
export interface Special {
  readonly topic: string;
  readonly dtype: FloatType;
  readonly calls: number;
  /** Such as `exp(NaN) = 0, not NaN`. */
  readonly deviations: readonly string[];
}

type Triple = readonly [a: number, b: number];

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Subnormal numbers, the smallest normal one, and the largest. */
const limits = {
  f32: { least: 2 ** -149, half: 2 ** -127, smallest: 2 ** -126, largest: (2 - 2 ** -23) * 2 ** 127 },
  f16: { least: 2 ** -24, half: 2 ** -15, smallest: 2 ** -14, largest: 65504 },
} as const satisfies Readonly<Record<FloatType, object>>;

/** Returns the device's results for NaN, infinities, subnormal numbers, zeros of either sign, and ties. */
export async function specials(backend: ComputeBackend, dtype: FloatType): Promise<Special[]> {
  const { least, half, smallest, largest } = limits[dtype];
  const exactKinds: readonly FloatUnaryKind[] = ["relu", "abs", "neg", "floor", "ceil", "round", "sign"];
  const group = new Groups(backend, dtype);

  for (const kind of floatUnaryKinds) await group.unary("NaN", kind, [nan]);
  for (const kind of ["sqrt", "log", "rsqrt"] as const) await group.unary("NaN", kind, [-1, -infinity]);
  for (const kind of ["sin", "cos"] as const) await group.unary("NaN", kind, [infinity, -infinity]);
  for (const kind of arithmeticKinds)
    await group.binary("NaN", kind, [
      [nan, 2],
      [2, nan],
      [nan, nan],
    ]);
  await group.binary("NaN", "pow", [[-8, 0.5]]);
  await group.binary("NaN", "div", [
    [0, 0],
    [infinity, infinity],
  ]);
  await group.binary("NaN", "mul", [[0, infinity]]);
  await group.binary("NaN", "sub", [[infinity, infinity]]);

  for (const kind of floatUnaryKinds)
    if (kind !== "sin" && kind !== "cos") await group.unary("infinity", kind, [infinity, -infinity]);
  for (const kind of ["log", "reciprocal", "rsqrt"] as const) await group.unary("infinity", kind, [0]);
  for (const kind of arithmeticKinds)
    await group.binary("infinity", kind, [
      [infinity, 3],
      [-infinity, 3],
      [3, infinity],
      [3, -infinity],
      [0.5, infinity],
      [0.5, -infinity],
      [infinity, 0.5],
      [infinity, -0.5],
      [1, 0],
      [-1, 0],
    ]);

  await group.unary("overflow", "exp", [100, 1000, largest]);
  await group.binary("overflow", "add", [
    [largest, largest],
    [-largest, -largest],
  ]);
  await group.binary("overflow", "mul", [
    [largest, 2],
    [-largest, 2],
  ]);
  await group.binary("overflow", "div", [[largest, 0.25]]);
  await group.binary("overflow", "pow", [
    [2, 1000],
    [largest, 1.5],
    [smallest, -1.5],
  ]);

  for (const kind of exactKinds)
    await group.unary("subnormals", kind, [least, -least, half, -half, half - least]);
  for (const kind of ["sqrt", "rsqrt", "log"] as const) await group.unary("subnormals", kind, [least, half]);
  await group.binary("subnormals", "add", [
    [least, least],
    [half, half],
    [smallest, -least],
  ]);
  await group.binary("subnormals", "mul", [
    [half, 2],
    [smallest, 0.5],
    [-smallest, 0.25],
  ]);
  await group.binary("subnormals", "max", [
    [least, 0],
    [-least, -half],
  ]);

  for (const kind of [...exactKinds, "sqrt", "tanh", "sin", "erf", "gelu", "silu"] as const)
    await group.unary("signed zeros", kind, [0, -0]);
  for (const kind of ["floor", "ceil", "round"] as const)
    await group.unary("signed zeros", kind, [0.25, -0.25, -0.5]);
  for (const kind of ["add", "sub", "mul", "div"] as const)
    await group.binary("signed zeros", kind, [
      [-0, 3],
      [0, -3],
      ...(kind === "div"
        ? []
        : ([
            [-0, -0],
            [-0, 0],
            [0, -0],
          ] as const)),
      [-1, kind === "add" ? 1 : -1],
    ]);

  await group.binary("ties", "add", ties[dtype].add);
  await group.binary("ties", "mul", ties[dtype].mul);
  return group.all;
}

/** Sums exactly between two numbers of f16, at the end of its range too, and on either side of that. */
const halfTies: readonly Triple[] = [
  [2048, 1],
  [2050, 1],
  [-2048, -1],
  [1, 2 ** -11],
  [1 + 2 ** -10, 2 ** -11],
  [65504, 15.9921875],
  [65504, 16],
  [-65504, -16],
  [65504, 32],
];

/** The same among the subnormal numbers; the operands are normal. */
const halfProductTies: readonly Triple[] = [
  [2 ** -12, 2 ** -13],
  [2 ** -12 * 3, 2 ** -13],
  [2 ** -12 * 5, 2 ** -13],
  [2 ** -12, 2 ** -13 * (1 + 2 ** -10)],
  [2 ** -13, -(2 ** -13)],
];

const singleTies: readonly Triple[] = [
  [2 ** 24, 1],
  [2 ** 24 + 2, 1],
  [-(2 ** 24), -1],
  [1, 2 ** -24],
  [1 + 2 ** -23, 2 ** -24],
];

const ties = {
  f32: { add: singleTies, mul: [] },
  f16: { add: halfTies, mul: halfProductTies },
} as const satisfies Readonly<Record<FloatType, object>>;

/** Collects the calls under each topic. */
class Groups {
  readonly #backend: ComputeBackend;
  readonly #dtype: FloatType;
  readonly #groups = new Map<string, { calls: number; deviations: string[] }>();

  constructor(backend: ComputeBackend, dtype: FloatType) {
    this.#backend = backend;
    this.#dtype = dtype;
  }

  get all(): Special[] {
    return [...this.#groups].map(([topic, group]) => ({ topic, dtype: this.#dtype, ...group }));
  }

  async unary(topic: string, kind: FloatUnaryKind, values: readonly number[]): Promise<void> {
    if (!this.#backend.supports("unary", { dtype: this.#dtype, kind })) return;
    const x = rounded(this.#dtype, values);
    const got = await runUnary(this.#backend, this.#dtype, kind, x);
    const exact = Array.from(x, unaryFunctions[kind]);
    this.#compare(topic, got, exact, (i) => `${kind}(${name(x[i]!)})`);
  }

  async binary(topic: string, kind: ArithmeticKind, values: readonly Triple[]): Promise<void> {
    if (values.length === 0 || !this.#backend.supports("binary", { dtype: this.#dtype, kind })) return;
    const a = rounded(
      this.#dtype,
      values.map(([first]) => first),
    );
    const b = rounded(
      this.#dtype,
      values.map(([, second]) => second),
    );
    const got = await runBinary(this.#backend, this.#dtype, kind, a, b);
    const exact = Array.from(a, (value, i) => binaryFunctions[kind](value, b[i]!));
    this.#compare(topic, got, exact, (i) => `${kind}(${name(a[i]!)}, ${name(b[i]!)})`);
  }

  #compare(topic: string, got: Float32Array, exact: readonly number[], call: (i: number) => string): void {
    const group = this.#groups.get(topic) ?? { calls: 0, deviations: [] };
    this.#groups.set(topic, group);
    const expected = rounded(this.#dtype, exact);
    for (const [i, value] of expected.entries()) {
      // Of infinity times zero within a formula, no promise is made: gelu and its kin at -infinity.
      if (topic === "infinity" && Number.isNaN(value)) continue;
      group.calls++;
      // Among ordinary numbers, how accurate a function is, is another question.
      const isClose =
        topic === "subnormals" && Math.abs(value) >= 2 ** -14
          ? Math.abs(got[i]! - value) <=
            1e-6 * Math.abs(value) + (this.#dtype === "f16" ? 1e-3 : 0) * Math.abs(value)
          : Object.is(got[i], value);
      if (!isClose) group.deviations.push(`${call(i)} = ${name(got[i]!)}, not ${name(value)}`);
    }
  }
}

function name(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}
