import {
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  type Operand,
} from "@backplane/core";
import { decoded } from "../elements.js";
import { argumentsOf } from "../kit/arguments.js";
import { bytesOf, check, sameBytes } from "../kit/checks.js";
import type { Call, Change } from "../ops/operation.js";
import { createReferenceBackend } from "../reference.js";
import { invoke, operandBytes, operandType, type TestCall } from "./calls.js";

/** Small calls set up on a backend: every operand with known content in an allocation of its own. */
export class CallBench {
  readonly call: TestCall;
  readonly dtype: DType;
  readonly places: Readonly<Record<string, DeviceHandle>>;
  readonly #backend: ComputeBackend;

  /** Allocates and fills all operands. */
  constructor(backend: ComputeBackend, call: TestCall, dtype: DType) {
    this.call = call;
    this.dtype = dtype;
    this.#backend = backend;
    this.places = Object.fromEntries(
      Object.keys(call.operands).map((name) => [name, backend.alloc(this.content(name).length)]),
    );
    for (const [name, handle] of Object.entries(this.places)) backend.copyHtoD(handle, this.content(name));
  }

  /** Returns the contents of an operand before the call, the output included. */
  content(name: string): Uint8Array<ArrayBuffer> {
    const index = Object.keys(this.call.operands).indexOf(name);
    return operandBytes(this.call.operands[name]!, index, operandType(this.call, this.dtype, name));
  }

  invoke(change: Change = {}): void {
    invoke(this.#backend, this.call, this.dtype, this.places, change);
  }

  /** Renames one argument of the call. */
  rename(name: string, other: string): void {
    const { [name]: value, ...others } = this.#arguments;
    this.#call(argumentsOf({ ...others, [other]: value }));
  }

  /**
   * Checks that the call gives the right result if its objects inherit their properties from classes, as
   * getters. The output is then as before.
   */
  async checkGetters(): Promise<void> {
    const operands = Object.entries(this.places).map(([name, handle]) => [
      name,
      withGetters({ handle, byteOffset: 0 }),
    ]);
    this.#call(withGetters(argumentsOf({ ...this.#arguments, ...Object.fromEntries(operands) })));
    await this.#checkResults("the result of arguments with getters");
    for (const output of this.call.outputs)
      this.#backend.copyHtoD(this.places[output]!, this.content(output));
  }

  get #arguments(): Change {
    return { dtype: this.dtype, ...this.call.rest, ...this.places };
  }

  #call(args: object): void {
    (this.#backend[this.call.operation].bind(this.#backend) as (args: unknown) => void)(args);
  }

  /** Checks that every operand still has its first bytes. */
  async checkUntouched(after: string): Promise<void> {
    for (const [name, handle] of Object.entries(this.places)) {
      const content = this.content(name);
      sameBytes(await bytesOf(this.#backend, handle, content.length), content, `${name} after ${after}`);
    }
  }

  /** Checks that the unchanged call gives the right result. */
  async checkWorks(after: string): Promise<void> {
    this.invoke();
    await this.#checkResults(`the result after ${after}`);
  }

  async #checkResults(what: string): Promise<void> {
    checkResults(
      this.call,
      this.dtype,
      await this.results(),
      await expectedResults(this.call, this.dtype),
      what,
    );
  }

  /** Reads the outputs, wherever a change of the call has put them. */
  async results(change: Change = {}): Promise<Results> {
    const results: [string, Uint8Array<ArrayBuffer>][] = [];
    for (const name of this.call.outputs) {
      const place = (change[name] ?? this.places[name]) as Operand;
      results.push([name, await bytesOf(this.#backend, place, this.content(name).length)]);
    }
    return Object.fromEntries(results);
  }

  free(): void {
    for (const handle of Object.values(this.places)) this.#backend.free(handle);
  }
}

/** Returns an object without own properties; its class has a getter for each of `properties`. */
function withGetters(properties: object): object {
  const getters = Object.entries(properties).map(([name, value]) => [name, { get: () => value }] as const);
  return Object.create(Object.defineProperties({}, Object.fromEntries(getters))) as object;
}

/** The bytes of each output of a call. */
export type Results = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

/** The outputs of a small call, from the reference; `change` may move operands onto each other. */
export async function expectedResults(
  call: TestCall,
  dtype: DType,
  change: (places: Record<string, DeviceHandle>) => Change = () => ({}),
): Promise<Results> {
  await using reference = createReferenceBackend();
  await reference.init();
  const bench = new CallBench(reference, call, dtype);
  const changed = change({ ...bench.places });
  bench.invoke(changed);
  // Awaited here: the reference is closed on return.
  return await bench.results(changed);
}

/** Checks every output against the reference's: bit by bit, unless the call allows an error. */
export function checkResults(
  call: TestCall,
  dtype: DType,
  got: Results,
  expected: Results,
  what: string,
): void {
  const { operation, outputs, allowed = 0 } = call;
  for (const name of outputs) {
    const type = operandType(call, dtype, name);
    const where = `${operation} ${dtype}: ${what}${outputs.length > 1 ? ` (${name})` : ""}`;
    if (allowed === 0) sameBytes(got[name]!, expected[name]!, where);
    else {
      const numbers = ({ buffer, length }: Uint8Array<ArrayBuffer>) =>
        decoded(buffer, 0, length / dtypeBytes[type], type);
      const [a, b] = [numbers(got[name]!), numbers(expected[name]!)];
      for (let i = 0; i < b.length; i++)
        check(Math.abs(a[i]! - b[i]!) <= allowed, `${where}: element ${i} is ${a[i]}, expected ${b[i]}`);
    }
  }
}

/** Bytes of all elements of an operand. */
export function operandSize(call: Call, dtype: DType, name: string): number {
  return call.operands[name]! * dtypeBytes[operandType(call, dtype, name)];
}
