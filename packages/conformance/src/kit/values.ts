import {
  type BinaryKind,
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  type FloatType,
  isComparison,
  type Numerics,
  type Operand,
  type OperationName,
  type UnaryKind,
} from "@backplane/core";
import { decoded, encoded } from "../elements.js";
import type { Law, LawContext, NumericsPromise } from "../law.js";
import { argumentsOf } from "./arguments.js";

export type Call = (operands: readonly Operand[], output: Operand) => void;

/** Runs a call with one output on inputs of any values, NaN and zeros of either sign included. */
export async function compute(
  backend: ComputeBackend,
  dtype: FloatType,
  inputs: readonly (readonly number[])[],
  outputs: number,
  call: Call,
  outputType: DType = dtype,
): Promise<number[]> {
  const { output } = await computeAll(
    backend,
    dtype,
    Object.fromEntries(inputs.entries()),
    { output: outputs },
    (places) => {
      const { output, ...others } = places;
      call(Object.values(others), output!);
    },
    outputType,
  );
  return output!;
}

/**
 * Runs a call on inputs by name. Returns the outputs; `outputs` says how many elements each of them has, and `types` which
 * inputs have another element type.
 */
export async function computeAll(
  backend: ComputeBackend,
  dtype: FloatType,
  inputs: Readonly<Record<string, readonly number[]>>,
  outputs: Readonly<Record<string, number>>,
  call: (places: Readonly<Record<string, Operand>>) => void,
  outputType: DType = dtype,
  types: Readonly<Record<string, DType>> = {},
): Promise<Readonly<Record<string, number[]>>> {
  const places: Record<string, DeviceHandle> = {};
  try {
    for (const [name, values] of Object.entries(inputs)) {
      const bytes = encoded(values, types[name] ?? dtype);
      places[name] = backend.alloc(bytes.length);
      backend.copyHtoD(places[name], bytes);
    }
    const outputSize = dtypeBytes[outputType];
    for (const [name, count] of Object.entries(outputs)) places[name] = backend.alloc(count * outputSize);
    call(places);
    const results: [string, number[]][] = [];
    for (const [name, count] of Object.entries(outputs)) {
      const bytes = new Uint8Array(count * outputSize);
      await backend.copyDtoH(bytes, places[name]!);
      results.push([name, [...decoded(bytes.buffer, 0, count, outputType)]]);
    }
    return Object.fromEntries(results);
  } finally {
    for (const handle of Object.values(places)) backend.free(handle);
  }
}

/** Runs an operation on inputs by name, with its other arguments in `rest`. */
export function computeWith(
  backend: ComputeBackend,
  operation: OperationName,
  dtype: FloatType,
  rest: Readonly<Record<string, unknown>>,
  inputs: Readonly<Record<string, readonly number[]>>,
  outputs: Readonly<Record<string, number>>,
  types?: Readonly<Record<string, DType>>,
): Promise<Readonly<Record<string, number[]>>> {
  const method = backend[operation].bind(backend) as (args: unknown) => void;
  const call = (places: Readonly<Record<string, Operand>>) =>
    method(argumentsOf({ ...rest, ...places, dtype }));
  return computeAll(backend, dtype, inputs, outputs, call, dtype, types);
}

/** Compares as Object.is does, so that NaN equals NaN and zeros differ in sign. */
export function expectSame(what: string, got: readonly number[], expected: readonly number[]): void {
  const wrong = expected.findIndex((value, i) => !Object.is(got[i], value));
  if (wrong < 0) return;
  const name = (value: number | undefined) => (Object.is(value, -0) ? "-0" : String(value));
  throw new Error(`${what}: result ${wrong} is ${name(got[wrong])}, not ${name(expected[wrong]!)}`);
}

/** A number with its sign, or without one if it is a zero whose sign is not promised. */
function withSigns({ signedZero }: Numerics): (x: number) => number {
  return signedZero === "kept" ? (x) => x : (x) => x + 0;
}

export function kept(flag: "nan" | "infinity" | "subnormals" | "signedZero"): NumericsPromise {
  return { flag, value: "kept" };
}

/**
 * A law on a promise, or on all backends if there is none. Laws on several kinds leave out those that a
 * backend lacks; laws on one `kind` bind only a backend that has it.
 */
export function numericsLaw(
  dtype: FloatType,
  operation: OperationName,
  name: string,
  promise: NumericsPromise | undefined,
  run: (context: LawContext) => Promise<void>,
  kind?: string,
): Law {
  return {
    ...{ topic: "numerics", name: `${operation}: ${name}`, operation, dtype, run },
    ...(promise === undefined ? {} : { promise }),
    exempt: (_capabilities, backend) => {
      if (kind === undefined || backend.supports(operation, { dtype, kind })) return undefined;
      return `${kind} in ${dtype} is not supported`;
    },
  };
}

export function unaryCall(backend: ComputeBackend, dtype: FloatType, kind: UnaryKind, n: number): Call {
  return ([input], output) => backend.unary({ kind, n, input: input!, output, dtype });
}

export function binaryCall(backend: ComputeBackend, dtype: FloatType, kind: BinaryKind, n: number): Call {
  return ([a, b], output) => backend.binary({ kind, n, a: a!, b: b!, output, dtype });
}

/** Checks a unary kind on some arguments; does nothing if the backend lacks the kind. */
export async function expectUnary(
  { backend, numerics }: LawContext,
  dtype: FloatType,
  kind: UnaryKind,
  pairs: readonly (readonly [x: number, y: number])[],
): Promise<void> {
  if (!backend.supports("unary", { dtype, kind })) return;
  const inputs = pairs.map(([x]) => x);
  const got = await compute(
    backend,
    dtype,
    [inputs],
    inputs.length,
    unaryCall(backend, dtype, kind, inputs.length),
  );
  const signed = withSigns(numerics);
  expectSame(
    `${kind} of ${inputs.join(", ")}`,
    got.map(signed),
    pairs.map(([, y]) => signed(y)),
  );
}

export async function expectBinary(
  { backend, numerics }: LawContext,
  dtype: FloatType,
  kind: BinaryKind,
  triples: readonly (readonly [a: number, b: number, y: number])[],
): Promise<void> {
  if (!backend.supports("binary", { dtype, kind })) return;
  const inputs = [triples.map(([a]) => a), triples.map(([, b]) => b)];
  const n = triples.length;
  const outputType = isComparison(kind) ? "u8" : dtype;
  const got = await compute(backend, dtype, inputs, n, binaryCall(backend, dtype, kind, n), outputType);
  const signed = withSigns(numerics);
  expectSame(
    `${kind} of ${triples.map(([a, b]) => `(${a}, ${b})`).join(", ")}`,
    got.map(signed),
    triples.map(([, , y]) => signed(y)),
  );
}

/** Small whole numbers in turn: -1, 0, 1, 2, -2, ... for `from` 1. */
export function countUp(n: number, from = 1): readonly number[] {
  return Array.from({ length: n }, (_, i) => ((i + from) % 5) - 2);
}

/** Of a list of this length: whether each place is one of `places`. */
export function isIn(count: number, ...places: readonly number[]): readonly boolean[] {
  return Array.from({ length: count }, (_, i) => places.includes(i));
}

/** Of the elements of a matrix: whether each of them is in this row. */
export function isInRow(row: number, rows: number, columns: number): readonly boolean[] {
  return Array.from({ length: rows * columns }, (_, i) => Math.floor(i / columns) === row);
}
