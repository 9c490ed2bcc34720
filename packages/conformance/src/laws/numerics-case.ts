import {
  type ArithmeticKind,
  type ComputeBackend,
  dtypeBytes,
  type FloatType,
  float16FromBits,
  float16ToBits,
  type Operand,
  type OperationName,
  type UnaryKind,
} from "@backplane/core";
import type { Law, LawContext, NumericsPromise } from "../law.js";

export type Call = (operands: readonly Operand[], output: Operand) => void;

/** Runs a call on inputs of any values, NaN and zeros of either sign included. */
export async function compute(
  backend: ComputeBackend,
  dtype: FloatType,
  inputs: readonly (readonly number[])[],
  outputs: number,
  call: Call,
): Promise<number[]> {
  const size = dtypeBytes[dtype];
  const handles = [
    ...inputs.map((input) => backend.alloc(input.length * size)),
    backend.alloc(outputs * size),
  ];
  try {
    for (const [i, input] of inputs.entries())
      backend.copyHtoD(
        handles[i]!,
        dtype === "f32" ? Float32Array.from(input) : Uint16Array.from(input, float16ToBits),
      );
    const output = handles[inputs.length]!;
    call(handles.slice(0, -1), output);
    const result = dtype === "f32" ? new Float32Array(outputs) : new Uint16Array(outputs);
    await backend.copyDtoH(result, output);
    return Array.from(result, (value) => (dtype === "f32" ? value : float16FromBits(value)));
  } finally {
    for (const handle of handles) backend.free(handle);
  }
}

/** Compares as Object.is does, so that NaN equals NaN and zeros differ in sign. */
export function expectSame(what: string, got: readonly number[], expected: readonly number[]): void {
  const wrong = expected.findIndex((value, i) => !Object.is(got[i], value));
  if (wrong < 0) return;
  const name = (value: number | undefined) => (Object.is(value, -0) ? "-0" : String(value));
  throw new Error(`${what}: result ${wrong} is ${name(got[wrong])}, not ${name(expected[wrong]!)}`);
}

export function kept(flag: "nan" | "infinity" | "subnormals" | "signedZero"): NumericsPromise {
  return { flag, value: "kept" };
}

/** The kind of reduce, unary and binary that the laws of one kind use. */
const usualKind: Partial<Record<OperationName, string>> = { reduce: "sum", unary: "neg", binary: "add" };

/**
 * A law on a promise, or on all backends if there is none. Laws on several kinds leave out those that a
 * backend lacks; laws `ofUsualKind` bind only a backend that has it.
 */
export function numericsLaw(
  dtype: FloatType,
  operation: OperationName,
  name: string,
  promise: NumericsPromise | undefined,
  run: (context: LawContext) => Promise<void>,
  ofUsualKind = false,
): Law {
  return {
    ...{ topic: "numerics", name: `${operation}: ${name}`, operation, dtype, run },
    ...(promise === undefined ? {} : { promise }),
    exempt: (_capabilities, backend) => {
      const kind = ofUsualKind ? usualKind[operation] : undefined;
      if (kind === undefined || backend.supports(operation, { dtype, kind })) return undefined;
      return `${kind} in ${dtype} is not supported`;
    },
  };
}

export function unaryCall(backend: ComputeBackend, dtype: FloatType, kind: UnaryKind, n: number): Call {
  return ([input], output) => backend.unary({ kind, n, input: input!, output, dtype });
}

export function binaryCall(backend: ComputeBackend, dtype: FloatType, kind: ArithmeticKind, n: number): Call {
  return ([a, b], output) => backend.binary({ kind, n, a: a!, b: b!, output, dtype });
}

/** Checks a unary kind on some arguments; does nothing if the backend lacks the kind. */
export async function expectUnary(
  { backend }: LawContext,
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
  expectSame(
    `${kind} of ${inputs.join(", ")}`,
    got,
    pairs.map(([, y]) => y),
  );
}

export async function expectBinary(
  { backend }: LawContext,
  dtype: FloatType,
  kind: ArithmeticKind,
  triples: readonly (readonly [a: number, b: number, y: number])[],
): Promise<void> {
  if (!backend.supports("binary", { dtype, kind })) return;
  const inputs = [triples.map(([a]) => a), triples.map(([, b]) => b)];
  const n = triples.length;
  const got = await compute(backend, dtype, inputs, n, binaryCall(backend, dtype, kind, n));
  expectSame(
    `${kind} of ${triples.map(([a, b]) => `(${a}, ${b})`).join(", ")}`,
    got,
    triples.map(([, , y]) => y),
  );
}
