import {
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  type Operand,
} from "@backplane/core";
import type { Expression } from "./lazy/expression.js";
import { contiguousStrides, type Shape, sizeOf } from "./view/shape.js";
import { TensorView } from "./view/tensor-view.js";

/** What was allocated in the call of `undoneOnFailure` under way. */
let made: Value[] | undefined;

/** Returns the result of a function. If it throws, frees the values that it allocated. */
export function undoneOnFailure<Result>(body: () => Result): Result {
  const outer = made;
  made = [];
  try {
    return body();
  } catch (error) {
    for (const value of made) value.release();
    throw error;
  } finally {
    made = outer;
  }
}

/** An allocation that several values share. It is freed with the last of them. */
export class Storage {
  readonly backend: ComputeBackend;
  readonly handle: DeviceHandle;
  references = 1;

  constructor(backend: ComputeBackend, handle: DeviceHandle) {
    this.backend = backend;
    this.handle = handle;
  }

  retain(): this {
    this.references++;
    return this;
  }

  release(): void {
    if (--this.references > 0) return;
    try {
      this.backend.free(this.handle);
    } catch (error) {
      // Gone already: with its device, or with its backend.
      const { code } = error as { readonly code?: string };
      if (code !== "INVALID_HANDLE" && code !== "DISPOSED" && code !== "DEVICE_LOST") throw error;
    }
  }
}

/**
 * What a tensor holds: elements in memory, or an expression that gives them when they are needed. References count the
 * tensors, expressions and tapes that hold it; without any it is freed, or never computed. Its elements do not change
 * while more than one of them holds it.
 */
export class Value {
  readonly backend: ComputeBackend;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly size: number;
  references = 1;
  /** Undefined: not computed yet, or freed. */
  storage: Storage | undefined;
  /** Elements per step along each axis; undefined: contiguous. */
  strides: readonly number[] | undefined;
  /** Of the first element, in elements. */
  offset = 0;
  expression: Expression | undefined;

  constructor(backend: ComputeBackend, dtype: DType, shape: Shape, size: number = sizeOf(shape)) {
    this.backend = backend;
    this.dtype = dtype;
    this.shape = shape;
    this.size = size;
  }

  /** A value with memory of its own, which the caller fills. */
  static allocate(backend: ComputeBackend, dtype: DType, shape: Shape, zero = false): Value {
    const value = new Value(backend, dtype, shape);
    value.storage = allocate(backend, value.size * dtypeBytes[dtype], zero);
    made?.push(value);
    return value;
  }

  retain(): this {
    this.references++;
    return this;
  }

  release(): void {
    if (--this.references > 0) return;
    const { storage, expression } = this;
    this.storage = undefined;
    this.expression = undefined;
    storage?.release();
    if (expression !== undefined) releaseOperands(expression);
  }

  get view(): TensorView {
    return new TensorView(this.shape, this.strides ?? contiguousStrides(this.shape), this.offset);
  }
}

export function releaseOperands({ operands }: Expression): void {
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    if (typeof operand !== "number") operand.release();
  }
}

export function allocate(backend: ComputeBackend, bytes: number, zero: boolean): Storage {
  return new Storage(backend, backend.alloc(bytes, zero ? undefined : unwritten));
}

const unwritten = { zero: false };

/** Where a stored value begins. */
export function placeOf(value: Value): Operand {
  const { storage, offset, dtype } = value;
  if (storage === undefined) throw new Error("internal: the elements of a value were freed, or not computed");
  return offset === 0 ? storage.handle : { handle: storage.handle, byteOffset: offset * dtypeBytes[dtype] };
}
