import { withHandle } from "../arguments.js";
import type { ComputeBackend } from "../backend.js";
import type { DType } from "../dtype.js";
import { copyOf, isOperand, mapOperands } from "../entries.js";
import type { DeviceHandle, Operand } from "../handles.js";
import type { OperationName } from "../ops/index.js";
import { isOfCore } from "../ops/lookup.js";
import type { Operation } from "../ops/operation.js";

interface CopyCall {
  readonly operation: "copyDtoD";
  readonly destination: Operand;
  readonly source: Operand;
  readonly bytes: number;
}

interface FillCall {
  readonly operation: "fill";
  readonly destination: Operand;
  readonly value: number;
  readonly count: number;
  readonly dtype: DType;
}

export interface OperationCall {
  readonly operation: Operation;
  readonly args: object;
}

/** A call with arguments of its own, which its caller cannot change any more. */
export type RecordedCall = CopyCall | FillCall | OperationCall;

export function copyCall(destination: Operand, source: Operand, bytes: number): RecordedCall {
  return { operation: "copyDtoD", destination: own(destination), source: own(source), bytes };
}

export function fillCall(
  destination: Operand,
  value: number,
  count: number,
  dtype: DType = "f32",
): RecordedCall {
  return { operation: "fill", destination: own(destination), value, count, dtype };
}

export function operationCall(operation: Operation, args: object): OperationCall {
  const copy = copyOf(operation, args);
  for (const argument of operation.operands) {
    const held = copy[argument];
    if (Array.isArray(held)) copy[argument] = held.map(own);
    else if (isOperand(held)) copy[argument] = own(held);
  }
  return { operation, args: copy };
}

/** Callers may change their slices later. */
function own<Value>(value: Value): Value | Operand {
  return isOperand(value) ? withHandle(value, (handle) => handle) : value;
}

export function nameOf({ operation }: RecordedCall): string {
  return typeof operation === "string" ? operation : operation.name;
}

/** Returns the same call with every operand replaced. */
export function withOperands(
  call: RecordedCall,
  map: (argument: string, operand: Operand) => Operand,
): RecordedCall {
  const { operation } = call;
  if (operation === "copyDtoD") {
    const { destination, source } = call;
    return { ...call, destination: map("destination", destination), source: map("source", source) };
  }
  if (operation === "fill") return { ...call, destination: map("destination", call.destination) };
  return { operation, args: mapOperands(operation, call.args, map) };
}

/** Calls `see` with every handle of a call. */
export function forEachHandle(
  call: RecordedCall,
  see: (handle: DeviceHandle, argument: string) => void,
): void {
  const { operation } = call;
  if (typeof operation === "string") {
    see(handleOf(call.destination), "destination");
    if (call.operation === "copyDtoD") see(handleOf(call.source), "source");
    return;
  }
  const args = call.args as Readonly<Record<string, unknown>>;
  for (const argument of operation.operands) {
    const held = args[argument];
    if (isOperand(held)) see(handleOf(held), argument);
    else if (Array.isArray(held))
      for (const [i, one] of held.entries()) if (isOperand(one)) see(handleOf(one), `${argument}[${i}]`);
  }
}

function handleOf(operand: Operand): DeviceHandle {
  return typeof operand === "object" ? operand.handle : operand;
}

/** Makes the call on a backend. */
export function makeCall(backend: ComputeBackend, call: RecordedCall): void {
  if (call.operation === "copyDtoD") backend.copyDtoD(call.destination, call.source, call.bytes);
  else if (call.operation === "fill") backend.fill(call.destination, call.value, call.count, call.dtype);
  else callOperation(backend, call.operation, call.args);
}

/** Calls the method of a core operation if there is one: the backend may be older than `run`. */
export function callOperation(backend: ComputeBackend, operation: Operation, args: object): void {
  const method = isOfCore(operation) ? backend[operation.name as OperationName] : undefined;
  if (method === undefined) backend.run(operation, args);
  else method.call(backend, args as never);
}
