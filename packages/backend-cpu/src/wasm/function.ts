import { ByteBuffer, type Code, unsigned, type ValueType, valueTypeCodes } from "./encoding.js";
import { type Arg, operand, type Value } from "./expressions.js";
import { i32 } from "./scalars.js";
import { f32x4, v128 } from "./vectors.js";

/** A local variable; used as a value it is read. */
export interface Local<Type extends ValueType = ValueType> extends Value<Type> {
  readonly index: number;
}

/** The place that a `block`, `loop` or `if` can be left towards (a loop: its beginning). */
export interface Label {
  readonly depth: number;
}

export interface Signature {
  readonly parameters: readonly ValueType[];
  readonly result: ValueType | undefined;
}

/** A function of the module being built, to be called from other functions. */
export interface FunctionReference {
  readonly index: number;
  readonly signature: Signature;
}

export interface RangeOptions {
  /** Added to the counter after each round; at least 1. Default 1. */
  readonly step?: number | Value<"i32">;
  /** Compare as signed numbers. Default false: addresses and counts may pass 2^31. */
  readonly signed?: boolean;
}

const blockWithoutResult = 0x40;

/** The body of one function, written statement by statement. */
export class FunctionBuilder {
  readonly #parameters: number;
  /** Whether `multiplyAdd`, `multiplySubtract` and `choose` may be the faster relaxed instructions. */
  readonly relaxedSimd: boolean;
  readonly #localTypes: ValueType[] = [];
  readonly #body: ByteBuffer = new ByteBuffer();
  #depth = 0;

  constructor(parameters: number, relaxedSimd: boolean) {
    this.#parameters = parameters;
    this.relaxedSimd = relaxedSimd;
  }

  /** a * b + c on f32x4: fused, and so rounded once, where the engine and the machine can do that. */
  multiplyAdd(a: Value<"v128">, b: Value<"v128">, c: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? f32x4.relaxedMadd(a, b, c) : f32x4.add(f32x4.mul(a, b), c);
  }

  /** c - a * b on f32x4, likewise. */
  multiplySubtract(a: Value<"v128">, b: Value<"v128">, c: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? f32x4.relaxedNmadd(a, b, c) : f32x4.sub(c, f32x4.mul(a, b));
  }

  /** Declares a local variable (zero at first). */
  local<Type extends ValueType>(type: Type): Local<Type> {
    const index = this.#parameters + this.#localTypes.push(type) - 1;
    return { type, index, code: [0x20, unsigned(index)] };
  }

  /** Declares a local variable and sets it: evaluates an expression once. */
  let<Type extends ValueType>(value: Value<Type>): Local<Type> {
    const local = this.local(value.type);
    this.#body.push([value.code, 0x21, unsigned(local.index)]);
    return local;
  }

  /** local = value */
  set<Type extends ValueType>(local: Local<Type>, value: Arg<NoInfer<Type>>): void {
    this.#body.push([operand(local.type, value).code, 0x21, unsigned(local.index)]);
  }

  /** local += value, for i32 */
  add(local: Local<"i32">, value: Arg<"i32">): void {
    this.set(local, i32.add(local, value));
  }

  /** Lanes of `a` where the mask is all ones, of `b` where it is all zeros, as comparisons of 32 or 64 bits give. */
  choose(a: Value<"v128">, b: Value<"v128">, mask: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? v128.relaxedLaneselect(a, b, mask) : v128.bitselect(a, b, mask);
  }

  // Memory

  /** Stores at `address + offset`; an i32, f32, f64 or v128 by its type. */
  store(address: Arg<"i32">, value: Value, offset = 0): void {
    const opcodes: Readonly<Record<ValueType, Code>> = {
      i32: [0x36],
      i64: [0x37],
      f32: [0x38],
      f64: [0x39],
      v128: [0xfd, 0x0b],
    };
    this.#store(address, value, [opcodes[value.type], 0, unsigned(offset)]);
  }

  store8(address: Arg<"i32">, value: Arg<"i32">, offset = 0): void {
    this.#store(address, operand("i32", value), [0x3a, 0, unsigned(offset)]);
  }

  store16(address: Arg<"i32">, value: Arg<"i32">, offset = 0): void {
    this.#store(address, operand("i32", value), [0x3b, 0, unsigned(offset)]);
  }

  /** Stores one lane of 8, 16, 32 or 64 bits. */
  storeLane(
    bits: 8 | 16 | 32 | 64,
    lane: number,
    address: Arg<"i32">,
    value: Value<"v128">,
    offset = 0,
  ): void {
    const opcode = { 8: 0x58, 16: 0x59, 32: 0x5a, 64: 0x5b }[bits];
    this.#store(address, value, [0xfd, opcode, 0, unsigned(offset), lane]);
  }

  #store(address: Arg<"i32">, value: Value, instruction: Code): void {
    this.#body.push([operand("i32", address).code, value.code, instruction]);
  }

  /** Copies bytes; the regions may overlap. */
  memoryCopy(destination: Arg<"i32">, source: Arg<"i32">, bytes: Arg<"i32">): void {
    const operands = [destination, source, bytes].map((part) => operand("i32", part).code);
    this.#body.push([operands, 0xfc, 0x0a, 0, 0]);
  }

  /** Sets each of `bytes` bytes to the low byte of `value`. */
  memoryFill(destination: Arg<"i32">, value: Arg<"i32">, bytes: Arg<"i32">): void {
    const operands = [destination, value, bytes].map((part) => operand("i32", part).code);
    this.#body.push([operands, 0xfc, 0x0b, 0]);
  }

  // Control

  /** Runs the body once; branching to the label leaves it. */
  block(body: (exit: Label) => void): void {
    this.#structured([0x02, blockWithoutResult], body);
  }

  /** Runs the body; branching to the label starts it again, reaching its end leaves it. */
  loop(body: (again: Label) => void): void {
    this.#structured([0x03, blockWithoutResult], body);
  }

  if(condition: Arg<"i32">, then: (exit: Label) => void, otherwise?: (exit: Label) => void): void {
    this.#body.push([operand("i32", condition).code, 0x04, blockWithoutResult]);
    this.#depth++;
    const label = { depth: this.#depth };
    then(label);
    if (otherwise) {
      this.#body.push([0x05]);
      otherwise(label);
    }
    this.#depth--;
    this.#body.push([0x0b]);
  }

  br(label: Label): void {
    this.#body.push([0x0c, unsigned(this.#depth - label.depth)]);
  }

  brIf(label: Label, condition: Arg<"i32">): void {
    this.#body.push([operand("i32", condition).code, 0x0d, unsigned(this.#depth - label.depth)]);
  }

  return(value?: Value): void {
    this.#body.push([value?.code ?? [], 0x0f]);
  }

  unreachable(): void {
    this.#body.push([0x00]);
  }

  /** for (let i = start; i < end; i += step) body(i). `end` and `step` are evaluated each round. */
  forRange(
    start: Arg<"i32">,
    end: Arg<"i32">,
    body: (i: Local<"i32">) => void,
    options: RangeOptions = {},
  ): void {
    const counter = this.let(operand("i32", start));
    this.forLocal(counter, end, () => body(counter), options);
  }

  /** The same on a counter of the caller's, which goes on from its value and keeps the last one. */
  forLocal(counter: Local<"i32">, end: Arg<"i32">, body: () => void, options: RangeOptions = {}): void {
    const within = options.signed ? i32.ltS(counter, end) : i32.ltU(counter, end);
    // The condition stands at the end of the loop, where one branch both tests and repeats.
    this.if(within, () => {
      this.loop((again) => {
        body();
        this.add(counter, options.step ?? 1);
        this.brIf(again, within);
      });
    });
  }

  /** while (condition) body() */
  while(condition: Value<"i32">, body: () => void): void {
    this.if(condition, () => {
      this.loop((again) => {
        body();
        this.brIf(again, condition);
      });
    });
  }

  /** Calls a function that returns nothing. */
  call(callee: FunctionReference, ...operands: readonly Arg<ValueType>[]): void {
    this.#body.push(callCode(callee, operands));
  }

  #structured(opening: Code, body: (label: Label) => void): void {
    this.#body.push(opening);
    this.#depth++;
    body({ depth: this.#depth });
    this.#depth--;
    this.#body.push([0x0b]);
  }

  /** The finished body: its locals, in runs of one type, and its instructions. */
  code(result: Value | undefined): Code {
    const runs: { type: ValueType; count: number }[] = [];
    for (const type of this.#localTypes) {
      const last = runs.at(-1);
      if (last?.type === type) last.count++;
      else runs.push({ type, count: 1 });
    }
    const locals = runs.map((run) => [unsigned(run.count), valueTypeCodes[run.type]]);
    return [unsigned(runs.length), locals, this.#body.toBytes(), result?.code ?? [], 0x0b];
  }
}

/** The result of a function that returns a value. */
export function callValue<Type extends ValueType>(
  type: Type,
  callee: FunctionReference,
  ...operands: readonly Arg<ValueType>[]
): Value<Type> {
  if (callee.signature.result !== type)
    throw new TypeError(`function ${callee.index} returns ${callee.signature.result}, not ${type}`);
  return { type, code: callCode(callee, operands) };
}

function callCode(callee: FunctionReference, operands: readonly Arg<ValueType>[]): Code {
  const { parameters } = callee.signature;
  if (operands.length !== parameters.length)
    throw new TypeError(
      `function ${callee.index} takes ${parameters.length} operands, not ${operands.length}`,
    );
  const codes = operands.map((part, i) => operand(parameters[i]!, part).code);
  return [codes, 0x10, unsigned(callee.index)];
}
