import {
  type ComputeBackend,
  copyCall,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  fillCall,
  type HostBytes,
  makeCall,
  nameOf,
  type Operand,
  type Operation,
  type OperationName,
  operationCall,
  operations,
  type RecordedCall,
  withOperands,
} from "@backplane/core";

/** Bytes of an allocation that a call uses. */
export interface Use {
  readonly argument: string;
  readonly handle: DeviceHandle;
  readonly start: number;
  readonly length: number;
  readonly isWritten: boolean;
}

/** A call that writes, and what must be known to make it elsewhere and to judge it. */
export interface Watched {
  readonly name: string;
  /** As the caller gave them; operands are those of the first backend. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly uses: readonly Use[];
  /** Floating-point operations, as far as they are known. */
  readonly flops: number;
  /** Undefined: a fresh allocation, which needs nothing but its place. */
  readonly call: RecordedCall | Upload | undefined;
}

/** A `copyHtoD`. */
export interface Upload {
  readonly operation: "copyHtoD";
  readonly destination: Operand;
  readonly bytes: Uint8Array;
}

/** Makes a call on another backend, where the operands lie elsewhere. */
export function makeElsewhere(
  backend: ComputeBackend,
  call: RecordedCall | Upload,
  place: (operand: Operand) => Operand,
): void {
  if (call.operation === "copyHtoD") backend.copyHtoD(place(call.destination), call.bytes);
  else
    makeCall(
      backend,
      withOperands(call, (_, operand) => place(operand)),
    );
}

export function watchedAlloc(handle: DeviceHandle, bytes: number): Watched {
  const uses = [{ argument: "allocation", handle, start: 0, length: bytes, isWritten: true }];
  return { name: "alloc", args: { bytes }, uses, flops: 0, call: undefined };
}

/** The bytes are the caller's until `owned` has copied them. */
export function watchedUpload(given: Operand, source: HostBytes): Watched {
  const bytes = hostBytesOf(source);
  const isSlice = typeof given === "object";
  const destination = isSlice ? { handle: given.handle, byteOffset: given.byteOffset } : given;
  const uses = [useOf("destination", destination, bytes.length, true)];
  const call: Upload = { operation: "copyHtoD", destination, bytes };
  return { name: "copyHtoD", args: { destination, bytes: bytes.length }, uses, flops: 0, call };
}

function hostBytesOf(source: HostBytes): Uint8Array {
  const [buffer, start] = ArrayBuffer.isView(source) ? [source.buffer, source.byteOffset] : [source, 0];
  return new Uint8Array(buffer, start, source.byteLength);
}

/** Returns the call with bytes that the caller cannot change. */
export function owned(watched: Watched): Watched {
  const { call } = watched;
  if (call?.operation !== "copyHtoD") return watched;
  return { ...watched, call: { ...call, bytes: Uint8Array.from(call.bytes) } };
}

export function watchedCopy(destination: Operand, source: Operand, bytes: number): Watched {
  const uses = [useOf("destination", destination, bytes, true), useOf("source", source, bytes, false)];
  const call = copyCall(destination, source, bytes);
  return { name: "copyDtoD", args: argumentsOf(call), uses, flops: 0, call };
}

export function watchedFill(destination: Operand, value: number, count: number, dtype: DType): Watched {
  const uses = [useOf("destination", destination, count * dtypeBytes[dtype], true)];
  const call = fillCall(destination, value, count, dtype);
  return { name: "fill", args: argumentsOf(call), uses, flops: 0, call };
}

function argumentsOf({ operation: _, ...args }: RecordedCall): Watched["args"] {
  return args;
}

function useOf(argument: string, operand: Operand, length: number, isWritten: boolean): Use {
  const isSlice = typeof operand === "object";
  const [handle, start] = isSlice ? [operand.handle, operand.byteOffset] : [operand, 0];
  return { argument, handle, start, length, isWritten };
}

/**
 * Returns an operation's call; undefined if there is nothing to compute. Throws, or returns something that does not fit the
 * allocations, if the arguments are bad: then the call itself throws.
 */
export function watchedOperation(operation: Operation, args: object): Watched | undefined {
  const uses: Use[] = [];
  const problem = operation.resolve(args, {
    region(argument, operand, elements, dtype, before = 0) {
      const size = dtypeBytes[dtype];
      const [list = argument] = argument.split("[");
      const isWritten = operation.arguments[list]!.role !== "reads";
      const use = useOf(argument, operand, elements * size, isWritten);
      const start = use.start - before * size;
      uses.push({ ...use, start });
      // Each has memory of its own, so that overlaps are left to the call itself.
      return { memory: {}, byteOffset: start, byteLength: use.length };
    },
  });
  if (problem === undefined) return undefined;
  const call = operationCall(operation, args);
  const { args: own } = call as { readonly args: Readonly<Record<string, unknown>> };
  const flops = "region" in problem && "value" in problem ? 0 : operation.flops(problem);
  return { name: nameOf(call), args: own, uses, flops, call };
}

/** Whether the operation is one of core's, for which the suite has a formula. */
export function hasFormula(operation: Operation): operation is Operation & { readonly name: OperationName } {
  return (operations[operation.name as OperationName] as Operation | undefined) === operation;
}
