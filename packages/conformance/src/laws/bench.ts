import {
  type ComputeBackend,
  type DeviceHandle,
  decodeFloat16,
  dtypeBytes,
  type FloatType,
  type Operand,
} from "@backplane/core";
import { createReferenceBackend } from "../reference.js";
import { invoke, operandBytes, type SmallCall } from "./calls.js";
import { bytesOf, check, sameBytes } from "./support.js";

/** Small calls set up on a backend: every operand with known content in an allocation of its own. */
export class CallBench {
  readonly call: SmallCall;
  readonly dtype: FloatType;
  readonly places: Readonly<Record<string, DeviceHandle>>;
  readonly #backend: ComputeBackend;

  /** Allocates and fills all operands. */
  constructor(backend: ComputeBackend, call: SmallCall, dtype: FloatType) {
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
    return operandBytes(this.call.operands[name]!, index, this.dtype);
  }

  invoke(change: Readonly<Record<string, unknown>> = {}): void {
    invoke(this.#backend, this.call, this.dtype, this.places, change);
  }

  /** Renames one argument of the call. */
  rename(name: string, other: string): void {
    const { [name]: value, ...others } = this.#arguments;
    this.#call({ ...others, [other]: value });
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
    this.#call(withGetters({ ...this.#arguments, ...Object.fromEntries(operands) }));
    await this.#checkResult("the result of arguments with getters");
    const { output } = this.call;
    this.#backend.copyHtoD(this.places[output]!, this.content(output));
  }

  get #arguments(): Readonly<Record<string, unknown>> {
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
    await this.#checkResult(`the result after ${after}`);
  }

  async #checkResult(what: string): Promise<void> {
    const got = await bytesOf(
      this.#backend,
      this.places[this.call.output]!,
      this.content(this.call.output).length,
    );
    checkResult(this.call, this.dtype, got, await expectedResult(this.call, this.dtype), what);
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

/** The output bytes of a small call, from the reference; `change` may move operands onto each other. */
export async function expectedResult(
  call: SmallCall,
  dtype: FloatType,
  change: (places: Record<string, DeviceHandle>) => Readonly<Record<string, unknown>> = () => ({}),
): Promise<Uint8Array<ArrayBuffer>> {
  await using reference = createReferenceBackend();
  await reference.init();
  const bench = new CallBench(reference, call, dtype);
  const changed = change({ ...bench.places });
  bench.invoke(changed);
  const output = (changed[call.output] ?? bench.places[call.output]) as Operand;
  // Awaited here: the reference is closed on return.
  return await bytesOf(reference, output, bench.content(call.output).length);
}

/**
 * Checks a result against the reference's: bit by bit, since the data are small whole numbers, except
 * for attention, whose own laws hold it to its tolerance.
 */
export function checkResult(
  call: SmallCall,
  dtype: FloatType,
  got: Uint8Array<ArrayBuffer>,
  expected: Uint8Array<ArrayBuffer>,
  what: string,
): void {
  const where = `${call.operation} ${dtype}: ${what}`;
  if (call.operation !== "attention") {
    sameBytes(got, expected, where);
    return;
  }
  const numbers = (bytes: Uint8Array<ArrayBuffer>) =>
    dtype === "f32" ? new Float32Array(bytes.buffer) : decodeFloat16(new Uint16Array(bytes.buffer));
  const [a, b] = [numbers(got), numbers(expected)];
  for (let i = 0; i < b.length; i++)
    check(Math.abs(a[i]! - b[i]!) <= 0.05, `${where}: element ${i} is ${a[i]}, expected ${b[i]}`);
}

/** Bytes of all elements of an operand. */
export function operandSize(call: SmallCall, dtype: FloatType, name: string): number {
  return call.operands[name]! * dtypeBytes[dtype];
}
