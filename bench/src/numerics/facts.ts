import { binaryFunctions } from "@backplane/conformance";
import {
  type ArithmeticKind,
  type ComputeBackend,
  decodeFloat16,
  type FloatType,
  type FloatUnaryKind,
} from "@backplane/core";
import { rounded, runBinary, runUnary } from "./device.js";
import { spacing } from "./format.js";

/** Something that holds of a function exactly, and whether it does here. */
export interface Fact {
  readonly kind: FloatUnaryKind | ArithmeticKind;
  readonly dtype: FloatType;
  /** Such as `never falls`, `odd`, `exact: exp(0) and such`. */
  readonly claim: string;
  /** Arguments. */
  readonly samples: number;
  /** Arguments, or pairs of neighbours, for which it does not hold. */
  readonly broken: number;
  /** The worst of them, in units in the last place. */
  readonly worst: number;
  /** A place at which it does not hold, such as `tanh(0.25) = 0.2449, tanh(0.2500001) = 0.2448`. */
  readonly example?: string;
}

const rising: readonly FloatUnaryKind[] = ["exp", "tanh", "sigmoid", "erf", "sqrt", "log", "softplus"];
const odd: readonly FloatUnaryKind[] = ["sin", "tanh", "erf"];
const even: readonly FloatUnaryKind[] = ["cos"];

/** The promises of functions besides accuracy: they rise where the exact ones do, have symmetry, and exact results. */
export async function facts(
  backend: ComputeBackend,
  dtype: FloatType,
  runs: number,
  report: (fact: Fact) => void,
): Promise<void> {
  for (const kind of new Set([...rising, ...odd, ...even])) {
    if (!backend.supports("unary", { dtype, kind })) continue;
    const watches: Watch[] = [];
    if (rising.includes(kind)) watches.push(new Rise(kind, dtype));
    if (odd.includes(kind) || even.includes(kind))
      watches.push(new Symmetry(kind, dtype, even.includes(kind)));
    for (const positive of sortedPieces(dtype, runs)) {
      const negative = positive.map((x) => -x);
      const results = await runUnary(backend, dtype, kind, positive);
      const mirrored = await runUnary(backend, dtype, kind, negative);
      for (const watch of watches) watch.see(positive, results, mirrored);
    }
    for (const watch of watches) report(watch.fact);
  }
  await exactPoints(backend, dtype, report);
}

interface Watch {
  /** Takes results of sorted arguments, all above those before, and the results of the same with the other sign. */
  see(x: Float32Array, results: Float32Array, mirrored: Float32Array): void;
  readonly fact: Fact;
}

/** Whether results of rising arguments never fall. NaN neither rises nor falls. */
export class Rise implements Watch {
  readonly #kind: FloatUnaryKind;
  readonly #dtype: FloatType;
  readonly #last: Record<"up" | "down", { x: number; y: number }> = {
    up: { x: 0, y: Number.NaN },
    down: { x: 0, y: Number.NaN },
  };
  #samples = 0;
  #broken = 0;
  #worst = 0;
  #example: string | undefined;

  constructor(kind: FloatUnaryKind, dtype: FloatType) {
    this.#kind = kind;
    this.#dtype = dtype;
  }

  see(x: Float32Array, results: Float32Array, mirrored: Float32Array): void {
    this.#walk("up", x, results, 1);
    this.#walk("down", x, mirrored, -1);
  }

  #walk(way: "up" | "down", x: Float32Array, results: Float32Array, sign: number): void {
    const last = this.#last[way];
    this.#samples += results.length;
    for (let i = 0; i < results.length; i++) {
      const y = results[i]!;
      const fall = sign * (last.y - y);
      if (fall > 0) this.#note(last, { x: sign * x[i]!, y }, fall);
      last.x = sign * x[i]!;
      last.y = y;
    }
  }

  #note(before: { x: number; y: number }, after: { x: number; y: number }, fall: number): void {
    this.#broken++;
    const units = fall / spacing(this.#dtype, after.y);
    if (units <= this.#worst) return;
    this.#worst = units;
    this.#example = [before, after].map(({ x, y }) => `${this.#kind}(${x}) = ${y}`).join(", ");
  }

  get fact(): Fact {
    return {
      ...{ kind: this.#kind, dtype: this.#dtype, claim: "never falls", samples: this.#samples },
      ...{ broken: this.#broken, worst: this.#worst },
      ...(this.#example === undefined ? {} : { example: this.#example }),
    };
  }
}

/** Whether f(-x) has the bits of -f(x), or of f(x). */
export class Symmetry implements Watch {
  readonly #kind: FloatUnaryKind;
  readonly #dtype: FloatType;
  readonly #isEven: boolean;
  #samples = 0;
  #broken = 0;
  #worst = 0;
  #example: string | undefined;

  constructor(kind: FloatUnaryKind, dtype: FloatType, isEven: boolean) {
    this.#kind = kind;
    this.#dtype = dtype;
    this.#isEven = isEven;
  }

  see(x: Float32Array, results: Float32Array, mirrored: Float32Array): void {
    this.#samples += x.length;
    for (let i = 0; i < x.length; i++) {
      const expected = this.#isEven ? results[i]! : -results[i]!;
      if (Object.is(mirrored[i]!, expected)) continue;
      this.#broken++;
      const units = Math.abs(mirrored[i]! - expected) / spacing(this.#dtype, expected);
      if (this.#example !== undefined && !(units > this.#worst)) continue;
      this.#worst = units;
      const call = (argument: number, result: number) => `${this.#kind}(${text(argument)}) = ${text(result)}`;
      this.#example = `${call(x[i]!, results[i]!)}, ${call(-x[i]!, mirrored[i]!)}`;
    }
  }

  get fact(): Fact {
    return {
      ...{ kind: this.#kind, dtype: this.#dtype, claim: this.#isEven ? "even" : "odd" },
      ...{ samples: this.#samples, broken: this.#broken, worst: this.#worst },
      ...(this.#example === undefined ? {} : { example: this.#example }),
    };
  }
}

const pieceLength = 2 ** 20;

/**
 * Positive numbers in rising order, in pieces: all of f16; of f32 zero and, from each exponent, `runs` runs of
 * 4096 neighbours, one of them at its start (from 2048 on: all numbers).
 */
function* sortedPieces(dtype: FloatType, runs: number): Generator<Float32Array> {
  if (dtype === "f16") {
    yield decodeFloat16(Array.from({ length: 0x7c00 }, (_, i) => i));
    return;
  }
  const length = 4096;
  const starts: number[] = [];
  for (let exponent = 0; exponent < 255; exponent++)
    for (let i = 0; i < runs; i++)
      starts.push(exponent * 2 ** 23 + Math.floor(((i / runs) * 2 ** 23) / length) * length);
  for (let first = 0; first < starts.length; first += pieceLength / length) {
    const part = starts.slice(first, first + pieceLength / length);
    const bits = new Uint32Array(part.length * length);
    for (const [k, start] of part.entries())
      for (let i = 0; i < length; i++) bits[k * length + i] = start + i;
    yield new Float32Array(bits.buffer);
  }
}

/** Whole numbers, the squares of which the type holds. */
const mostWholes: Readonly<Record<FloatType, number>> = { f32: 4097, f16: 46 };

/** Calls whose exact result is a number of the type, which they must return. */
async function exactPoints(
  backend: ComputeBackend,
  dtype: FloatType,
  report: (fact: Fact) => void,
): Promise<void> {
  const wholes = Array.from({ length: mostWholes[dtype] }, (_, i) => i);
  const some = rounded(dtype, [0.3, 1, 2, 3.14, 1e-4, 6e4, 17, 0.999, 1.001, 0, 2 ** -14]);
  const both = [...some, ...some.map((x) => -x)];
  const zeros = [0, -0];
  const [zero, one, half] = [() => 0, () => 1, () => 0.5];
  const same = (x: number) => x;
  const unary: readonly (readonly [FloatUnaryKind, readonly number[], (x: number) => number])[] = [
    ...[["exp", zeros, one] as const, ["cos", zeros, one] as const, ["sigmoid", zeros, half] as const],
    ["log", [1], zero],
    ...(["sin", "tanh", "erf", "gelu", "geluTanh", "silu"] as const).map(
      (kind) => [kind, zeros, same] as const,
    ),
    ["sqrt", wholes.map((n) => n * n), Math.sqrt],
    ["rsqrt", [0.25, 1, 4, 16, 64, 256, 1024], (x) => 1 / Math.sqrt(x)],
    ["reciprocal", [-4, -2, -1, -0.5, 0.5, 1, 2, 4, 1024], (x) => 1 / x],
  ];
  for (const [kind, values, exact] of unary) {
    if (!backend.supports("unary", { dtype, kind })) continue;
    const got = await runUnary(backend, dtype, kind, Float32Array.from(values));
    const calls = values.map((x) => `${kind}(${text(x)})`);
    report(exactFact(kind, dtype, calls, got, values.map(exact)));
  }
  const powers: readonly (readonly [values: readonly number[], exponent: (x: number) => number])[] = [
    [both, () => 0],
    [both, () => 1],
    [wholes.slice(0, 46), () => 2],
    [both.map(() => 1), (x) => x],
    [[2, 4, 3, 5, -3], (x) => (x === 2 ? 10 : x === 4 ? 0.5 : 4)],
  ];
  if (!backend.supports("binary", { dtype, kind: "pow" })) return;
  for (const [values, exponentOf] of powers) {
    const b = Float32Array.from(values, exponentOf);
    const got = await runBinary(backend, dtype, "pow", Float32Array.from(values), b);
    const calls = values.map((x, i) => `pow(${text(x)}, ${text(b[i]!)})`);
    const exact = values.map((x, i) => binaryFunctions.pow(x, b[i]!));
    report(exactFact("pow", dtype, calls, got, exact));
  }
}

function exactFact(
  kind: Fact["kind"],
  dtype: FloatType,
  calls: readonly string[],
  got: Float32Array,
  exact: readonly number[],
): Fact {
  const errors = exact.map((value, i) =>
    Object.is(got[i]!, value)
      ? 0
      : Math.max(Math.abs(got[i]! - value) / spacing(dtype, value), Number.MIN_VALUE),
  );
  const broken = errors.filter((error) => error !== 0).length;
  const worst = Math.max(0, ...errors);
  const at = errors.findIndex((error) => Object.is(error, worst));
  const claim = `exact: ${calls[0]} and such`;
  return {
    ...{ kind, dtype, claim, samples: calls.length, broken, worst },
    ...(broken === 0 ? {} : { example: `${calls[at]} = ${text(got[at]!)}, not ${text(exact[at]!)}` }),
  };
}

function text(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}
